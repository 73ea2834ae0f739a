"""The body of a request: JSON or MessagePack, plain or packed, never larger than allowed; parsed strictly."""

import asyncio
import zlib
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

import msgspec
import zstandard
from aiohttp import hdrs, web

from collector.common.errors import ApiError, what_and_where
from collector.config import HttpConfig

JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/msgpack"

_GZIP = 16 + zlib.MAX_WBITS
_ZSTD_WINDOW_BYTES = 8 << 20
"""What a sender over HTTP may ask a reader to remember (RFC 9659)."""

Body = TypeVar("Body")
HTTP_LIMITS = web.AppKey("HTTP_LIMITS", HttpConfig)
"""How large a body may be, and how long it may take to arrive."""


async def read_body(
    request: web.Request,
    *,
    types: tuple[str, ...] = (JSON_TYPE,),
    grown: Callable[[int], None] = lambda _: None,
) -> bytes:
    """What came with a request, unpacked; raises `ApiError` where it is something else, too much or too slow.

    `grown` hears of every so many bytes that the body takes in memory, and may raise to end the reading.
    """
    # No type that a form has: a page from elsewhere cannot send these without the browser asking us first.
    if request.content_type not in types:
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"{request.path} takes {' or '.join(types)}, not {request.content_type}",
            "Content-Type",
        )
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower()
    if encoding not in _UNPACK:
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"a body may be packed with gzip or zstd, or not at all, not with {encoding}",
            "Content-Encoding",
        )
    limits = request.app[HTTP_LIMITS]
    limit_bytes, timeout_seconds = limits.max_body_bytes, limits.body_timeout_seconds
    try:
        # Most are small and came with the head: there is nothing to wait for.
        if request.content.is_eof():
            body = _checked(request.content.read_nowait(), limit_bytes, grown)
        else:
            async with asyncio.timeout(timeout_seconds):
                body = await _received(request, limit_bytes, grown)
    except TimeoutError:
        detail = f"the body did not arrive within {timeout_seconds:g} seconds"
        # What is still to come would be taken for the next request.
        raise ApiError(HTTPStatus.REQUEST_TIMEOUT, detail, headers={hdrs.CONNECTION: "close"}) from None
    except (web.RequestPayloadError, ConnectionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"the body broke off: {error}") from error
    unpacked = unpack(body, encoding, limit_bytes)
    grown(len(unpacked) - len(body))
    return unpacked


async def _received(request: web.Request, limit_bytes: int, grown: Callable[[int], None]) -> bytes:
    if (request.content_length or 0) > limit_bytes:
        raise _too_large(limit_bytes)
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        grown(len(chunk))
    return bytes(body)


def _checked(body: bytes, limit_bytes: int, grown: Callable[[int], None]) -> bytes:
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)
    grown(len(body))
    return body


def unpack(packed: bytes, encoding: str, limit_bytes: int) -> bytes:
    """What was packed, of which never more than `limit_bytes` are brought to light; raises `ApiError`."""
    body = _UNPACK[encoding](packed, limit_bytes + 1)
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)
    return body


def _plain(body: bytes, _most_bytes: int) -> bytes:
    return body


def _gunzip(packed: bytes, most_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        body = unpacker.decompress(packed, most_bytes)
    except zlib.error as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"the body is not gzip: {error}") from error
    if len(body) < most_bytes and (not unpacker.eof or unpacker.unused_data):
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not one whole gzip stream")
    return body


def _unzstd(packed: bytes, most_bytes: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    try:
        # A frame says how large it will become, and may lie: read as a stream it is held to the limit.
        with unpacker.stream_reader(packed) as reader:
            return reader.read(most_bytes)
    except zstandard.ZstdError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"the body is not zstd: {error}") from error


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {"identity": _plain, "gzip": _gunzip, "zstd": _unzstd}


def parse_body(body: bytes, parse: Callable[[bytes], Body], form: str = "JSON") -> Body:
    """What `parse` makes of a body; raises `ApiError` naming the field that is wrong."""
    try:
        return parse(body)
    except msgspec.ValidationError as error:
        _, where = what_and_where(error)
        raise ApiError(HTTPStatus.BAD_REQUEST, str(error), where) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"the body is not {form}: {error}", "$") from error


def _too_large(limit_bytes: int) -> ApiError:
    detail = f"the body is larger, unpacked, than {limit_bytes} bytes: send less at once"
    return ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
