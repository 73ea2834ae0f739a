"""The connection to the collector: a single one that stays open, with bounded responses.

It shows the credentials of this node, a token or a certificate, and verifies the collector's.
"""

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp import hdrs

from agent.config import DeliveryConfig
from wire.address import Address
from wire.errors import UserError, os_reason
from wire.version import __version__

REQUEST_SECONDS = 10.0
"""Timeout of a request."""
_KEEPALIVE_SECONDS = 120.0
_MAX_RESPONSE_BYTES = 64 << 10


class HttpResponse(NamedTuple):
    """The response to a request; of a long one, the first bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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


async def post(
    session: aiohttp.ClientSession, settings: DeliveryConfig, path: str, body: bytes, headers: dict[str, str]
) -> HttpResponse:
    """Send a body to the collector."""
    url = settings.url.rstrip("/") + path
    # No redirects: the token must go to this address only.
    async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
        content = await response.content.read(_MAX_RESPONSE_BYTES)
        while more := await response.content.read(_MAX_RESPONSE_BYTES - len(content)):
            content += more
        if not response.content.at_eof():
            # Not a collector, or a malicious one: do not read the rest.
            response.close()
    return HttpResponse(response.status, response.headers, content)


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


# --- Credentials --------------------------------------------------------------------------------


def read_token(settings: DeliveryConfig) -> str | None:
    """Read the token of this node; None if no file is set. Raises `UserError`."""
    if not settings.token_file:
        return None
    path = Path(settings.token_file)
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UserError(f"cannot read {path} ({os_reason(error)}): check collector.token_file") from error
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise UserError(
            f"{path} contains no token: create one on the collector's host with: wattpack token add"
        )
    return token


def tls_context(settings: DeliveryConfig) -> ssl.SSLContext | None:
    """Create the TLS context for the collector; None if the URL is not https."""
    if urlsplit(settings.url).scheme != "https":
        if settings.ca_file or settings.cert_file:
            raise UserError(
                f"collector.url is {settings.url}, without TLS: use https://, or leave collector.ca_file and"
                " collector.cert_file empty"
            )
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"cannot read certificates from {settings.ca_file} ({_why(error)}): check collector.ca_file"
        ) from error
    if settings.cert_file:
        key = settings.key_file or None
        try:
            context.load_cert_chain(settings.cert_file, key, password=_refuse_password)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"cannot use {settings.cert_file} and its key ({_why(error)}): check"
                " collector.cert_file and collector.key_file"
            ) from error
    return context


def sends_token_in_plaintext(settings: DeliveryConfig) -> bool:
    """Whether the token is sent over a network without TLS."""
    address = urlsplit(settings.url)
    is_local = Address(address.hostname or "", 0).is_loopback
    return bool(settings.token_file) and address.scheme != "https" and not is_local


def _refuse_password() -> str:
    """Keep OpenSSL from prompting on the terminal."""
    raise UserError("the key in collector.key_file is encrypted: store it without a password")


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "not PEM, or certificate and key do not match"
    return os_reason(error)
