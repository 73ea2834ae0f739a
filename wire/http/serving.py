"""The HTTP server that agent and collector share: listening, TLS and basic authentication, `/metrics`."""

import errno
import logging
import socket
from asyncio.log import logger as asyncio_logger
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from wire.address import Address
from wire.errors import UserError, os_reason
from wire.http.connections import BACKLOG, ConnectionLimits, listen

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NOT_ACCEPTED = "socket.accept() out of system resource"
"""What asyncio logs, with a traceback."""
_LINGER_SECONDS = 1.0
"""How long the rest of a rejected body is read, so that the client receives the response."""
_IDLE_SECONDS = 150.0
"""Timeout of an idle connection or an incomplete request head; longer than an agent keeps its connection."""


def metrics_handler(registry: CollectorRegistry) -> Handler:
    """Create a handler that answers a scrape in the format that the client requests."""

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return metrics


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a message of the server is logged: not what anyone can cause, as often as they like.

    That is a malformed request, or a connection for which no descriptor is left: `ConnectionLimits` logs it.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, HttpProcessingError) or record.getMessage().startswith(_NOT_ACCEPTED))


@asynccontextmanager
async def serving(  # noqa: PLR0913 - most are left at their defaults
    app: web.Application,
    address: Address,
    key: str,
    web_config: str = "",
    tls: SSLContext | None = None,
    *,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[Address]:
    """Serve `app` while the block runs; yields the bound address (port 0 chooses a free port).

    `key` is the setting of the address, for error messages. `web_config` is the path of a Prometheus web
    configuration file, which can enable TLS. Without it and without `tls`, the server uses plain HTTP.
    `limits` are those of the process by default.
    """
    if web_config:
        from wire.http.webconfig import protect  # noqa: PLC0415 - YAML and bcrypt only where they are used

        tls = protect(app, Path(web_config))
    for logger in (server_logger, asyncio_logger):
        logger.addFilter(_is_worth_a_line)
    # The handler decompresses the body, because it knows the size limit.
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=2.0,
        auto_decompress=False,
        keepalive_timeout=_IDLE_SECONDS,
        lingering_time=_LINGER_SECONDS,
    )
    await runner.setup()
    try:
        sockets = await _listen(address, key, limits)
        port = sockets[0].getsockname()[1]
        for each in sockets:
            await web.SockSite(runner, each, ssl_context=tls, backlog=BACKLOG).start()
        yield Address(address.host, port, tls=tls is not None)
    finally:
        await runner.cleanup()


async def check_address(address: Address, key: str) -> None:
    """Raise `UserError` if `serving` could not listen now, so that a start fails before it writes a file."""
    for each in await _listen(address, key, None):
        each.close()


async def _listen(address: Address, key: str, limits: ConnectionLimits | None) -> list[socket.socket]:
    try:
        return await listen(address, limits or ConnectionLimits.of_process())
    except OSError as error:
        raise UserError(_listen_error(error, address, key)) from error


def _listen_error(error: OSError, address: Address, key: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"{address} is already in use: stop that process, or set {key} to another address"
        case errno.EACCES:
            return f"no permission to listen on {address}: set {key} to a port above 1023"
        case _:
            return f"cannot listen on {address} ({os_reason(error)}): set {key} to an address of this host"
