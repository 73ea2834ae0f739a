"""Routes. The server, the OpenAPI document and the API reference are generated from one table of routes."""

import difflib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from aiohttp import hdrs, web

from collector.common.errors import ApiError, field_sentence, message_and_path
from collector.serve.web.bodies import JSON_TYPE, parse_body, read_body
from collector.serve.web.scopes import CALLER, Caller, Scope
from wire.errors import PROBLEM_TYPE, Problem
from wire.messages import encode

Query = TypeVar("Query", bound=msgspec.Struct)
Body = TypeVar("Body", bound=msgspec.Struct)
Context = Any
"""The object that handlers work on, such as the collector; the application provides it."""
Handler = Callable[..., Awaitable[Any]]
Serve = Callable[[Context, web.Request], Awaitable[web.StreamResponse]]


class NoQuery(msgspec.Struct, frozen=True):
    """A route without parameters."""


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """A possible response of a route, for the OpenAPI document."""

    description: str
    type: Any = str
    content_type: str = JSON_TYPE
    text_type: str | None = None
    """Content type of the same as text, if a client can request that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One endpoint."""

    method: str
    path: str
    summary: str
    serve: Serve
    responses: Mapping[HTTPStatus, ResponseSpec]
    query: type[msgspec.Struct] = NoQuery
    """Type of its parameters: those in braces in `path`, and those of the query string."""
    body: Any = None
    """Type of the request body, if there is one."""
    scope: Scope
    """What a caller must be permitted."""
    is_stream: bool = False
    """Whether the response lasts until the client disconnects."""


def problem(status: HTTPStatus, description: str) -> dict[HTTPStatus, ResponseSpec]:
    """An error response of a route: a problem document."""
    return {status: ResponseSpec(description, Problem, PROBLEM_TYPE)}


FORBIDDEN = problem(
    HTTPStatus.FORBIDDEN, "The Host header is not a name of the collector, or the token is of the wrong kind."
)
UNAUTHORIZED = problem(HTTPStatus.UNAUTHORIZED, "A valid token is required.")
BAD_QUERY = problem(HTTPStatus.BAD_REQUEST, "A parameter is unknown or invalid.")
BAD_BODY = {
    **problem(HTTPStatus.BAD_REQUEST, "The body is invalid."),
    **problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The decompressed body is too large."),
    **problem(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The media type or the compression of the body is not supported."
    ),
    **problem(HTTPStatus.REQUEST_TIMEOUT, "The body took too long to arrive."),
}
NO_NODE = problem(HTTPStatus.NOT_FOUND, "No node has this name.")
NO_HISTORY = problem(HTTPStatus.SERVICE_UNAVAILABLE, "The history is unavailable; retry later.")


def _route(  # noqa: PLR0913 - what a route can have
    method: str,
    path: str,
    handler: Handler,
    *,
    problems: Mapping[HTTPStatus, ResponseSpec] | None = None,
    scope: Scope = Scope.READ,
    query: type[msgspec.Struct] = NoQuery,
    responds: ResponseSpec | None = None,
    is_stream: bool = False,
) -> Route:
    """A route with typed parameters or a typed body, and a typed JSON response.

    Types and summary are those of the handler: after the context it takes the parameters, or for a POST the
    body; in any order also the caller, and for a POST with parameters those of type `query`. All but the
    context are optional. A handler that takes the request itself also makes the response: `query` and
    `responds` describe these.
    """
    signature = inspect.signature(handler)
    kinds = [each.annotation for each in signature.parameters.values()][1:]
    is_post, is_typed = method == hdrs.METH_POST, kinds != [web.Request]
    given: type[msgspec.Struct] = kinds[0] if kinds and is_typed else query
    decoder = msgspec.json.Decoder(given)

    async def serve(context: Context, request: web.Request) -> web.Response:
        parameters = parse_query(request, query if is_post else given)
        found: dict[Any, Any] = {Caller: request.get(CALLER), type(parameters): parameters}
        if is_post:
            found[given] = await read_json(request, decoder)
        return json_response(await handler(context, *(found[kind] for kind in kinds)))

    kind = signature.return_annotation
    response = responds or ResponseSpec((kind.__doc__ or "").partition("\n")[0], kind)
    bad_request = BAD_BODY if is_post else BAD_QUERY if is_typed or query is not NoQuery else {}
    return Route(
        method=method,
        path=path,
        summary=" ".join((inspect.getdoc(handler) or "").split()),
        serve=serve if is_typed else handler,
        responses={HTTPStatus.OK: response} | bad_request | FORBIDDEN | dict(problems or {}),
        query=query if is_post else given,
        body=given if is_post else None,
        scope=scope,
        is_stream=is_stream,
    )


get, post, delete = (partial(_route, method) for method in ("GET", "POST", "DELETE"))


def json_response(value: object) -> web.Response:
    """Encode a value as the JSON body of a response."""
    return web.Response(body=encode(value), content_type=JSON_TYPE)


async def read_json(request: web.Request, decoder: msgspec.json.Decoder[Body]) -> Body:
    """Read and parse the body of a request; raises `ApiError` if it is invalid."""
    return parse_body(await read_body(request), decoder.decode)


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
