"""Tokens. The collector stores only their hashes.

A token has 256 random bits, which nobody can guess, so SHA-256 is enough: slow hashes protect weak passwords.
A fast hash can be computed for each request of a thousand nodes.
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

KINDS = (Scope.NODE, Scope.READ, Scope.PLACE, Scope.JOIN, Scope.ADMIN)
"""Scopes that a token can have."""


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A stored token."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{8}$")]
    """Public id of the token; unrelated to the secret."""
    kind: Scope
    name: Name
    """The node that it is valid for; for a join token, a pattern of node names; for other kinds, a label."""
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    created_at: float
    expires_at: float | None = None
    machine: Name | None = None
    """Hash of the machine id of a node that has joined. The token is not valid for another machine."""
    joined_with: str | None = None
    """Id of the join token of a node that has joined."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a token cannot be of kind {self.kind}")

    def is_valid(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


def make_token(kind: Scope, name: str, now: float, expires_at: float | None = None) -> tuple[Token, str]:
    """Create a token; returns the token to store, and the secret, which is stored nowhere."""
    # The prefix lets people and secret scanners recognise it.
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
    """All tokens, with a look-up by secret that leaks nothing through its timing.

    The look-up uses a keyed hash with a key of this process, so its time depends on nothing that an attacker
    knows or chooses, nor on the number of tokens.
    """

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._key = secrets.token_bytes(_SECRET_BYTES)
        self._by_keyed_hash = {self._keyed_hash(bytes.fromhex(token.sha256)): token for token in tokens}

    def __len__(self) -> int:
        return len(self._by_keyed_hash)

    def caller(self, secret: bytes, now: float) -> Caller | None:
        """The caller with this secret; None if it is unknown or expired."""
        digest = hashlib.sha256(secret).digest()
        token = self._by_keyed_hash.get(self._keyed_hash(digest))
        if token is None or not hmac.compare_digest(bytes.fromhex(token.sha256), digest):
            return None
        if not token.is_valid(now):
            return None
        nodes = frozenset({token.name}) if token.kind is Scope.NODE else None
        joins = token.name if token.kind is Scope.JOIN else None
        return Caller(token.kind, nodes, token.id, token.machine, joins)

    def _keyed_hash(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._key).digest()
