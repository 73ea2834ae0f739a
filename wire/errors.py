"""Errors that are meant for a person."""


class UserError(ValueError):
    """One clear sentence: what is wrong, and what to do next.

    The command prints it and ends with status 2. Everything that can go wrong by the user's or the
    machine's doing is raised as this; whatever else escapes is a bug and keeps its traceback.
    """
