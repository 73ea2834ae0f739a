"""HTTP client of a Prometheus-compatible store: remote write and PromQL queries."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec
from aiohttp import hdrs

from collector.common.errors import HistoryUnavailable
from collector.config import EndpointConfig
from wire.errors import INVALID_JSON, UserError
from wire.version import __version__

_MAX_EXCERPT = 300
_PERMANENT_FAILURES = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}
"""Answers after which a retry of the same request is useless. A wrong password or address is not among them:
once it is corrected, the waiting samples must still be there."""

_NUMBER = r"(?i)^(nan|[-+]?(inf|infinity|\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?))$"
Value = tuple[float, Annotated[str, msgspec.Meta(pattern=_NUMBER)]]
"""A time, and a number as text, since JSON has no NaN. `float` takes every such text."""


class Instant(msgspec.Struct, frozen=True):
    """A series with its value at one time."""

    metric: dict[str, str]
    value: Value


class Range(msgspec.Struct, frozen=True):
    """A series with its values over a period."""

    metric: dict[str, str]
    values: list[Value]


Result = TypeVar("Result")


class _Data(msgspec.Struct, Generic[Result], frozen=True):
    resultType: Literal["vector", "matrix"]  # noqa: N815 - as the store spells it
    result: list[Result]


class _Answer(msgspec.Struct, Generic[Result], frozen=True):
    data: _Data[Result]


_instants = msgspec.json.Decoder(_Answer[Instant])
_ranges = msgspec.json.Decoder(_Answer[Range])


class StoreRejected(Exception):  # noqa: N818 - an answer, not a bug
    """The store will never accept this request; the message gives the reason, for a person."""


class Client:
    """A connection to a store; created by `connect`."""

    def __init__(self, settings: EndpointConfig, session: aiohttp.ClientSession) -> None:
        self._settings = settings
        self._session = session
        self._base = settings.url.rstrip("/")
        parts = urlsplit(self._base)
        self.url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        """Address of the store, for messages that every reader of the API can see."""

    async def write(self, request: bytes, url: str = "") -> None:
        """Send a remote write request; raises `HistoryUnavailable`, or `StoreRejected` for good."""
        headers = {
            hdrs.CONTENT_TYPE: "application/x-protobuf",
            hdrs.CONTENT_ENCODING: "snappy",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        status, body = await self._post(url or f"{self._base}/api/v1/write", request, headers)
        if status in _PERMANENT_FAILURES:
            raise StoreRejected(_excerpt(status, body))
        if status // 100 != 2:  # noqa: PLR2004 - any of the 2xx
            raise HistoryUnavailable(_excerpt(status, body))

    async def query(self, promql: str, at: float) -> list[Instant]:
        """The result of an expression at one time."""
        answer = await self._query("query", {"query": promql, "time": f"{at:.3f}"})
        return (await self._decode(_instants, answer)).data.result

    async def query_raw(self, selector: str, at: float, seconds: float) -> list[Range]:
        """Every sample of the selected series, from `seconds` before a time until then."""
        milliseconds = max(1, round(seconds * 1000))
        parameters = {"query": f"{selector}[{milliseconds}ms]", "time": f"{at:.3f}"}
        return (await self._decode(_ranges, await self._query("query", parameters))).data.result

    async def query_range(self, promql: str, start: float, end: float, step_seconds: float) -> list[Range]:
        """The result of an expression from one time to another, both included, step by step."""
        parameters = {
            "query": promql,
            "start": f"{start:.3f}",
            "end": f"{end:.3f}",
            "step": f"{step_seconds:g}",
        }
        return (await self._decode(_ranges, await self._query("query_range", parameters))).data.result

    async def _query(self, path: str, parameters: dict[str, str]) -> bytes:
        # VictoriaMetrics otherwise withholds the last 30 s; other stores ignore this.
        form = aiohttp.FormData({**parameters, "latency_offset": "1ms", "nocache": "1"})()
        status, body = await self._post(f"{self._base}/api/v1/{path}", form)
        if status != HTTPStatus.OK:
            raise HistoryUnavailable(_excerpt(status, body))
        return body

    async def _decode(self, decoder: msgspec.json.Decoder[Result], body: bytes) -> Result:
        try:
            # An answer can have many megabytes; the event loop must not wait for it.
            return await asyncio.to_thread(decoder.decode, body)
        except INVALID_JSON as error:
            raise HistoryUnavailable(
                f"its answer is not that of a Prometheus API ({error}): check its address"
            ) from error

    async def _post(
        self, url: str, body: bytes | aiohttp.Payload, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        try:
            async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise HistoryUnavailable(_reason(error)) from error


@asynccontextmanager
async def connect(settings: EndpointConfig, key: str) -> AsyncIterator[Client]:
    """A client while the block runs; `key` is the name of its settings, for error messages."""
    connector = aiohttp.TCPConnector(ssl=_tls(settings, key), limit=4)
    headers = {hdrs.USER_AGENT: f"wattpack-collector/{__version__}", **_credentials(settings, key)}
    timeout = aiohttp.ClientTimeout(total=settings.timeout_seconds)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        yield Client(settings, session)


def _credentials(settings: EndpointConfig, key: str) -> dict[str, str]:
    path = settings.credentials_file
    if not path:
        return {}
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UserError(f"cannot read {path} ({str(why).lower()}): check {key}.credentials_file") from error
    # A bearer token has no colon (RFC 6750).
    user, colon, password = secret.partition(":")
    sent = aiohttp.encode_basic_auth(user, password) if colon else f"Bearer {secret}"
    return {hdrs.AUTHORIZATION: sent}


def _tls(settings: EndpointConfig, key: str) -> ssl.SSLContext | bool:
    if not (settings.ca_file or settings.cert_file):
        return True
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"cannot use the certificates for {settings.url} ({str(error).lower()}): "
            f"check ca_file, cert_file and key_file in [{key}]"
        ) from error
    return context


def _excerpt(status: int, body: bytes) -> str:
    return f"it answers {status} {body[:_MAX_EXCERPT].decode(errors='replace').strip()}".strip()


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        # asyncio puts the address in place of the reason, except if a name cannot be resolved.
        return (os.strerror(number) if number > 0 else error.os_error.strerror or str(error)).lower()
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


def selector(metrics: Iterable[str], node_label: str = "", nodes: Iterable[str] = ()) -> str:
    """The PromQL selector of these metrics: of these nodes by the label with their names, or of all."""
    of_nodes = f",{node_label}=~{_regex_of(nodes)}" if node_label else ""
    return f"{{__name__=~{_regex_of(metrics)}{of_nodes}}}"


def _regex_of(names: Iterable[str]) -> str:
    """A PromQL string with a regular expression that matches exactly these names."""
    escaped = ("".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in name) for name in names)
    text = "|".join(escaped).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


_SPECIAL = frozenset("\\.+*?()|[]{}^$")
