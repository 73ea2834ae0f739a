"""Clients of Docker engines, on the `docker` SDK: of single hosts, or of the managers of a Swarm.

The SDK makes the connections: sockets, TLS, pools. Requests and responses are the engine's own JSON: the
methods of the SDK drop fields that they do not know, and a spec that goes back without them loses them.

The SDK blocks, so each engine has its own threads: one that hangs does not delay the others.
"""

import asyncio
import importlib
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from socket import gaierror
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from collector.act.drivers.interface import DriverError, RefusedError
from collector.config import DriverConfig
from wire.errors import INVALID_JSON, UserError

Json = dict[str, Any]
"""Specs go back to the engine unchanged, including fields that are unknown here."""

Response = TypeVar("Response")

_API_VERSION = "1.41"
"""For the SDK, which otherwise queries the engine for it. Requests have no version in their path."""
_THREADS = 4
"""Concurrent requests to one engine."""
_MAX_BYTES, _PART_BYTES = 256 << 20, 64 << 10
"""Maximum size of a response: a list of a hundred thousand Swarm tasks is smaller."""


def filtered(**filters: str) -> str:
    """Return the query parameter `filters`."""
    return msgspec.json.encode({name.replace("_", "-"): [value] for name, value in filters.items()}).decode()


class _UnreachableError(DriverError):
    """The engine did not answer; `maybe_done` tells whether it may have carried out the request."""

    def __init__(self, reason: str, *, maybe_done: bool) -> None:
        super().__init__(reason)
        self.maybe_done = maybe_done


