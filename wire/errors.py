"""Errors that are meant for a person."""

from http import HTTPStatus

import msgspec

"""Errors that are meant for a person."""


class UserError(ValueError):
    """One clear sentence: what is wrong, and what to do next.

    The command prints it and ends with status 2. Everything that can go wrong by the user's or the
    machine's doing is raised as this; whatever else escapes is a bug and keeps its traceback.
    """


PROBLEM_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was refused, for a program by `status` and `field`, for a person by `detail`."""

    title: str
    """What the status means."""
    status: int
    detail: str
    """What is wrong with this request, and what would be right."""
    field: str | None = None
    """The part of the request that is wrong: a query parameter, or a path into the body."""


def problem(status: HTTPStatus, detail: str, field: str | None = None) -> Problem:
    """A problem document for one status."""
    return Problem(title=status.phrase, status=status.value, detail=detail, field=field)
