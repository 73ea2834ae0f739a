"""Tokens and TLS of the HTTP server, and the authentication and authorization of every request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from ssl import SSLContext
from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict

from collector.common.errors import ApiError
from collector.config import CollectorConfig, TlsConfig
from collector.serve.web.scopes import CALLER, TRUSTED, Caller, Scope
from collector.serve.web.tokens import TokenFile
from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.errors import UserError
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


@dataclass(frozen=True, slots=True)
class Listener:
    """Access control of the HTTP server."""

    tokens: TokenFile | None
    """None accepts all requests, which is allowed on loopback only."""
    tls: SSLContext | None


def open_listener(settings: CollectorConfig) -> Listener:
    """Load tokens and certificates; raises `UserError` if the address needs more of them."""
    tls = _context(settings.tls) if settings.tls.certificate else None
    path = settings.access.tokens
    file = TokenFile(Path(path)) if path else None
    tokens = file if file is not None and file.exists else None
    listen = settings.http.listen
    if not parse_address(listen).is_loopback:
        instead = f", or listen on a loopback address such as {COLLECTOR_DEFAULT}"
        if tokens is None or not len(tokens.tokens):
            raise UserError(
                f"http.listen is {listen}, which other machines can reach, but there are no tokens: create"
                f" them with wattpack token add{instead}"
            )
        if tls is None and not settings.http.insecure_plaintext:
            raise UserError(
                f"http.listen is {listen}, which other machines can reach, but without TLS, others could read"
                f" tokens on the network: set tls.certificate and tls.key{instead}"
            )
    return Listener(tokens, tls)


def _context(settings: TlsConfig) -> SSLContext:
    # Imports YAML and bcrypt, so only with TLS.
    from wire.http.webconfig import ClientAuth, Tls, server_context  # noqa: PLC0415 - see above

    return server_context(
        Tls(
            cert_file=settings.certificate,
            key_file=settings.key,
            client_auth_type=ClientAuth.IF_GIVEN if settings.client_ca else ClientAuth.NONE,
            client_ca_file=settings.client_ca or None,
        )
    )
