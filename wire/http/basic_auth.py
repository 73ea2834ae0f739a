"""Basic authentication against bcrypt hashes, without paying for bcrypt at every scrape."""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b

import bcrypt
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from wire.http.authorization import parse_basic

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CHALLENGE = 'Basic realm="wattpack", charset="UTF-8"'
_BCRYPT_LOOKS_AT_BYTES = 72


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
            fits = await asyncio.to_thread(_fits, password, self._hashes.get(name, self._decoy))
        if not fits or name not in self._hashes:
            return False
        self._seen_right[name] = digest
        return True


def _fits(password: bytes, hashed: bytes) -> bool:
    # What is longer was cut off when the hash was made, and this library refuses it instead.
    return bcrypt.checkpw(password[:_BCRYPT_LOOKS_AT_BYTES], hashed)


def only_for(users: Users) -> Middleware:
    """Make the guard that answers everybody else with 401."""

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        given = parse_basic(request.headers.get(hdrs.AUTHORIZATION, ""))
        if given is not None and await users.admit(*given):
            return await handler(request)
        return web.Response(status=401, text="Unauthorized\n", headers={hdrs.WWW_AUTHENTICATE: _CHALLENGE})

    return guard
