"""What every request passes: only neighbours get in, and every refusal is a problem document."""

import difflib
import ipaddress
import logging
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from collector.history.interface import Unavailable
from collector.refusal import Refusal

log = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = "5"


def problems(paths: Iterable[str]) -> Middleware:
    """Answer every refusal, and every bug, as a problem document; `paths` are those that exist."""
    known = sorted(paths)

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except Refusal as refusal:
            response = refusal.response()
        except Unavailable as error:
            detail = f"the history cannot be used now: {error}"
            response = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, detail).response(
                {hdrs.RETRY_AFTER: _RETRY_AFTER_SECONDS}
            )
        except web.HTTPException as error:
            response = _explained(error, request, known)
        except Exception:
            log.exception("a bug: %s %s was not answered", request.method, request.rel_url)
            detail = "a bug in the collector; its log says where: please report it"
            response = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, detail).response()
        response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        return response

    return middleware


def _explained(error: web.HTTPException, request: web.Request, known: list[str]) -> web.Response:
    match error:
        case web.HTTPNotFound():
            near = difflib.get_close_matches(request.path, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "/openapi.json lists what there is"
            return Refusal(HTTPStatus.NOT_FOUND, f"there is nothing at {request.path}: {hint}").response()
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{request.path} takes {allowed}, not {request.method}"
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, detail).response({hdrs.ALLOW: allowed})
        case _:
            return Refusal(HTTPStatus(error.status), error.text or error.reason).response()


@web.middleware
async def neighbours_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse names that merely point here.

    A page from elsewhere can have its own name resolve to 127.0.0.1 and so make a browser on this host
    talk to us (DNS rebinding); the Host header gives it away.
    """
    host = request.headers.get(hdrs.HOST, "")
    if not _is_local(host):
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            f"{host!r} is not a name of this host: use 127.0.0.1, [::1] or localhost",
            "Host",
        )
    return await handler(request)


def _is_local(host: str) -> bool:
    name = host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
