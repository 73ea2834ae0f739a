"""Errors for the user: one sentence on the command line, a problem document over HTTP."""

from http import HTTPStatus

import msgspec


class UserError(ValueError):
    """One clear sentence: what is wrong, and what to do next.

    The command prints it and exits with status 2. Every error that a user or a machine can cause is raised as
    this class; any other exception is a bug and keeps its traceback.
    """


def os_reason(error: OSError) -> str:
    """Why the system refused, without the path: `no such file or directory`."""
    return (error.strerror or str(error)).lower()


INVALID_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding JSON raises: bytes that are no text, and very deep nesting, have errors of their own."""

PROBLEM_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request failed (RFC 9457). Programs read `status` and `field`, people read `detail`."""

    title: str
    """Meaning of the status code."""
    status: int
    """HTTP status code."""
    detail: str
    """What is wrong with this request, and how to correct it."""
    field: str | None = None
    """The invalid part of the request: a query parameter, or a path into the body."""


def problem(status: HTTPStatus, detail: str, field: str | None = None) -> Problem:
    """Create the problem document for a status code."""
    return Problem(title=status.phrase, status=status.value, detail=detail, field=field)
