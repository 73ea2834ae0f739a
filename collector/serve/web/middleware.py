"""Middleware for every request: errors become problem documents, and the Host header is checked."""

import difflib
import logging
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from collector.common.errors import ApiError, HistoryUnavailable, QuestionError, WorkerUnavailable
from collector.config import HttpConfig
from wire.address import parse_address
from wire.http.hosts import is_own_host

log = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = "5"


def problem_documents(paths: Iterable[str]) -> Middleware:
    """Turn every error into a problem document; `paths` are the paths of all routes."""
    valid_paths = sorted(paths)

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except ApiError as error:
            response = error.response()
        except QuestionError as error:
            response = ApiError(error.status, str(error), error.field).response()
        except (HistoryUnavailable, WorkerUnavailable) as error:
            is_history = isinstance(error, HistoryUnavailable)
            detail = f"the history is unavailable: {error}" if is_history else str(error)
            headers = {"Retry-After": _RETRY_AFTER_SECONDS}
            response = ApiError(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=headers).response()
        except web.HTTPException as error:
            response = _http_error(error, request, valid_paths)
        except Exception:
            log.exception("internal error in %s %s", request.method, request.rel_url)
            detail = (
                "internal error: this is a bug; please report it with the traceback in the collector's log"
            )
            response = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, detail).response()
        response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        return response

    return middleware


def _http_error(error: web.HTTPException, request: web.Request, valid_paths: list[str]) -> web.Response:
    match error:
        case web.HTTPNotFound():
            near = difflib.get_close_matches(request.path, valid_paths, n=1)
            hint = f"did you mean {near[0]}?" if near else "GET /openapi.json describes all paths"
            return ApiError(HTTPStatus.NOT_FOUND, f"unknown path {request.path}: {hint}").response()
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{request.path} accepts {allowed}, not {request.method}"
            headers = {"Allow": allowed}
            return ApiError(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers=headers).response()
        case _:
            return ApiError(HTTPStatus(error.status), error.text or error.reason).response()


def host_check(http: HttpConfig) -> Middleware:
    """Reject requests with a foreign Host header, against DNS rebinding."""
    is_local = parse_address(http.listen).is_loopback
    others = "" if is_local else ", an IP address, or add the name to http.names"

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get(hdrs.HOST, "")
        if not is_own_host(host, http.other_names, local_only=is_local):
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                f"the Host header {host!r} is not a name of this collector: use 127.0.0.1, [::1] or"
                f" localhost{others}",
                "Host",
            )
        return await handler(request)

    return middleware
