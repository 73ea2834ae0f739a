"""Requests to a collector: its address, token and CA certificate, what an error means, and lists."""

import argparse
import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from aiohttp import hdrs

from wattpack.config.arguments import add, count
from wattpack.output.text import Columns, columns_table, print_result
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
Found = TypeVar("Found")
Json = dict[str, Any]
TIMEOUT_SECONDS = 60.0
JOIN_PATH = "/v1/join"
_JSON_HEADERS = {"Content-Type": "application/json"}
_PAGE = 1000


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
    kind = "join" if path == JOIN_PATH else "read"
    match status:
        case HTTPStatus.UNAUTHORIZED if with_token:
            return UserError(
                f"the collector at {url} does not accept the token: it is unknown, revoked or expired. Create"
                f" one on its host with 'wattpack token add {kind} NAME'"
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


@dataclass(frozen=True, slots=True)
class Collector:
    """A connection to a collector. Responses are not validated: it may be newer than this command."""

    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str, **parameters: str | None) -> Json:
        """Get one response; raises `UnavailableError`, or `UserError` if the request is rejected."""
        return await self._request("GET", path, params=_given(parameters))

    async def get_optional(self, path: str, default: Json) -> Json:
        """Get one response of a feature that the collector may not have."""
        try:
            return await self.get(path)
        except NotFoundError:
            return default

    async def get_text(self, path: str, **parameters: str | None) -> str:
        """Get a response that is not JSON; raises as `get` does."""
        return (await self._read("GET", path, params=_given(parameters))).decode("utf-8", "replace")

    async def post(self, path: str, body: object, shape: type[Found]) -> Found:
        """Post a body as JSON; returns the response in its shape. Raises as `get` does."""
        content = {"data": msgspec.json.encode(body), "headers": _JSON_HEADERS}
        try:
            return msgspec.convert(await self._request("POST", path, **content), shape)
        except msgspec.ValidationError as error:
            raise UserError(
                f"the collector at {self.url} is not of this version ({error}): use the same version"
            ) from None

    async def _request(self, method: str, path: str, **content: Any) -> Json:  # noqa: ANN401 - aiohttp's
        body = await self._read(method, path, **content)
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"sends an invalid response to {path} ({error})") from None

    async def _read(self, method: str, path: str, **content: Any) -> bytes:  # noqa: ANN401 - aiohttp's
        try:
            async with self.session.request(method, self.url + path, **content) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise explain_failure(self.url, error) from None
        if response.status != HTTPStatus.OK:
            with_token = hdrs.AUTHORIZATION in self.session.headers
            raise explain_status(self.url, path, response.status, body, with_token=with_token)
        return body

    async def get_all(self, path: str, *, key: str | None = None, **parameters: str | None) -> list[Json]:
        """Get all pages of a list; `key` names it in the response (default: the end of the path)."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            page = await self.get(path, limit=str(_PAGE), cursor=cursor, **parameters)
            found += page[key or path.rpartition("/")[2]]
            cursor = page.get("next")
            if cursor is None:
                return found


def _given(parameters: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}


def add_collector_options(parser: argparse.ArgumentParser) -> None:
    """`--collector`, `--token-file`, `--ca-file` and `--json`."""
    add_access_options(parser)
    add(parser, "--json", "print JSON")


def add_list_options(parser: argparse.ArgumentParser, default_limit: int | None = None) -> None:
    """The options of `add_collector_options`, and `--limit`."""
    limit = "show at most N" if default_limit else "show at most N (default: all)"
    add(parser, "--limit N", limit, count, default=default_limit)
    add_collector_options(parser)


def add_access_options(
    parser: argparse.ArgumentParser,
    collector_help: str = f"address of the collector (default: {URL_VARIABLE}, or http://{COLLECTOR_DEFAULT})",
) -> None:
    """`--collector`, `--token-file` and `--ca-file`."""
    add(parser, "--collector URL", collector_help)
    add(parser, "--token-file FILE", f"file with the token (default: {TOKEN_VARIABLE})", Path)
    add(parser, "--ca-file FILE", f"CA certificate of the collector (default: {CA_VARIABLE})")


def query_collector(
    arguments: argparse.Namespace,
    query: Callable[[Collector], Awaitable[Found]],
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Found:
    """Run `query` on the collector; raises `UserError` if it does not answer."""
    url = collector_url(arguments.collector)
    timeout = aiohttp.ClientTimeout(total=timeout_seconds)

    async def run() -> Found:
        async with open_session(timeout, access_environment(arguments)) as session:
            return await query(Collector(session, url))

    try:
        return asyncio.run(run())
    except UnavailableError as error:
        raise explain_unavailable(url, error) from None


def get(arguments: argparse.Namespace, path: str, **parameters: str | None) -> Json:
    """`Collector.get`, as the only request of a command."""
    return query_collector(arguments, lambda collector: collector.get(path, **parameters))


def get_all(arguments: argparse.Namespace, path: str, **parameters: str | None) -> list[Json]:
    """`Collector.get_all`, as the only request of a command."""
    return query_collector(arguments, lambda collector: collector.get_all(path, **parameters))


def post(
    arguments: argparse.Namespace,
    path: str,
    body: object,
    shape: type[Found],
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Found:
    """`Collector.post`, as the only request of a command."""
    return query_collector(arguments, lambda collector: collector.post(path, body, shape), timeout_seconds)


def access_environment(arguments: argparse.Namespace) -> Mapping[str, str]:
    """The environment, with the token and the CA certificate of the options."""
    environment = dict(os.environ)
    if arguments.ca_file is not None:
        environment[CA_VARIABLE] = arguments.ca_file
    if arguments.token_file is not None:
        try:
            environment[TOKEN_VARIABLE] = arguments.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = os_reason(error) if isinstance(error, OSError) else "not UTF-8 text"
            raise UserError(
                f"cannot read the token file {arguments.token_file} ({reason}): check its path"
            ) from error
    return environment


def print_list(
    arguments: argparse.Namespace, found: list[Json], columns: Columns, empty: str, note: str = ""
) -> int:
    """Print entries as JSON or as a table; `empty` if there are none. Returns the exit status."""
    shown = found[: arguments.limit]
    lines = (*columns_table(columns, shown), *more_lines(found, shown), *filter(None, (note,)))
    return print_result(arguments, shown, lines if shown else (empty,))


def more_lines(found: Sequence[object], shown: Sequence[object]) -> Iterator[str]:
    """The number of entries that the limit leaves out."""
    if len(shown) < len(found):
        yield f"... and {len(found) - len(shown)} more"
