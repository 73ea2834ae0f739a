"""Why a request is refused: in terms of the question below the API, as a problem document there."""

import re
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from aiohttp import web

from wire.errors import PROBLEM_TYPE, UserError, problem
from wire.messages import encode

_EXPECTED = re.compile(r"Expected `(?P<kind>\w+)(?: \| null)?`(?P<rest>[^,]*)(?:, got .*)?")
_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "object": "an object",
    "array": "a list",
}


class QuestionError(UserError):
    """An invalid question. The middleware returns it with status 400."""

    status = HTTPStatus.BAD_REQUEST

    def __init__(self, detail: str, field: str = "$") -> None:
        super().__init__(detail)
        self.field = field
        """The path to the part of the question that is wrong."""


class LimitError(QuestionError):
    """A valid question, for which too much is pending. Status 429."""

    status = HTTPStatus.TOO_MANY_REQUESTS


class WorkerUnavailable(Exception):  # noqa: N818 - a state that passes, not a bug
    """The process that computes ended, and is being started again. The middleware returns status 503."""


class HistoryUnavailable(Exception):  # noqa: N818 - a state of the disk or store that passes, not a bug
    """The history cannot be written or read now; the message gives the reason. Status 503."""


class ApiError(Exception):
    """A rejected request, and its status. Only the API raises it."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        field: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = problem(status, detail, field)
        self._headers = headers

    def response(self) -> web.Response:
        return web.Response(
            status=self.problem.status,
            body=encode(self.problem),
            content_type=PROBLEM_TYPE,
            headers=self._headers,
        )


def message_and_path(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the message of msgspec, and the path to the invalid field: `$` or, say, `$[0].node`."""
    what, _, where = str(error).partition(" - at `")
    # An invalid key has the form "at `key` in `$[0].labels`".
    return what, where.removesuffix("`").removeprefix("key` in `") or "$"


def field_sentence(message: str, name: str) -> str:
    """Return what is wrong with a field, such as `reserve.cpu_cores must be a number >= 0.0`."""
    if match := _EXPECTED.fullmatch(message):
        return f"{name} must be {_KINDS.get(match['kind'], match['kind'])}{match['rest']}"
    return f"{name}: {message[:1].lower()}{message[1:]}"
