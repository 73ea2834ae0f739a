"""Routes. The server, the OpenAPI document and the API reference are made from one table of them."""

import difflib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from aiohttp import hdrs, web

from collector.common.errors import ApiError, field_sentence, message_and_path
from collector.web.bodies import JSON_TYPE, parse_body, read_body
from collector.web.scopes import Scope
from wire.errors import PROBLEM_TYPE, Problem
from wire.messages import encode

Query = TypeVar("Query", bound=msgspec.Struct)
Body = TypeVar("Body", bound=msgspec.Struct)
Context = Any
"""The object that handlers work on, such as the collector; the application provides it."""
Serve = Callable[[Context, web.Request], Awaitable[web.StreamResponse]]


class NoQuery(msgspec.Struct, frozen=True):
    """A route without parameters."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One possible response of a route."""

    description: str
    type: Any = str
    content_type: str = JSON_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One endpoint."""

    method: str
    path: str
    summary: str
    serve: Serve
    answers: Mapping[HTTPStatus, Answer]
    query: type[msgspec.Struct] = NoQuery
    """Type of its parameters: those in braces in `path`, and those of the query string."""
    body: Any = None
    """Type of the request body, if there is one."""
    needs: Scope | None = None
    """Required scope; by default read for GET, admin for other methods."""
    lasts: bool = False
    """Whether the response lasts for as long as the client stays."""

    @property
    def scope(self) -> Scope:
        if self.needs is not None:
            return self.needs
        return Scope.READ if self.method == hdrs.METH_GET else Scope.ADMIN


def refused(status: HTTPStatus, description: str) -> dict[HTTPStatus, Answer]:
    """An error response of a route."""
    return {status: Answer(description, Problem, PROBLEM_TYPE)}


REFUSED_HOST = refused(
    HTTPStatus.FORBIDDEN, "The Host header is not a name of the collector, or the token is of the wrong kind."
)
NO_TOKEN = refused(HTTPStatus.UNAUTHORIZED, "A valid token is required.")
REFUSED_QUERY = refused(HTTPStatus.BAD_REQUEST, "A parameter is unknown or invalid.")
REFUSED_BODY = {
    **refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The decompressed body is too large."),
    **refused(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The media type or the compression of the body is not supported."
    ),
    **refused(HTTPStatus.REQUEST_TIMEOUT, "The body took too long to arrive."),
}
NO_NODE = refused(HTTPStatus.NOT_FOUND, "No node has this name.")
NO_HISTORY = refused(HTTPStatus.SERVICE_UNAVAILABLE, "The history is unavailable; retry later.")


def get(  # noqa: PLR0913 - one argument per column of the table
    path: str,
    summary: str,
    answer: type[msgspec.Struct],
    handler: Callable[[Context, Query], Awaitable[msgspec.Struct]],
    *,
    query: type[Query],
    refusals: Mapping[HTTPStatus, Answer] | None = None,
    scope: Scope = Scope.READ,
) -> Route:
    """A GET route with typed parameters and a typed JSON response."""

    async def serve(context: Context, request: web.Request) -> web.Response:
        parameters = parse_query(request, query)
        return web.Response(body=encode(await handler(context, parameters)), content_type=JSON_TYPE)

    answers = _found(answer) | REFUSED_QUERY | REFUSED_HOST | dict(refusals or {})
    return Route(
        method="GET", path=path, summary=summary, serve=serve, answers=answers, query=query, needs=scope
    )


def post(  # noqa: PLR0913 - one argument per column of the table
    path: str,
    summary: str,
    answer: type[msgspec.Struct],
    handler: Callable[[Context, Body], Awaitable[msgspec.Struct]],
    *,
    body: type[Body],
    refusals: Mapping[HTTPStatus, Answer] | None = None,
    scope: Scope = Scope.READ,
) -> Route:
    """A POST route with a typed JSON body and a typed JSON response."""
    decoder = msgspec.json.Decoder(body)

    async def serve(context: Context, request: web.Request) -> web.Response:
        parse_query(request, NoQuery)
        parsed = parse_body(await read_body(request), decoder.decode)
        return web.Response(body=encode(await handler(context, parsed)), content_type=JSON_TYPE)

    invalid = refused(HTTPStatus.BAD_REQUEST, "The body is invalid.")
    answers = _found(answer) | invalid | REFUSED_BODY | REFUSED_HOST | dict(refusals or {})
    return Route(
        method="POST", path=path, summary=summary, serve=serve, answers=answers, body=body, needs=scope
    )


def _found(answer: type[msgspec.Struct]) -> dict[HTTPStatus, Answer]:
    return {HTTPStatus.OK: Answer((answer.__doc__ or "").partition("\n")[0], answer)}


def parse_query(request: web.Request, query: type[Query]) -> Query:
    """Parse parameters in the path and the query string; raises `ApiError` that names an invalid one."""
    in_path = dict(request.match_info)
    valid = [name for name in query.__struct_fields__ if name not in in_path]
    for name in request.query:
        if name not in valid:
            near = difflib.get_close_matches(name, valid, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"valid are {', '.join(valid) or 'none'}"
            raise ApiError(HTTPStatus.BAD_REQUEST, f"unknown parameter {name}: {hint}", name)
        if len(request.query.getall(name)) > 1:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"the parameter {name} is given more than once", name)
    for field in msgspec.structs.fields(query):
        if field.required and field.name not in request.query and field.name not in in_path:
            detail = f"the parameter {field.name} is missing: add ?{field.name}=..."
            raise ApiError(HTTPStatus.BAD_REQUEST, detail, field.name)
    try:
        parsed = msgspec.convert(dict(request.query) | in_path, query, strict=False)
    except msgspec.ValidationError as error:
        what, where = message_and_path(error)
        name = where.removeprefix("$.")
        raise ApiError(HTTPStatus.BAD_REQUEST, field_sentence(what, name), name) from error
    for name in request.query:
        # msgspec converts `null` to None where text is not expected, which would silently drop a filter.
        if getattr(parsed, name) is None:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: null is not a value; omit the parameter", name)
    return parsed
