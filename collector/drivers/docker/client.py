"""HTTP client of a Docker engine: of one host, or of the managers of a Swarm."""

import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from collector.config import DriverConfig
from collector.drivers.interface import DriverError
from wire.errors import UserError

Json = dict[str, Any]
"""Specs go back to the engine unchanged, including fields that are unknown here."""

Response = TypeVar("Response")

_UNIX, _TCP = "unix", "tcp"


def filtered(**filters: str) -> str:
    """Return the query parameter `filters`."""
    return msgspec.json.encode({name.replace("_", "-"): [value] for name, value in filters.items()}).decode()


class EngineError(DriverError):
    """The engine refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_conflict(self) -> bool:
        """Whether the object changed meanwhile: read it and try again."""
        return "out of sequence" in str(self)


class _UnreachableError(DriverError):
    """The engine did not answer; `maybe_done` if it may have carried out the request."""

    def __init__(self, reason: str, *, maybe_done: bool) -> None:
        super().__init__(reason)
        self.maybe_done = maybe_done


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    parameters: Mapping[str, str | int]
    body: Json | None = None
    takes_seconds: float = 0.0
    """Time that the engine needs before it answers."""


class Engine:
    """An engine, at the first of its addresses that answers; see `connect`."""

    def __init__(self, sessions: Mapping[str, aiohttp.ClientSession], timeout_seconds: float) -> None:
        self._sessions = dict(sessions)
        self._timeout_seconds = timeout_seconds

    async def get(self, path: str, kind: type[Response], **parameters: str | int) -> Response:
        """Return the response to a GET request, parsed as `kind`."""
        body = await self._request(_Request("GET", path, parameters))
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise DriverError(f"invalid response of the Docker engine to GET {path} ({error})") from error

    async def post(
        self, path: str, body: Json | None = None, *, takes_seconds: float = 0.0, **parameters: str | int
    ) -> bytes:
        """Send a POST request that takes this long, and return the response."""
        return await self._request(_Request("POST", path, parameters, body, takes_seconds))

    async def delete(self, path: str, **parameters: str | int) -> None:
        await self._request(_Request("DELETE", path, parameters))

    async def _request(self, request: _Request) -> bytes:
        failures: list[str] = []
        for address, session in tuple(self._sessions.items()):
            try:
                body = await self._send(session, request)
            except _UnreachableError as error:
                if request.method != "GET" and error.maybe_done:
                    raise DriverError(f"the Docker engine at {address} stopped answering: {error}") from error
                failures.append(f"{address}: {error}")
            except EngineError as error:
                if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                failures.append(f"{address}: {error}")  # not a manager, or no longer
            else:
                self._sessions = {address: session, **self._sessions}  # this address comes first from now on
                return body
        raise DriverError(f"no Docker engine answers ({'; '.join(failures)})")

    async def _send(self, session: aiohttp.ClientSession, request: _Request) -> bytes:
        timeout = aiohttp.ClientTimeout(total=self._timeout_seconds + request.takes_seconds)
        try:
            # Without a version in the path the engine uses its newest API, so that no field of a spec is
            # lost.
            async with session.request(
                request.method, request.path, params=request.parameters, json=request.body, timeout=timeout
            ) as response:
                body = await response.read()
                status = response.status
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno or 0
            reason = os.strerror(number) if number > 0 else error.os_error.strerror or str(error)
            raise _UnreachableError(reason.lower(), maybe_done=False) from error
        except TimeoutError as error:
            raise _UnreachableError("timeout", maybe_done=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _UnreachableError(str(error) or type(error).__name__, maybe_done=True) from error
        if status >= HTTPStatus.BAD_REQUEST:
            raise EngineError(status, _message(body))
        return body


def _message(body: bytes) -> str:
    try:
        text = msgspec.json.decode(body, type=dict[str, str]).get("message", "")
    except msgspec.DecodeError:
        text = body.decode(errors="replace")
    return text.strip() or "the engine gives no reason"


@asynccontextmanager
async def connect(addresses: Sequence[str], settings: DriverConfig) -> AsyncIterator[Engine]:
    """Connect to an engine while the block runs. Raise `UserError` for an invalid address or certificate."""
    async with AsyncExitStack() as stack:
        sessions = {}
        for address in addresses:
            sessions[address] = await stack.enter_async_context(_session(address, settings))
        yield Engine(sessions, settings.request_seconds)


def _session(address: str, settings: DriverConfig) -> aiohttp.ClientSession:
    parts = urlsplit(address)
    if parts.scheme == _UNIX and parts.path:
        return aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(path=parts.path))
    if parts.scheme == _TCP and parts.hostname and _port(parts.netloc):
        tls = _tls(settings)
        scheme = "http" if tls is None else "https"
        connector = aiohttp.TCPConnector(ssl=True if tls is None else tls)
        return aiohttp.ClientSession(f"{scheme}://{parts.netloc}", connector=connector)
    raise UserError(
        f"{address!r} is not an address of a Docker engine: write unix:///path/to/docker.sock or tcp://host:port"
    )


def _port(netloc: str) -> bool:
    return netloc.rpartition(":")[2].isdecimal()


def _tls(settings: DriverConfig) -> ssl.SSLContext | None:
    if not (settings.ca_file or settings.cert_file):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file or None)
    except OSError as error:  # an SSLError is one too
        raise UserError(
            f"cannot use the certificates for the Docker engines ({str(error).lower()}): "
            "check ca_file, cert_file and key_file in [driver]"
        ) from error
    return context
