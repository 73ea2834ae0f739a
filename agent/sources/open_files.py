"""Kernel files that stay open between samples.

Opening a cgroup file costs the kernel six times as much as reading it. An open file takes about 6 KB of
kernel memory, so their number is bounded; the others are opened each time.
"""

import os
import resource
from contextlib import suppress

_CHUNK_BYTES = 16384
_MAX_OPEN = 6144
"""About 36 MB: enough for 500 containers with a dozen files each."""


class OpenFileBudget:
    """Number of files that may still be kept open."""

    def __init__(self, files: int) -> None:
        self.left = files


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
                return text if len(text) < _CHUNK_BYTES else _read_all(self._descriptor)
            except OSError:
                # The cgroup was removed. A new one of the same name has a new file.
                self._close()
        for path in self._paths:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            return self._first(descriptor)
        return None

    def _first(self, descriptor: int) -> bytes | None:
        try:
            text = _read_all(descriptor)
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


def _read_all(descriptor: int) -> bytes:
    text = b""
    while more := os.pread(descriptor, _CHUNK_BYTES, len(text)):
        text += more
    return text
