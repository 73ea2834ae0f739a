"""Tokens, and the file that they are stored in: only their hashes, one JSON line per token, the newest last.

A token has 256 random bits, which nobody can guess, so SHA-256 is enough: slow hashes protect weak passwords.
A fast hash can be computed for each request of a thousand nodes. The file is private to its owner, replaced
atomically, and reloaded on change.
"""

import contextlib
import fcntl
import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.serve.web.scopes import Caller, Scope
from wire.errors import UserError, os_reason
from wire.files import replace_private
from wire.http.authorization import new_secret, secret_hash
from wire.messages import Name

log = logging.getLogger(__name__)

_PRIVATE = 0o600
_CHECK_SECONDS = 1.0
_SECRET_BYTES = 32
_ID_BYTES = 6

SecretHash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
"""SHA-256 of a secret."""
KINDS = (Scope.NODE, Scope.READ, Scope.PLACE, Scope.JOIN, Scope.ADMIN)
"""Scopes that a token can have."""


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A stored token."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{12}$")]
    """Public id of the token; unrelated to the secret."""
    kind: Scope
    name: Name
    """The node that it is valid for; for a join token, a pattern of node names; for other kinds, a label."""
    sha256: SecretHash | None = None
    """Hash of its secret; None keeps the name of a node that reported without a token."""
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    """A revoked token of a node stays, so that neither its name nor its machine can join again."""
    machine: Name | None = None
    """Hash of the machine id of a node that has joined. The token is not valid for another machine."""
    joined_with: str | None = None
    """Id of the join token of a node that has joined."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a token cannot be of kind {self.kind}")

    def is_valid(self, now: float) -> bool:
        return self.is_in_use and (self.expires_at is None or now < self.expires_at)

    @property
    def is_in_use(self) -> bool:
        """Whether it has a secret, and was not revoked."""
        return self.sha256 is not None and self.revoked_at is None


def make_token(kind: Scope, name: str, now: float, expires_at: float | None = None) -> tuple[Token, str]:
    """Create a token; returns the token to store, and the secret, which is stored nowhere."""
    secret = new_secret(kind)
    token = Token(
        id=new_id(),
        kind=kind,
        name=name,
        sha256=secret_hash(secret.encode()),
        created_at=now,
        expires_at=expires_at,
    )
    return token, secret


def new_id() -> str:
    """A public id for a token."""
    return secrets.token_hex(_ID_BYTES)


class Tokens:
    """All tokens, with a look-up by secret that leaks nothing through its timing.

    The look-up uses a keyed hash with a key of this process, so its time depends on nothing that an attacker
    knows or chooses, nor on the number of tokens.
    """

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        tokens = tuple(tokens)
        of_nodes = [token for token in tokens if token.kind is Scope.NODE]
        self.revoked_nodes = frozenset(each.name for each in of_nodes if each.revoked_at is not None) - {
            each.name for each in of_nodes if each.is_in_use
        }
        """Nodes of which a token was revoked, and that have no other: what they reported does not count."""
        self._key = secrets.token_bytes(_SECRET_BYTES)
        self._by_keyed_hash = {
            self._keyed_hash(token.sha256): token for token in tokens if token.sha256 and token.is_in_use
        }

    def __len__(self) -> int:
        return len(self._by_keyed_hash)

    def caller(self, secret: bytes, now: float) -> Caller | None:
        """The caller with this secret; None if it is unknown or expired."""
        digest = secret_hash(secret)
        token = self._by_keyed_hash.get(self._keyed_hash(digest))
        if token is None or not hmac.compare_digest(token.sha256 or "", digest) or not token.is_valid(now):
            return None
        nodes = frozenset({token.name}) if token.kind is Scope.NODE else None
        joins = token.name if token.kind is Scope.JOIN else None
        return Caller(token.kind, nodes, token.id, token.machine, joins)

    def _keyed_hash(self, digest: str) -> bytes:
        return hashlib.blake2b(digest.encode(), key=self._key).digest()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Token)


def parse_tokens(text: bytes, name: str) -> list[Token]:
    """Parse the content of a token file; raises `UserError` that names an invalid line."""
    tokens = []
    ids: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            token = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{name}, line {number} is not a token: {error}; remove the line") from None
        if token.id in ids:
            raise UserError(f"{name}, line {number}: duplicate token {token.id}; remove one line")
        ids.add(token.id)
        tokens.append(token)
    return tokens


def read_tokens(path: Path) -> list[Token] | None:
    """Read a token file; None if it does not exist."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(
            f"cannot read the tokens in {path} ({os_reason(error)}): check the setting access.tokens"
        ) from error
    if mode & 0o022:
        raise UserError(f"other users can write to {path} and add tokens: run chmod {_PRIVATE:o} {path}")
    return parse_tokens(text, str(path))


@contextlib.contextmanager
def edit_tokens(path: Path) -> Iterator[list[Token]]:
    """Edit the list of tokens within the block; it is written when the block ends without an error.

    Locked against concurrent edits; readers see the old file or the new one, never a part.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            before = read_tokens(path)
            tokens = list(before or ())
            yield tokens
            if tokens != before:
                replace_private(path, b"".join(_encoder.encode(token) + b"\n" for token in tokens))
    except OSError as error:
        raise UserError(
            f"cannot write {path} ({os_reason(error)}): run this as root, or choose another file with --file"
        ) from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open_reserve() -> int | None:
    """Open a spare file descriptor; None if none is left."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class TokenFile:
    """The current tokens of a file; changes take effect within a second."""

    def __init__(self, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._reserve = _open_reserve()
        self._problem = ""
        self._stamp = self._read_stamp()
        found = read_tokens(path)
        self.exists = found is not None
        self._tokens = Tokens(found or ())
        self._checked_at = monotonic()

    @property
    def tokens(self) -> Tokens:
        """The tokens in the file; the previous ones if it is unreadable."""
        if (now := self._monotonic()) - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            if (stamp := self._read_stamp()) != self._stamp and self._reload():
                self._stamp = stamp
        return self._tokens

    def _reload(self) -> bool:
        """Read the file; returns False if that failed, to try again in a second."""
        if self._reserve is not None:
            # The spare descriptor: revoked tokens become invalid even if all others are in use.
            os.close(self._reserve)
        try:
            # If the file is deleted, no token is valid; only a restart turns authentication off.
            found: Sequence[Token] = read_tokens(self._path) or ()
        except UserError as error:
            if str(error) != self._problem:
                log.warning("keeping the previous tokens until the file can be read: %s", error)
            self._problem = str(error)
            return False
        finally:
            self._reserve = _open_reserve()
        self._problem = ""
        self._tokens = Tokens(found)
        log.info("reloaded %s, tokens in use: %d", self._path, len(self._tokens))
        return True

    def _read_stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def revoked_nodes(file: TokenFile | None) -> frozenset[str]:
    """The nodes of which every token was revoked; none without a token file."""
    return frozenset() if file is None else file.tokens.revoked_nodes
