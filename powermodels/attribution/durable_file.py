"""A small file that survives a crash of the process at any time.

Two files with checksums are written alternately: a crash while one is written leaves the other. They are
written in place without fsync, so that a save after each sample is cheap. A crash of the process loses
nothing; a crash of the machine may lose the last half minute. With `sync`, a write calls fsync, for a
planned stop.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

_MODE = 0o600
_HEAD = b"wattpack ledger %08x %016x\n"
_HEAD_BYTES = len(_HEAD % (0, 0))


@dataclass(frozen=True, slots=True)
class _Page:
    number: int
    body: bytes


class DurableFile:
    """The pair of files at `path` and `path~`."""

    def __init__(self, path: Path) -> None:
        self._files = (path, path.with_name(f"{path.name}~"))
        self._number = max((page.number for page in self._pages()), default=0)

    def read(self) -> bytes | None:
        """The last content; None if there is no valid one."""
        newest = max(self._pages(), key=lambda page: page.number, default=None)
        return None if newest is None else newest.body

    def write(self, body: bytes, *, sync: bool = False) -> None:
        """Replace the content; raises OSError."""
        self._number += 1
        page = _HEAD % (_checksum(self._number, body), self._number) + body
        path = self._files[self._number % 2]
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(page)
            file.truncate()
            if sync:
                file.flush()
                os.fsync(descriptor)

    def _pages(self) -> Iterator[_Page]:
        for path in self._files:
            try:
                page = parse_page(path.read_bytes())
            except OSError:
                continue
            if page is not None:
                yield page


def parse_page(data: bytes) -> _Page | None:
    """Parse one of the two files; None if it is not valid."""
    head, body = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
    try:
        number = int(head.split()[-1], 16)
    except (IndexError, ValueError):
        return None
    return _Page(number, body) if head == _HEAD % (_checksum(number, body), number) else None


def _checksum(number: int, body: bytes) -> int:
    return crc32(body, crc32(b"%d" % number))
