"""What every request passes: it calls us by our name, and every refusal is a problem document."""

import difflib
import ipaddress
import logging
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from collector.common.errors import ApiError
from collector.config import HttpConfig
from collector.history.interface import HistoryUnavailable
from wire.address import parse_address

log = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = "5"


def problems(paths: Iterable[str]) -> Middleware:
    """Answer every refusal, and every bug, as a problem document; `paths` are those that exist."""
    known = sorted(paths)

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except ApiError as refusal:
            response = refusal.response()
        except HistoryUnavailable as error:
            detail = f"the history cannot be used now: {error}"
            later = {"Retry-After": _RETRY_AFTER_SECONDS}
            response = ApiError(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=later).response()
        except web.HTTPException as error:
            response = _explained(error, request, known)
        except Exception:
            log.exception("a bug: %s %s was not answered", request.method, request.rel_url)
            detail = "a bug in the collector; its log says where: please report it"
            response = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, detail).response()
        response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        return response

    return middleware


def _explained(error: web.HTTPException, request: web.Request, known: list[str]) -> web.Response:
    match error:
        case web.HTTPNotFound():
            near = difflib.get_close_matches(request.path, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "/openapi.json lists what there is"
            return ApiError(HTTPStatus.NOT_FOUND, f"there is nothing at {request.path}: {hint}").response()
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{request.path} takes {allowed}, not {request.method}"
            headers = {"Allow": allowed}
            return ApiError(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers=headers).response()
        case _:
            return ApiError(HTTPStatus(error.status), error.text or error.reason).response()


def called_by_name(http: HttpConfig) -> Middleware:
    """Refuse names that merely point here.

    A page from elsewhere can have its own name resolve to an address of ours, and so make a browser talk to
    us as if we were where the page came from (DNS rebinding); the Host header gives it away. An address in
    that header is no name that could be made to point anywhere, so it is taken where others may call at all.
    """
    is_local = parse_address(http.listen).is_loopback
    names = http.other_names | {"localhost"}
    others = "" if is_local else ", any address, or a name that is listed in http.names"

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get(hdrs.HOST, "")
        name = _name_in(host)
        if name not in names and not _is_address(name, loopback_only=is_local):
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                f"{host!r} is not a name of the collector: use 127.0.0.1, [::1] or localhost{others}",
                "Host",
            )
        return await handler(request)

    return middleware


def _name_in(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("[") and "]" in host:
        return host[1 : host.index("]")]
    return host.partition(":")[0].lower()


def _is_address(name: str, *, loopback_only: bool) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not loopback_only
