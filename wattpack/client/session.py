"""HTTP sessions with a collector: its address, the token, the CA certificate, and what an error means."""

import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp
import msgspec
from aiohttp import hdrs

from wire.address import COLLECTOR_DEFAULT
from wire.errors import Problem, UserError, os_reason

URL_VARIABLE = "WATTPACK_COLLECTOR"
TOKEN_VARIABLE = "WATTPACK_TOKEN"  # noqa: S105 - the name of one, not one
CA_VARIABLE = "WATTPACK_CA_FILE"
_HOST_MISMATCH = 62
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL."""
_IP_MISMATCH = 64
_EXPIRED = 10
"""X509_V_ERR_CERT_HAS_EXPIRED."""


class UnavailableError(Exception):
    """The collector does not respond now, but may do so later. The text is the predicate of a sentence."""


def explain_unavailable(url: str, error: UnavailableError) -> UserError:
    """The error for the user."""
    return UserError(
        f"the collector at {url} {error}: check that it is running, and give its address with --collector or"
        f" {URL_VARIABLE}"
    )


def open_session(
    timeout: aiohttp.ClientTimeout, environment: Mapping[str, str] = os.environ
) -> aiohttp.ClientSession:
    """A session that sends the user's token and trusts the collector's CA."""
    token = environment.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(
            f"{TOKEN_VARIABLE} is not a token: set it to the secret from 'wattpack token add read NAME'"
        )
    ca_file = environment.get(CA_VARIABLE, "")
    try:
        trusted: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
    except OSError as error:
        reason = "not PEM" if isinstance(error, ssl.SSLError) else os_reason(error)
        raise UserError(
            f"cannot read certificates from {ca_file} ({reason}): check --ca-file or {CA_VARIABLE}"
        ) from error
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusted),
        headers={hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {},
        timeout=timeout,
    )


def collector_url(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The address of the collector: as given, from the environment, or on this host."""
    url = given or environment.get(URL_VARIABLE) or f"http://{COLLECTOR_DEFAULT}"
    if not url.startswith(("http://", "https://")):
        raise UserError(
            f"{'--collector' if given else URL_VARIABLE} {url}: use a URL such as http://{COLLECTOR_DEFAULT}"
        )
    return url.rstrip("/")


def explain_failure(url: str, error: Exception) -> UserError | UnavailableError:
    """The error for a request without a response: what to change, unless it is only the collector's state."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return UserError(_certificate_text(url, error))
    if isinstance(error, aiohttp.ClientSSLError):
        return UserError(f"the server at {url} does not use TLS: use http://")
    if isinstance(error, TimeoutError):
        return UnavailableError("does not answer in time")
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientResponseError):
        hint = "; if it uses TLS, its address begins with https://" if url.startswith("http://") else ""
        return UnavailableError(f"closes the connection without a valid response{hint}")
    return UnavailableError(f"does not answer ({_reason(error)})")


def _reason(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    # asyncio replaces strerror with a text of its own; errors of name resolution have negative numbers.
    number = error.errno or 0
    return os.strerror(number).lower() if number > 0 else error.strerror or str(error)


def _certificate_text(url: str, error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    code = cause.verify_code if isinstance(cause, ssl.SSLCertVerificationError) else None
    reason = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
    reason = reason.rstrip(".")
    if code in {_HOST_MISMATCH, _IP_MISMATCH}:
        return (
            f"the certificate of the collector at {url} is for another name ({reason}): use a name"
            " from the certificate in its address"
        )
    if code == _EXPIRED:
        return f"the certificate of the collector at {url} has expired: renew it on the collector's host"
    return (
        f"the certificate of the collector at {url} is not trusted ({reason}): give the CA that signed it"
        f" with --ca-file FILE or {CA_VARIABLE}"
    )


class NotFoundError(UserError):
    """The collector has no such thing, or no such route: a feature may be missing."""


def explain_status(
    url: str, path: str, status: int, body: bytes, *, with_token: bool
) -> UserError | UnavailableError:
    """The error for a response that is not a success."""
    try:
        detail = msgspec.json.decode(body, type=Problem).detail
    except msgspec.MsgspecError:
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # A proxy in front of a collector that restarts.
            return UnavailableError(f"answers {status} to {path}")
        return UserError(
            f"the server at {url} answers {status} to {path}, not as a collector of this version: check"
            f" --collector or {URL_VARIABLE}"
        )
    match status:
        case HTTPStatus.UNAUTHORIZED if with_token:
            return UserError(
                f"the collector at {url} does not accept the token: it is unknown, revoked or expired. Create"
                " one on its host with 'wattpack token add read NAME'"
            )
        case HTTPStatus.UNAUTHORIZED:
            return UserError(
                f"the collector at {url} requires a token: create one on its host with 'wattpack token add"
                f" read NAME', and give it with --token-file FILE or {TOKEN_VARIABLE}"
            )
        case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.SERVICE_UNAVAILABLE:
            return UnavailableError(f"is not available now ({detail})")
        case HTTPStatus.NOT_FOUND:
            return NotFoundError(detail)
        case HTTPStatus.BAD_REQUEST:
            return UserError(detail)
        case _:
            return UserError(f"the collector at {url} answers {status}: {detail}")
