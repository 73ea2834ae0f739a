"""How a refusal is written: a problem document (RFC 9457), the same for every error of the API."""

from http import HTTPStatus

import msgspec

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
