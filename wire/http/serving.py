"""Serving over HTTP, the part that agent and collector share: binding, guarding, `/metrics`."""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from wire.address import Address
from wire.errors import UserError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LINGER_SECONDS = 1.0
"""How long a refused body is still read, so that its sender hears of the refusal; then it is cut off."""
_IDLE_SECONDS = 150.0
"""Longer than an agent keeps its connection; whoever is silent for so long, or half-way into a request's
head, is cut off."""


def metrics_handler(registry: CollectorRegistry) -> Handler:
    """Answer a scrape in the format that the scraper asks for."""

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return metrics


@asynccontextmanager
async def serving(
    app: web.Application, address: Address, key: str, web_config: str = "", tls: SSLContext | None = None
) -> AsyncIterator[Address]:
    """Serve `app` while the block runs; yields the address really bound (port 0 takes a free one).

    `key` is the configuration key that names the address, for the sentence when it cannot be had.
    `web_config` is the path of a Prometheus web configuration file, which may ask for TLS as well; empty and
    without a context for TLS it serves plainly.
    """
    if web_config:
        from wire.http.webconfig import protect  # noqa: PLC0415 - YAML and bcrypt only where they are used

        tls = protect(app, Path(web_config))
    # Bodies are unpacked by who reads them, who knows how large they may become.
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
        site = web.TCPSite(runner, address.host, address.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise UserError(_listen_error(error, address, key)) from error
        server = site._server  # noqa: SLF001 - aiohttp has no public way to learn the port it was given
        port = server.sockets[0].getsockname()[1] if server is not None else address.port  # type: ignore[attr-defined]
        yield Address(address.host, port, tls=tls is not None)
    finally:
        await runner.cleanup()


def _listen_error(error: OSError, address: Address, key: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"{address} is already in use: stop what listens there, or choose another with {key}"
        case errno.EACCES:
            return f"not allowed to listen on {address}: choose a port above 1023 with {key}"
        case _:
            reason = (error.strerror or str(error)).lower()
            return f"cannot listen on {address} ({reason}): give an address of this host with {key}"
