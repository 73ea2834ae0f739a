"""Authentication and authorization of every request."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict

from collector.common.errors import ApiError
from collector.serve.web.scopes import CALLER, TRUSTED, Caller, Scope
from collector.serve.web.tokens import TokenFile
from wire.http.authorization import parse_token
from wire.http.connections import ConnectionLimits

Scopes = Mapping[tuple[str, str], Scope]
"""Scope that each route requires, by method and path."""

# Both ways to send a token; on the second, a browser prompts the user.
_CHALLENGES = CIMultiDict(
    [
        (hdrs.WWW_AUTHENTICATE, 'Bearer realm="wattpack"'),
        (hdrs.WWW_AUTHENTICATE, 'Basic realm="wattpack", charset="UTF-8"'),
    ]
)


_MAX_NODE_CONNECTIONS, _MAX_CONNECTIONS = 16, 1000
"""Per caller: an agent has one connection, a proxy in front of dashboards may have hundreds."""


def authentication(
    scopes: Scopes,
    tokens: TokenFile | None,
    clock: Callable[[], float],
    limits: ConnectionLimits | None = None,
    schedulers: frozenset[str] = frozenset(),
) -> Middleware:
    """Check tokens and certificates; without `tokens`, all requests pass.

    A route that is not in `scopes` requires a read token. A certificate belongs to a node, unless its name is
    in `schedulers`.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        caller = TRUSTED if tokens is None else _caller(request, tokens, clock(), schedulers)
        required = _required(request, scopes)
        if caller is None and required is not Scope.OPEN:
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "this request needs a valid token: send it as `Authorization: Bearer TOKEN`, or as the"
                " password of any user. Create one on the collector's host with: wattpack token add",
                "Authorization",
                headers=_CHALLENGES,
            )
        if caller is not None:
            if not caller.may(required):
                raise ApiError(
                    HTTPStatus.FORBIDDEN,
                    f"this request needs a token of kind {required}, not {caller.scope}: create one on the"
                    f" collector's host with: wattpack token add {required} NAME",
                    "Authorization",
                )
            request[CALLER] = caller
            if limits is not None and tokens is not None:
                is_node = caller.nodes is not None
                max_connections = _MAX_NODE_CONNECTIONS if is_node else _MAX_CONNECTIONS
                limits.authenticate(request.transport, caller, max_connections)
        return await handler(request)

    return middleware


def _required(request: web.Request, scopes: Scopes) -> Scope:
    resource = request.match_info.route.resource
    method = hdrs.METH_GET if request.method == hdrs.METH_HEAD else request.method
    return scopes.get((method, resource.canonical if resource is not None else ""), Scope.READ)


def _caller(request: web.Request, tokens: TokenFile, now: float, schedulers: frozenset[str]) -> Caller | None:
    if hdrs.AUTHORIZATION in request.headers:
        # A token in the request must be valid, even if there is a certificate.
        secret = parse_token(request.headers[hdrs.AUTHORIZATION])
        return tokens.tokens.caller(secret, now) if secret is not None else None
    transport = request.transport
    # The TLS handshake has verified the certificate.
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    names = certificate_names(certificate) if certificate else frozenset()
    if names & schedulers:
        return Caller(Scope.PLACE)
    return Caller(Scope.NODE, names) if names else None


def certificate_names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Common name and DNS alternative names of a certificate."""
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    alternative = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    return frozenset(common | alternative)
