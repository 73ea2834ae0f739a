"""Saying no to a request: raised anywhere, answered at the door as a problem document."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from aiohttp import web

from wire.errors import PROBLEM_TYPE, problem
from wire.messages import encode


class ApiError(Exception):
    """A request that is not served, and why."""

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
        """The refusal as the client sees it."""
        return web.Response(
            status=self.problem.status,
            body=encode(self.problem),
            content_type=PROBLEM_TYPE,
            headers=self._headers,
        )


def what_and_where(error: msgspec.ValidationError) -> tuple[str, str]:
    """What msgspec found wrong, and the path to it: `$` is the whole, `$[0].node` a part."""
    what, _, where = str(error).partition(" - at `")
    # Of a key that is wrong, it tells where it stands: "at `key` in `$[0].labels`".
    return what, where.removesuffix("`").removeprefix("key` in `") or "$"
