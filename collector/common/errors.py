"""Errors of the API: raised anywhere, returned by the middleware as a problem document."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from aiohttp import web

from wire.errors import PROBLEM_TYPE, problem
from wire.messages import encode


class ApiError(Exception):
    """A rejected request, and the reason."""

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
        """The HTTP response."""
        return web.Response(
            status=self.problem.status,
            body=encode(self.problem),
            content_type=PROBLEM_TYPE,
            headers=self._headers,
        )


def message_and_path(error: msgspec.ValidationError) -> tuple[str, str]:
    """The message of msgspec, and the path to the invalid field: `$` is the whole, `$[0].node` a part."""
    what, _, where = str(error).partition(" - at `")
    # An invalid key has the form "at `key` in `$[0].labels`".
    return what, where.removesuffix("`").removeprefix("key` in `") or "$"
