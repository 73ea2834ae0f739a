"""The conversation with a Docker engine: of one host, or of a Swarm's managers."""

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
"""What is handed back to the engine is kept as it came: a field that we do not know must not be lost."""

Told = TypeVar("Told")

_UNIX, _TCP = "unix", "tcp"


def filtered(**filters: str) -> str:
    """The engine's parameter `filters`."""
    return msgspec.json.encode({name.replace("_", "-"): [value] for name, value in filters.items()}).decode()


class EngineError(DriverError):
    """The engine answered, and said no."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status

    @property
    def is_conflict(self) -> bool:
        """Whether someone else changed the same thing meanwhile: to be read and tried again."""
        return "out of sequence" in str(self)


class _UnreachableError(DriverError):
    """It could not be asked; `maybe_heard` if it might have carried out the request all the same."""

    def __init__(self, why: str, *, maybe_heard: bool) -> None:
        super().__init__(why)
        self.maybe_heard = maybe_heard


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    parameters: Mapping[str, str | int]
    body: Json | None = None
    takes_seconds: float = 0.0
    """What the engine needs before it can answer."""


class Engine:
    """An engine, at the first of its addresses that answers; made by `connect`."""

    def __init__(self, sessions: Mapping[str, aiohttp.ClientSession], patience_seconds: float) -> None:
        self._sessions = dict(sessions)
        self._patience_seconds = patience_seconds

    async def get(self, path: str, kind: type[Told], **parameters: str | int) -> Told:
        """What the engine says to a question, read as `kind`."""
        said = await self._ask(_Request("GET", path, parameters))
        try:
            return msgspec.json.decode(said, type=kind)
        except msgspec.DecodeError as error:
            raise DriverError(f"the answer to GET {path} is not a Docker engine's ({error})") from error

    async def post(
        self, path: str, body: Json | None = None, *, takes_seconds: float = 0.0, **parameters: str | int
    ) -> bytes:
        """Order something that takes so long; gives the answer."""
        return await self._ask(_Request("POST", path, parameters, body, takes_seconds))

    async def delete(self, path: str, **parameters: str | int) -> None:
        await self._ask(_Request("DELETE", path, parameters))

    async def _ask(self, request: _Request) -> bytes:
        failures: list[str] = []
        for address, session in tuple(self._sessions.items()):
            try:
                said = await self._ask_one(session, request)
            except _UnreachableError as silent:
                if request.method != "GET" and silent.maybe_heard:
                    raise DriverError(f"the Docker engine at {address} was lost: {silent}") from silent
                failures.append(f"{address}: {silent}")
            except EngineError as refused:
                if refused.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                failures.append(f"{address}: {refused}")  # not, or no longer, a manager
            else:
                self._sessions = {address: session, **self._sessions}  # the first to be asked from now on
                return said
        raise DriverError(f"no Docker engine answers ({'; '.join(failures)})")

    async def _ask_one(self, session: aiohttp.ClientSession, request: _Request) -> bytes:
        timeout = aiohttp.ClientTimeout(total=self._patience_seconds + request.takes_seconds)
        try:
            # Without a version in the path the engine speaks its newest, so that nothing of a spec is lost.
            async with session.request(
                request.method, request.path, params=request.parameters, json=request.body, timeout=timeout
            ) as answer:
                said = await answer.read()
                status = answer.status
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno or 0
            why = os.strerror(number) if number > 0 else error.os_error.strerror or str(error)
            raise _UnreachableError(why.lower(), maybe_heard=False) from error
        except TimeoutError as error:
            raise _UnreachableError("no answer in time", maybe_heard=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _UnreachableError(str(error) or type(error).__name__, maybe_heard=True) from error
        if status >= HTTPStatus.BAD_REQUEST:
            raise EngineError(status, _message(said))
        return said


def _message(said: bytes) -> str:
    try:
        told = msgspec.json.decode(said, type=dict[str, str]).get("message", "")
    except msgspec.DecodeError:
        told = said.decode(errors="replace")
    return told.strip() or "the engine refuses without a word"


@asynccontextmanager
async def connect(addresses: Sequence[str], settings: DriverConfig) -> AsyncIterator[Engine]:
    """An engine while the block runs; raises `UserError` for an address or a certificate that is wrong."""
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
        f"{address!r} is no address of a Docker engine: write unix:///path/to/docker.sock or tcp://host:port"
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
