"""What a route is. One table of them makes the server, the OpenAPI document and the reference alike."""

import difflib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from aiohttp import hdrs, web

from collector.common.errors import ApiError, what_and_where
from collector.web.bodies import JSON_TYPE, parse_body, read_body
from collector.web.scopes import Scope
from wire.errors import PROBLEM_TYPE, Problem
from wire.messages import encode

Query = TypeVar("Query", bound=msgspec.Struct)
Body = TypeVar("Body", bound=msgspec.Struct)
Context = Any
"""What handlers work on, such as the collector: given by the application, passed on as it is."""
Serve = Callable[[Context, web.Request], Awaitable[web.StreamResponse]]


class NoQuery(msgspec.Struct, frozen=True):
    """A route without parameters."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One way in which a route can answer."""

    description: str
    type: Any = str
    content_type: str = JSON_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked."""

    method: str
    path: str
    summary: str
    serve: Serve
    answers: Mapping[HTTPStatus, Answer]
    query: type[msgspec.Struct] = NoQuery
    """Its parameters: those that `path` names in braces, and those after the question mark."""
    body: Any = None
    """The type of what comes in the request, where there is something."""
    body_types: tuple[str, ...] = (JSON_TYPE,)
    """How that may be written."""
    needs: Scope | None = None
    """What the caller must be allowed; if not said, to read for a GET, and to change things for the rest."""

    @property
    def scope(self) -> Scope:
        if self.needs is not None:
            return self.needs
        return Scope.READ if self.method == hdrs.METH_GET else Scope.ADMIN


def refused(status: HTTPStatus, description: str) -> dict[HTTPStatus, Answer]:
    """A refusal that a route documents."""
    return {status: Answer(description, Problem, PROBLEM_TYPE)}


REFUSED_HOST = refused(
    HTTPStatus.FORBIDDEN, "The Host header is not a name of the collector, or the token is not for this."
)
NO_TOKEN = refused(HTTPStatus.UNAUTHORIZED, "A token is needed, and none that is valid was sent.")
REFUSED_QUERY = refused(HTTPStatus.BAD_REQUEST, "A parameter is unknown or impossible.")
REFUSED_BODY = {
    **refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large, unpacked."),
    **refused(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The body is of another type, or packed with neither gzip nor zstd.",
    ),
    **refused(HTTPStatus.REQUEST_TIMEOUT, "The body took too long to arrive."),
}
NO_NODE = refused(HTTPStatus.NOT_FOUND, "There is no node of this name.")
NO_HISTORY = refused(HTTPStatus.SERVICE_UNAVAILABLE, "The history cannot be used now; try later.")


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
    """A question with typed parameters and a typed answer in JSON."""

    async def serve(context: Context, request: web.Request) -> web.Response:
        asked = parse_query(request, query)
        return web.Response(body=encode(await handler(context, asked)), content_type=JSON_TYPE)

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
    """A question in JSON, with a typed answer in JSON; asking changes nothing."""
    decoder = msgspec.json.Decoder(body)

    async def serve(context: Context, request: web.Request) -> web.Response:
        parse_query(request, NoQuery)
        asked = parse_body(await read_body(request), decoder.decode)
        return web.Response(body=encode(await handler(context, asked)), content_type=JSON_TYPE)

    wrong = refused(HTTPStatus.BAD_REQUEST, "Something in the body is wrong.")
    answers = _found(answer) | wrong | REFUSED_BODY | REFUSED_HOST | dict(refusals or {})
    return Route(
        method="POST", path=path, summary=summary, serve=serve, answers=answers, body=body, needs=scope
    )


def _found(answer: type[msgspec.Struct]) -> dict[HTTPStatus, Answer]:
    return {HTTPStatus.OK: Answer((answer.__doc__ or "").partition("\n")[0], answer)}


def parse_query(request: web.Request, query: type[Query]) -> Query:
    """The parameters of a request, in its path and after; raises `ApiError` naming the one that is wrong."""
    in_path = dict(request.match_info)
    known = [name for name in query.__struct_fields__ if name not in in_path]
    for name in request.query:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(known) or 'none here'}"
            raise ApiError(HTTPStatus.BAD_REQUEST, f"there is no parameter {name}: {hint}", name)
        if len(request.query.getall(name)) > 1:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"the parameter {name} is given more than once", name)
    for field in msgspec.structs.fields(query):
        if field.required and field.name not in request.query and field.name not in in_path:
            detail = f"the parameter {field.name} is missing: add ?{field.name}=..."
            raise ApiError(HTTPStatus.BAD_REQUEST, detail, field.name)
    try:
        asked = msgspec.convert(dict(request.query) | in_path, query, strict=False)
    except msgspec.ValidationError as error:
        what, where = what_and_where(error)
        name = where.removeprefix("$.")
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: {what[:1].lower()}{what[1:]}", name) from error
    for name in request.query:
        # `null` is read as nothing, where text is not expected: so a slip would widen what is asked for.
        if getattr(asked, name) is None:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: null is no value: leave the parameter out", name)
    return asked
