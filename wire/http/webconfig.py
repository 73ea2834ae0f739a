"""Prometheus' web configuration file: TLS, basic authentication and headers, as its exporters take them.

In comes the path of a YAML file, out goes an application that is guarded by it and the TLS context to serve
it with: `protect(app, file)`. What we accept, `promtool check web-config` accepts too; what Prometheus knows
and we do not is refused by name, never passed over.

PyYAML and bcrypt are imported with this package, and the package only where such a file is set: without one,
nobody pays for them.
"""

from pathlib import Path
from ssl import SSLContext

from aiohttp import web

from wire.http.basic_auth import Users, only_for
from wire.http.tls import server_context
from wire.http.webconfig_file import read_web_config

__all__ = ["check_web_config", "protect"]


def protect(app: web.Application, file: Path) -> SSLContext | None:
    """Put the guards that a file asks for before an application; gives the TLS context if it asks for TLS."""
    config = read_web_config(file)
    if config.basic_auth_users:
        app.middlewares.insert(0, only_for(Users(config.basic_auth_users)))
    headers = config.http_server_config.headers

    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)

    app.on_response_prepare.append(add_headers)
    return server_context(config.tls_server_config) if config.tls_server_config else None


def check_web_config(file: Path) -> None:
    """Raise the `UserError` that `protect` would raise, if any."""
    protect(web.Application(), file)
