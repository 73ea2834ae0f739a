"""The token file: one JSON line per token, private to its owner, replaced atomically, reloaded on change."""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from collector.web.tokens import Token, Tokens
from wire.errors import UserError, os_reason

log = logging.getLogger(__name__)

_PRIVATE = 0o600
_CHECK_SECONDS = 1.0
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
            tokens = read_tokens(path) or []
            yield tokens
            _replace(path, b"".join(_encoder.encode(token) + b"\n" for token in tokens))
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


def _replace(path: Path, text: bytes) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE)
    try:
        if os.geteuid() == 0:
            # The service runs as the owner of the folder, and must be able to read the file.
            folder = path.parent.stat()
            os.fchown(handle, folder.st_uid, folder.st_gid)
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(text)
        os.fsync(handle)
    finally:
        os.close(handle)
    new.replace(path)


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
