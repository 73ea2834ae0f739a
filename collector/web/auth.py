"""The guard before every route: who is asking, and may they?"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict

from collector.common.errors import ApiError
from collector.web.scopes import ANYBODY, CALLER, Caller, Scope
from collector.web.token_file import TokenFile
from wire.http.authorization import parse_token

Scopes = Mapping[tuple[str, str], Scope]
"""What each route needs, by its method and path."""

# Both ways to show a token; a browser knows the second, and asks the user for it.
_CHALLENGES = CIMultiDict(
    [
        (hdrs.WWW_AUTHENTICATE, 'Bearer realm="wattpack"'),
        (hdrs.WWW_AUTHENTICATE, 'Basic realm="wattpack", charset="UTF-8"'),
    ]
)


def guarded(scopes: Scopes, tokens: TokenFile | None, clock: Callable[[], float]) -> Middleware:
    """Let in who may; without `tokens` that is everybody. What is not in `scopes` needs a read token."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        caller = ANYBODY if tokens is None else _caller(request, tokens, clock())
        needed = _needed(request, scopes)
        if caller is None and needed is not Scope.OPEN:
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "this needs a token: send one as `Authorization: Bearer TOKEN`, or as the password of any"
                " user; `wattpack token add` makes one on the collector's host",
                "Authorization",
                headers=_CHALLENGES,
            )
        if caller is not None:
            if not caller.may(needed):
                raise ApiError(
                    HTTPStatus.FORBIDDEN,
                    f"this needs a token for {needed}, and the one that was sent is for {caller.scope}",
                    "Authorization",
                )
            request[CALLER] = caller
        return await handler(request)

    return guard


def _needed(request: web.Request, scopes: Scopes) -> Scope:
    resource = request.match_info.route.resource
    method = hdrs.METH_GET if request.method == hdrs.METH_HEAD else request.method
    return scopes.get((method, resource.canonical if resource is not None else ""), Scope.READ)


def _caller(request: web.Request, tokens: TokenFile, now: float) -> Caller | None:
    if hdrs.AUTHORIZATION in request.headers:
        # Whoever shows a token means it: a wrong one is not made good by a certificate.
        secret = parse_token(request.headers[hdrs.AUTHORIZATION])
        return tokens.tokens.caller(secret, now) if secret is not None else None
    transport = request.transport
    # The handshake has verified it, or there would be none.
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    names = names_in(certificate) if certificate else frozenset()
    return Caller(Scope.NODE, names) if names else None


def names_in(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Whom a certificate is for: its common name, and its alternative names that are host names."""
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    alternative = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    return frozenset(common | alternative)
