"""Kernel files that are read in every pass, kept open in between.

Finding and opening a cgroup's file costs the kernel six times as much as filling it in. A kept file holds
some 6 KB of kernel memory, so there is a bound on how many are kept; the others are opened each time.
"""

import os
import resource
from contextlib import suppress

_CHUNK_BYTES = 16384
_MAX_OPEN = 6144
"""Some 36 MB: enough for 500 containers, with a dozen files each at most."""


class OpenFileBudget:
    """How many more files may be kept open."""

    def __init__(self, files: int) -> None:
        self.left = files


def default_budget() -> OpenFileBudget:
    """Half of what the system lets this process open, since sockets and the rest need some as well.

    It is asked for more first: the usual limit of 1024 is there for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * _MAX_OPEN if hard == resource.RLIM_INFINITY else min(2 * _MAX_OPEN, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return OpenFileBudget(_MAX_OPEN if soft == resource.RLIM_INFINITY else min(_MAX_OPEN, soft // 2))


class OpenFile:
    """One file, by the first of its paths that there is; closed when nobody refers to it any more.

    Only for files that are written in one piece, as all those of a cgroup are that hold figures. Not for
    /proc/<pid>/net: an open file there would keep a network alive whose container has gone.
    """

    __slots__ = ("_allowance", "_descriptor", "_paths")

    def __init__(self, allowance: OpenFileBudget, *paths: str) -> None:
        self._allowance = allowance
        self._paths = paths
        self._descriptor = -1

    def read(self) -> bytes | None:
        """The content as of now; None where the file is missing, forbidden, or its owner has gone."""
        if self._descriptor >= 0:
            try:
                text = os.pread(self._descriptor, _CHUNK_BYTES, 0)
                return text if len(text) < _CHUNK_BYTES else _read_all(self._descriptor)
            except OSError:
                # The cgroup was removed. One that was made anew under the same name has a new file.
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
        if self._allowance.left > 0:
            self._allowance.left -= 1
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return text

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._allowance.left += 1

    def __del__(self) -> None:
        self._close()


def _read_all(descriptor: int) -> bytes:
    text = b""
    while more := os.pread(descriptor, _CHUNK_BYTES, len(text)):
        text += more
    return text
