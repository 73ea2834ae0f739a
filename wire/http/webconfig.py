"""Basic authentication with bcrypt hashes, without the cost of bcrypt at every scrape."""

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from ssl import SSLContext

import bcrypt
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from wire.http.authorization import parse_basic
from wire.http.webconfig_file import read_web_config, server_context

_CHALLENGE = 'Basic realm="wattpack", charset="UTF-8"'
_BCRYPT_MAX_BYTES = 72


class Users:
    """The users and their password hashes.

    Checking a bcrypt hash takes about 50 ms. It runs in a thread, one check at a time, however many clients
    guess. A correct password is cached as a keyed digest: at most one per user.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = {name: hashed.encode() for name, hashed in hashes.items()}
        # Checking an unknown name takes equally long, so that timing does not reveal which names exist.
        self._decoy = next(iter(self._hashes.values()))
        self._verified: dict[str, bytes] = {}
        self._key = secrets.token_bytes(32)
        self._turn = asyncio.Lock()

    async def verify(self, name: str, password: bytes) -> bool:
        """Whether this is the password of that user."""
        digest = blake2b(password, key=self._key).digest()
        if hmac.compare_digest(self._verified.get(name, b""), digest):
            return True
        async with self._turn:
            matches = await asyncio.to_thread(_matches, password, self._hashes.get(name, self._decoy))
        if not matches or name not in self._hashes:
            return False
        self._verified[name] = digest
        return True


def _matches(password: bytes, hashed: bytes) -> bool:
    # htpasswd truncates a longer password when it creates the hash; this library raises an error instead.
    return bcrypt.checkpw(password[:_BCRYPT_MAX_BYTES], hashed)


def require_user(users: Users) -> Middleware:
    """Create a middleware that answers requests without a valid password with 401."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        credentials = parse_basic(request.headers.get(hdrs.AUTHORIZATION, ""))
        if credentials is not None and await users.verify(*credentials):
            return await handler(request)
        return web.Response(status=401, text="Unauthorized\n", headers={hdrs.WWW_AUTHENTICATE: _CHALLENGE})

    return guard


def protect(app: web.Application, file: Path) -> SSLContext | None:
    """Apply a web configuration file to an application; returns the TLS context if the file enables TLS."""
    config = read_web_config(file)
    if config.basic_auth_users:
        app.middlewares.insert(0, require_user(Users(config.basic_auth_users)))
    return server_context(config.tls_server_config) if config.tls_server_config else None


def check_web_config(file: Path) -> None:
    """Raise the `UserError` that `protect` would raise, if any."""
    protect(web.Application(), file)
