"""Request bodies: JSON, optionally compressed, limited in size, parsed strictly."""

import asyncio
import zlib
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from collector.common.errors import ApiError, field_sentence, message_and_path
from collector.config import HttpConfig
from wire.errors import INVALID_JSON

JSON_TYPE = "application/json"

_IDENTITY, _GZIP = "identity", "gzip"
_GZIP_WBITS = 16 + zlib.MAX_WBITS
_MAX_EXPANSION = 1032
"""Maximum number of decompressed bytes per byte of gzip."""

Body = TypeVar("Body")
HTTP_LIMITS = web.AppKey("HTTP_LIMITS", HttpConfig)
"""Maximum size of a body, and the time limit to receive it."""


COUNT_BYTES: web.RequestKey[Callable[[int], None]] = web.RequestKey("COUNT_BYTES")
"""Called with the number of bytes that a request body adds in memory; raises to stop reading."""


async def read_body(request: web.Request) -> bytes:
    """Read and decompress a body; raises `ApiError` if its type is wrong, or it is too large or too slow."""
    on_bytes = request[COUNT_BYTES]
    # HTML forms cannot send this type: a foreign page can send it only after a CORS preflight.
    if request.content_type != JSON_TYPE:
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"{request.path} accepts {JSON_TYPE}, not {request.content_type}",
            "Content-Type",
        )
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, _IDENTITY).lower()
    if encoding not in {_IDENTITY, _GZIP}:
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the encoding {encoding} is not supported; use gzip or none",
            "Content-Encoding",
        )
    limits = request.app[HTTP_LIMITS]
    limit_bytes, timeout_seconds = limits.max_body_bytes, limits.body_timeout_seconds
    try:
        async with asyncio.timeout(timeout_seconds):
            body = await _receive(request, limit_bytes, on_bytes)
    except TimeoutError:
        detail = f"the body did not arrive within {timeout_seconds:g} seconds"
        # The rest of the body would be read as the next request.
        raise ApiError(HTTPStatus.REQUEST_TIMEOUT, detail, headers={hdrs.CONNECTION: "close"}) from None
    except (web.RequestPayloadError, ConnectionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"the body is incomplete: {error}") from error
    try:
        decompressed = decompress(body, encoding, limit_bytes)
    except ApiError:
        # A rejected body counts too, as decompressing it took time and memory.
        on_bytes(min(limit_bytes, _MAX_EXPANSION * len(body)))
        raise
    on_bytes(len(decompressed) - len(body))
    return decompressed


async def _receive(request: web.Request, limit_bytes: int, on_bytes: Callable[[int], None]) -> bytes:
    if (request.content_length or 0) > limit_bytes:
        raise _too_large(limit_bytes)
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        on_bytes(len(chunk))
    return bytes(body)


def decompress(compressed: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Decompress no more than `limit_bytes`; raises `ApiError` if there is more, or it is malformed."""
    body = _gunzip(compressed, limit_bytes + 1) if encoding == _GZIP else compressed
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)
    return body


def _gunzip(compressed: bytes, max_bytes: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=_GZIP_WBITS)
    try:
        body = decompressor.decompress(compressed, max_bytes)
    except zlib.error as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"the body is not gzip: {error}") from error
    if len(body) < max_bytes and (not decompressor.eof or decompressor.unused_data):
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not one complete gzip stream")
    return body


def parse_body(body: bytes, parse: Callable[[bytes], Body]) -> Body:
    """Parse a body; raises `ApiError` that names the invalid field."""
    try:
        return parse(body)
    except msgspec.ValidationError as error:
        what, where = message_and_path(error)
        name = "the body" if where == "$" else where.removeprefix("$.")
        raise ApiError(HTTPStatus.BAD_REQUEST, field_sentence(what, name), where) from error
    except INVALID_JSON as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}", "$") from error


def _too_large(limit_bytes: int) -> ApiError:
    detail = f"the decompressed body is larger than {limit_bytes} bytes; split it into smaller requests"
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
