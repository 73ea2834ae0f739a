"""Basic authentication against bcrypt hashes, without paying for bcrypt at every scrape."""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from ssl import SSLContext

import bcrypt
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from wire.http.authorization import parse_basic
from wire.http.tls import server_context
from wire.http.webconfig_file import read_web_config

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CHALLENGE = 'Basic realm="wattpack", charset="UTF-8"'
_BCRYPT_MAX_BYTES = 72


class Users:
    """Who may come in.

    A hash is made to cost some 50 ms to check. That is done beside the event loop, one at a time however many
    guess, and a password that was right is remembered by a keyed digest until the file is read again: one per
    user at most, as only one fits.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = {name: hashed.encode() for name, hashed in hashes.items()}
        # An unknown name costs as much time as a known one, so that time does not tell which names exist.
        self._decoy = next(iter(self._hashes.values()))
        self._seen_right: dict[str, bytes] = {}
        self._key = secrets.token_bytes(32)
        self._turn = asyncio.Lock()

    async def admit(self, name: str, password: bytes) -> bool:
        """Tell whether this is the password of that user."""
        digest = blake2b(password, key=self._key).digest()
        if hmac.compare_digest(self._seen_right.get(name, b""), digest):
            return True
        async with self._turn:
            fits = await asyncio.to_thread(_matches, password, self._hashes.get(name, self._decoy))
        if not fits or name not in self._hashes:
            return False
        self._seen_right[name] = digest
        return True


def _matches(password: bytes, hashed: bytes) -> bool:
    # What is longer was cut off when the hash was made, and this library refuses it instead.
    return bcrypt.checkpw(password[:_BCRYPT_MAX_BYTES], hashed)


def require_user(users: Users) -> Middleware:
    """Make the guard that answers everybody else with 401."""

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        given = parse_basic(request.headers.get(hdrs.AUTHORIZATION, ""))
        if given is not None and await users.admit(*given):
            return await handler(request)
        return web.Response(status=401, text="Unauthorized\n", headers={hdrs.WWW_AUTHENTICATE: _CHALLENGE})

    return guard


__all__ = ["check_web_config", "protect"]


def protect(app: web.Application, file: Path) -> SSLContext | None:
    """Put the guards that a file asks for before an application; gives the TLS context if it asks for TLS."""
    config = read_web_config(file)
    if config.basic_auth_users:
        app.middlewares.insert(0, require_user(Users(config.basic_auth_users)))
    headers = config.http_server_config.headers

    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)

    app.on_response_prepare.append(add_headers)
    return server_context(config.tls_server_config) if config.tls_server_config else None


def check_web_config(file: Path) -> None:
    """Raise the `UserError` that `protect` would raise, if any."""
    protect(web.Application(), file)