class _Connection:
    """A client of the SDK, and the threads that use it."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - an extra
        self._client = client
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="docker")

    async def send(self, seconds: float, method: str, path: str, **content: Any) -> bytes:  # noqa: ANN401 - JSON
        """Send a request, and return the response. Raise `RefusedError` or `_UnreachableError`."""
        send = partial(_send, self._client, seconds, method, path, **content)
        running = asyncio.get_running_loop().run_in_executor(self._threads, send)
        try:
            # The SDK's timeout is for each read, and an engine may send a byte now and then. Python 3.11's
            # `wait_for` would lose a cancellation that comes together with the answer.
            async with asyncio.timeout(seconds):
                status, body = await running
        except TimeoutError as error:
            raise _UnreachableError("timeout", maybe_done=True) from error
        if status >= HTTPStatus.BAD_REQUEST:
            raise RefusedError(status, _message(body))
        return body

    def close(self) -> None:
        # A request that hangs ends by its own timeout; it must not delay the end of the collector.
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()


class Engine:
    """An engine, at the first of its addresses that answers; see `connect`."""

    def __init__(self, connections: Mapping[str, _Connection], timeout_seconds: float) -> None:
        self._connections = dict(connections)
        self._timeout_seconds = timeout_seconds

    async def get(self, path: str, kind: type[Response], **parameters: str | int) -> Response:
        """Return the response to a GET request, parsed as `kind`."""
        body = await self._request("GET", path, params=parameters)
        try:
            return msgspec.json.decode(body, type=kind)
        except INVALID_JSON as error:
            raise DriverError(f"invalid response of the Docker engine to GET {path} ({error})") from error

    async def post(
        self, path: str, body: Json | None = None, *, takes_seconds: float = 0.0, **parameters: str | int
    ) -> bytes:
        """Send a POST request, and return the response. The engine needs `takes_seconds` to answer it."""
        return await self._request("POST", path, takes_seconds, params=parameters, json=body)

    async def delete(self, path: str, **parameters: str | int) -> None:
        await self._request("DELETE", path, params=parameters)

    async def _request(self, method: str, path: str, takes_seconds: float = 0.0, **content: Any) -> bytes:  # noqa: ANN401 - JSON
        failures: list[str] = []
        for address, connection in tuple(self._connections.items()):
            try:
                body = await connection.send(self._timeout_seconds + takes_seconds, method, path, **content)
            except _UnreachableError as error:
                if method != "GET" and error.maybe_done:
                    raise DriverError(f"the Docker engine at {address} stopped answering: {error}") from error
                failures.append(f"{address}: {error}")
            except RefusedError as error:
                if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                failures.append(f"{address}: {error}")  # not a manager, or no longer
            else:
                self._connections = {address: connection, **self._connections}  # it comes first from now on
                return body
        raise DriverError(f"no Docker engine answers ({'; '.join(failures)})")


def _send(client: Any, seconds: float, method: str, path: str, **content: Any) -> tuple[int, bytes]:  # noqa: ANN401 - an extra
    """Send a request; return status and body. Raise `_UnreachableError`."""
    from requests import exceptions  # noqa: PLC0415 - an extra, which the SDK brings

    try:
        # Without a version in the path the engine uses its newest API, so that no field of a spec is lost.
        response = client.request(method, f"{client.base_url}{path}", timeout=seconds, stream=True, **content)
        with closing(response):
            return response.status_code, _read(response, time.monotonic() + seconds)
    except exceptions.Timeout as error:
        unsent = isinstance(error, exceptions.ConnectTimeout)
        raise _UnreachableError("timeout", maybe_done=not unsent) from error
    except (exceptions.RequestException, OSError) as error:
        causes = [each for each in _causes(error) if isinstance(each, OSError) and (each.errno or 0) > 0]
        reason = os.strerror(causes[-1].errno or 0) if causes else str(error) or type(error).__name__
        before = FileNotFoundError, PermissionError, ConnectionRefusedError, gaierror
        # All fail before the request is sent.
        unsent = isinstance(error, exceptions.SSLError) or any(
            isinstance(each, before) for each in _causes(error)
        )
        raise _UnreachableError(reason.lower(), maybe_done=not unsent) from error


def _read(response: Any, deadline: float) -> bytes:  # noqa: ANN401 - an extra
    """Read a body of limited size: no engine may take the memory of the collector."""
    body = bytearray()
    for part in response.iter_content(_PART_BYTES):
        body += part
        if len(body) > _MAX_BYTES:
            raise _UnreachableError(f"its response is larger than {_MAX_BYTES >> 20} MiB", maybe_done=True)
        if time.monotonic() > deadline:
            raise _UnreachableError("timeout", maybe_done=True)
    return bytes(body)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error and what caused it; the libraries below the SDK wrap errors."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _message(body: bytes) -> str:
    try:
        text = msgspec.json.decode(body, type=dict[str, str]).get("message", "")
    except INVALID_JSON:
        text = body.decode(errors="replace")
    return text.strip() or "the engine gives no reason"


@asynccontextmanager
async def connect(addresses: Sequence[str], settings: DriverConfig) -> AsyncIterator[Engine]:
    """Connect to an engine while the block runs. Raise `UserError` for an invalid address or certificate."""
    with ExitStack() as stack:
        connections = {
            address: stack.enter_context(closing(_connection(address, settings))) for address in addresses
        }
        yield Engine(connections, settings.request_seconds)


class Engines(dict[str, Engine]):
    """The engines of single hosts, by node name."""

    def __missing__(self, node: str) -> Engine:
        raise DriverError(
            f"the address of the Docker engine of {node} is unknown: add it to [driver.engines]"
        )


@asynccontextmanager
async def open_engines(settings: DriverConfig) -> AsyncIterator[Engines]:
    """Connect to the configured engines while the block runs."""
    async with AsyncExitStack() as stack:
        engines = Engines()
        for node, address in settings.engines.items():
            engines[node] = await stack.enter_async_context(connect([address], settings))
        yield engines


def _connection(address: str, settings: DriverConfig) -> _Connection:
    parts = urlsplit(address)
    is_tcp = parts.scheme == "tcp" and parts.hostname and parts.netloc.rpartition(":")[2].isdecimal()
    if not is_tcp and not (parts.scheme == "unix" and parts.path):
        raise UserError(
            f"{address!r} is not an address of a Docker engine: write unix:///path/to/docker.sock or"
            " tcp://host:port"
        )
    try:
        docker: Any = importlib.import_module("docker")
    except ImportError as error:
        raise UserError(
            "the drivers docker and swarm need the docker SDK: install it with pip install 'wattpack[docker]'"
        ) from error
    tls = _tls(docker, settings) if is_tcp else False
    client = docker.APIClient(address, version=_API_VERSION, timeout=settings.request_seconds, tls=tls)
    client.trust_env = False  # no proxy between the collector and an engine
    client.proxies = {}
    return _Connection(client)


def _tls(docker: Any, settings: DriverConfig) -> Any:  # noqa: ANN401 - an extra
    """Return the TLS settings of the SDK; False without TLS."""
    if not settings.certificates:
        return False
    ca, own, key = (str(Path(settings.certificates, f"{name}.pem")) for name in ("ca", "cert", "key"))
    try:
        # The SDK reads these files with its first request only.
        ssl.create_default_context(cafile=ca).load_cert_chain(own, key)
    except OSError as error:  # an SSLError is one too
        raise UserError(
            f"cannot use the certificates for the Docker engines ({str(error).lower()}): "
            f"check ca.pem, cert.pem and key.pem in {settings.certificates} (driver.certificates)"
        ) from error
    return docker.tls.TLSConfig(client_cert=(own, key), ca_cert=ca, verify=True)
