"""The file of tokens: a line of JSON each, for its owner alone, replaced as a whole, followed while used."""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from collector.web.tokens import Token, Tokens
from wire.errors import UserError

log = logging.getLogger(__name__)

_FOR_ITS_OWNER = 0o600
_LOOK_SECONDS = 1.0
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Token)


def parse_tokens(text: bytes, name: str) -> list[Token]:
    """The tokens in a file's content; raises `UserError` naming the line that is wrong."""
    tokens = []
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            token = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{name}, line {number} is no token: {error}; remove the line") from None
        if token.id in seen:
            raise UserError(f"{name}, line {number}: the token {token.id} stands twice; remove one line")
        seen.add(token.id)
        tokens.append(token)
    return tokens


def read_tokens(path: Path) -> list[Token] | None:
    """The tokens of a file; None where there is no such file."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(f"cannot read the tokens in {path} ({why}): check access.tokens") from error
    if mode & 0o022:
        raise UserError(
            f"others can write to {path}, and so let themselves in: chmod {_FOR_ITS_OWNER:o} {path}"
        )
    return parse_tokens(text, str(path))


@contextlib.contextmanager
def changing(path: Path) -> Iterator[list[Token]]:
    """Change the file: what is done to the list within the block is written when it ends well.

    One at a time; who reads sees the file as it was or as it is, never a half of it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            tokens = read_tokens(path) or []
            yield tokens
            _replace(path, b"".join(_encoder.encode(token) + b"\n" for token in tokens))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot change {path} ({why}): run it as root, or choose the file with --file"
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
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _FOR_ITS_OWNER)
    try:
        if os.geteuid() == 0:
            # The service is not root, and owns its folder: it must be able to read what root puts there.
            folder = path.parent.stat()
            os.fchown(handle, folder.st_uid, folder.st_gid)
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(text)
        os.fsync(handle)
    finally:
        os.close(handle)
    new.replace(path)


class TokenFile:
    """The tokens of a file, as they are now: a new or a revoked one counts within a second."""

    def __init__(self, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._stamp = self._stamped()
        found = read_tokens(path)
        self.is_there = found is not None
        self._tokens = Tokens(found or ())
        self._looked = monotonic()

    @property
    def tokens(self) -> Tokens:
        """What is in the file; if that cannot be read, what was in it before."""
        if (now := self._monotonic()) - self._looked >= _LOOK_SECONDS:
            self._looked = now
            if (stamp := self._stamped()) != self._stamp:
                self._stamp = stamp
                self._read_again()
        return self._tokens

    def _read_again(self) -> None:
        try:
            # A file that is gone leaves no token valid. It never opens the door: only a start can.
            found: Sequence[Token] = read_tokens(self._path) or ()
        except UserError as complaint:
            log.warning("going on with the tokens before: %s", complaint)
            return
        self._tokens = Tokens(found)
        log.info("%s was changed: %d tokens are in use", self._path, len(self._tokens))

    def _stamped(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
