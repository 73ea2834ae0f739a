"""Reads and parses kernel files.

Paths are strings here: a pass over hundreds of containers opens thousands of files, and creating a `Path` for
each would cost as much as reading it.
"""

import os
import re
import resource
from contextlib import suppress
from dataclasses import dataclass

from agent.sources.readings import PressureTotals
from wire.text import parse_count

_CHUNK_BYTES = 16384
_SURELY_WHOLE_BYTES = 2048
"""A read may end at a page boundary: with lines under half a page, only a shorter read is surely whole."""
_MICROSECONDS = 1_000_000
_SOME_TOTAL = re.compile(rb"^some .*\btotal=([0-9]{1,20})$", re.MULTILINE)


def read_file(path: str) -> bytes | None:
    """The content of a file; None if it is missing or not readable.

    Not for files with lines of thousands of characters, such as the mount table.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return read_descriptor(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int) -> bytes:
    """The content of a file that was just opened; raises `OSError`."""
    data = os.read(descriptor, _CHUNK_BYTES)
    if len(data) >= _SURELY_WHOLE_BYTES:
        while more := os.read(descriptor, _CHUNK_BYTES):
            data += more
    return data


def parse_field(text: bytes | None, key: bytes) -> int | None:
    """The number of `key` in a file of `key value` lines."""
    if text is None:
        return None
    if text.startswith(key + b" "):
        start = 0
    else:
        start = text.find(b"\n" + key + b" ") + 1
        if start == 0:
            return None
    end = text.find(b"\n", start)
    return parse_count(text[start + len(key) : end if end >= 0 else len(text)])


def parse_pressure(*files: bytes | None) -> PressureTotals:
    """The "some" totals of CPU, memory and disk: `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`."""
    return PressureTotals(*map(_parse_some_seconds, files))


def _parse_some_seconds(text: bytes | None) -> float | None:
    match = None if text is None else _SOME_TOTAL.search(text)
    return int(match[1]) / _MICROSECONDS if match else None


# --- Files that stay open between samples -------------------------------------------------------

_MAX_OPEN = 6144
"""About 36 MB: enough for 500 containers with a dozen files each."""


@dataclass(slots=True)
class OpenFileBudget:
    """Number of files that may still be kept open.

    Opening a cgroup file costs the kernel six times as much as reading it. An open file takes about 6 KB of
    kernel memory, so their number is bounded; the others are opened each time.
    """

    left: int


def default_budget() -> OpenFileBudget:
    """Half of the file limit of this process, since sockets and other files need some too.

    Raises the limit first: the usual 1024 exists for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MAX_OPEN if hard == resource.RLIM_INFINITY else min(2 * _MAX_OPEN, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return OpenFileBudget(_MAX_OPEN if soft == resource.RLIM_INFINITY else min(_MAX_OPEN, soft // 2))


class OpenFile:
    """One file, at the first of its paths that exists; closed when it is no longer referenced.

    Only for files that the kernel writes in one piece, such as the counters of a cgroup. Not for
    /proc/<pid>/net: an open file there would keep the network namespace of an ended container alive.
    """

    __slots__ = ("_budget", "_descriptor", "_paths")

    def __init__(self, budget: OpenFileBudget, *paths: str) -> None:
        self._budget = budget
        self._paths = paths
        self._descriptor = -1

    def read(self) -> bytes | None:
        """The current content; None if the file is missing or not readable."""
        if self._descriptor >= 0:
            try:
                text = os.pread(self._descriptor, _CHUNK_BYTES, 0)
                while len(text) >= _CHUNK_BYTES and (
                    more := os.pread(self._descriptor, _CHUNK_BYTES, len(text))
                ):
                    text += more
            except OSError:
                # The cgroup was removed. A new one of the same name has a new file.
                self._close()
            else:
                return text
        for path in self._paths:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            return self._first(descriptor)
        return None

    def _first(self, descriptor: int) -> bytes | None:
        try:
            text = read_descriptor(descriptor)
        except OSError:
            os.close(descriptor)
            return None
        if self._budget.left > 0:
            self._budget.left -= 1
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return text

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._budget.left += 1

    def __del__(self) -> None:
        self._close()
