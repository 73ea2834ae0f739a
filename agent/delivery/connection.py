"""The connection to the collector: a single one that stays open, with bounded responses."""

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import hdrs

from agent.config import DeliveryConfig
from agent.delivery.credentials import read_token
from wire.version import __version__

REQUEST_SECONDS = 10.0
"""Timeout of a request."""
_KEEPALIVE_SECONDS = 120.0


@asynccontextmanager
async def connect(tls: ssl.SSLContext | None, timeout_seconds: float) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with one connection, kept open between requests, without unnecessary headers."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, keepalive_timeout=_KEEPALIVE_SECONDS, ssl=tls or True),
        timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        headers={
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.USER_AGENT: f"wattpack-agent/{__version__}",
        },
        skip_auto_headers=(hdrs.ACCEPT, hdrs.ACCEPT_ENCODING),
        # The agent requests no compression, and a small response can unpack to gigabytes.
        auto_decompress=False,
    ) as session:
        yield session


def credentials(settings: DeliveryConfig) -> dict[str, str]:
    """The header with the token of this node, read again so that a new one needs no restart."""
    token = read_token(settings)
    return {} if token is None else {hdrs.AUTHORIZATION: f"Bearer {token}"}


async def read_response(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The first bytes of a response."""
    body = await response.content.read(max_bytes)
    while len(body) < max_bytes and (more := await response.content.read(max_bytes - len(body))):
        body += more
    if not response.content.at_eof():
        # Not a collector, or a malicious one: do not read the rest.
        response.close()
    return body


def failure_reason(error: Exception) -> str:
    """Why a request failed."""
    if isinstance(error, aiohttp.ClientSSLError):
        return _tls_reason(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        number = cause.errno or 0
        # asyncio puts the address into strerror, except for a name that is not found.
        return (os.strerror(number) if number > 0 else cause.strerror or str(error)).lower()
    if isinstance(error, TimeoutError):
        return "no response in time"
    return str(error) or type(error).__name__


def _tls_reason(error: aiohttp.ClientSSLError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        why = getattr(cause, "verify_message", "") or str(cause)
        return f"its certificate is not trusted ({why}): check collector.url and collector.ca_file"
    reason = getattr(error.os_error, "reason", None) or str(error)
    return f"TLS failed ({reason}): check collector.url"
