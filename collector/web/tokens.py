"""Tokens: secrets that the collector can recognise but does not know.

A token is 256 random bits, so its SHA-256 is stored and nothing slower: the slow hashes of passwords make up
for what people choose, and guessing one of 2**256 is out of reach at any speed. A fast one, though, can be
computed for each request of a thousand nodes.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.web.scopes import Caller, Scope
from wire.messages import Name

_SECRET_BYTES = 32
_ID_BYTES = 4

KINDS = (Scope.NODE, Scope.READ, Scope.ADMIN)
"""What a token can be for."""


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One token as it is stored."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]
    """Names the token where people speak of it; tells nothing about the secret."""
    kind: Scope
    name: Name
    """The node that it is bound to; of the other kinds a label, for people."""
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    created_at: float
    expires_at: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there are no tokens for {self.kind}")

    def is_valid(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


def make_token(kind: Scope, name: str, now: float, expires_at: float | None = None) -> tuple[Token, str]:
    """Make a token; gives what to store, and the secret, which is told once and kept nowhere."""
    # The words in front let people, and scanners of repositories, see what they have found.
    secret = f"wattpack-{kind}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    token = Token(
        id=secrets.token_hex(_ID_BYTES),
        kind=kind,
        name=name,
        sha256=hashlib.sha256(secret.encode()).hexdigest(),
        created_at=now,
        expires_at=expires_at,
    )
    return token, secret


class Tokens:
    """All tokens that there are, found by their secrets in a time that tells nothing.

    They are looked up by a hash under a key of this process. So the time of a look-up depends on nothing
    that a stranger could know or choose, and it is the same for one token as for ten thousand.
    """

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._key = secrets.token_bytes(_SECRET_BYTES)
        self._by_mark = {self._mark(bytes.fromhex(token.sha256)): token for token in tokens}

    def __len__(self) -> int:
        return len(self._by_mark)

    def caller(self, secret: bytes, now: float) -> Caller | None:
        """Who shows this secret; None if it is nobody's, or no longer valid."""
        digest = hashlib.sha256(secret).digest()
        token = self._by_mark.get(self._mark(digest))
        if token is None or not hmac.compare_digest(bytes.fromhex(token.sha256), digest):
            return None
        if not token.is_valid(now):
            return None
        return Caller(token.kind, frozenset({token.name}) if token.kind is Scope.NODE else None)

    def _mark(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._key).digest()
