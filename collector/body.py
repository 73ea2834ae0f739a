"""The body of a request: JSON, plain or packed with gzip, never larger than allowed; parsed strictly."""

import zlib
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from collector.core import Core
from collector.refusal import Refusal, what_and_where

JSON_TYPE = "application/json"

_ENCODINGS = ("gzip", "identity")
_GZIP = 16 + zlib.MAX_WBITS

Body = TypeVar("Body")


async def read_body(core: Core, request: web.Request) -> bytes:
    """The JSON that came with a request; raises `Refusal` where it is something else, or too much."""
    # Only JSON: a page from elsewhere cannot send that to us without the browser asking first.
    if request.content_type != JSON_TYPE:
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"{request.path} takes {JSON_TYPE}, not {request.content_type}",
            "Content-Type",
        )
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower()
    if encoding not in _ENCODINGS:
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"a body may be packed with gzip or not at all, not with {encoding}",
            "Content-Encoding",
        )
    limit = core.config.http.max_body_bytes
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(limit) from None
    except web.RequestPayloadError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body broke off: {error}") from error
    return _unpack(body, limit) if encoding == "gzip" else body


def parse_body(body: bytes, parse: Callable[[bytes], Body]) -> Body:
    """What `parse` makes of a body; raises `Refusal` naming the field that is wrong."""
    try:
        return parse(body)
    except msgspec.ValidationError as error:
        _, where = what_and_where(error)
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error), where) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}", "$") from error


def _unpack(packed: bytes, limit: int) -> bytes:
    """What was packed with gzip, of which never more than `limit` bytes are brought to light."""
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not gzip: {error}") from error
    if len(body) > limit:
        raise _too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the body is not one whole gzip stream")
    return body


def _too_large(limit: int) -> Refusal:
    detail = f"the body is larger, unpacked, than {limit} bytes: send less at once"
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
