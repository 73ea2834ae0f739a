"""Creates one kind of load in its own process: `python -m powermodels.calibration.burner cpu DUTY`.

Also `memory BYTES`, which writes to that much memory, and `disk FOLDER`, which writes to disk. It ends when
its standard input is closed, which also happens when its parent process ends, and after an hour at the
latest. Its file is unnamed, so nothing is left behind.
"""

import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

_SLICE_SECONDS = 0.1
_PAGE_BYTES = 4096
_BLOCK_BYTES = 4 << 20
_FILE_BYTES = 256 << 20
_NICENESS = 10
_LONGEST_SECONDS = 3600


def burn_cpu(duty: str) -> Iterator[None]:
    """Compute for a share of each time slice, and sleep for the rest."""
    busy_seconds = float(duty) * _SLICE_SECONDS
    number = 1
    while True:
        began = time.perf_counter()
        while time.perf_counter() - began < busy_seconds:
            for _ in range(1000):
                number = (number * 1103515245 + 12345) & 0x7FFFFFFF
        time.sleep(max(0.0, _SLICE_SECONDS - (time.perf_counter() - began)))
        yield


def burn_memory(size: str) -> Iterator[None]:
    """Write to each page of a large block of memory, repeatedly."""
    memory = bytearray(int(size))
    pages = len(range(0, len(memory), _PAGE_BYTES))
    value = 0
    while True:
        value = (value + 1) % 256
        memory[::_PAGE_BYTES] = bytes([value]) * pages
        # A cached page needs no power: whole blocks are moved as well.
        half = len(memory) // 2
        memory[:half] = memory[half : 2 * half]
        yield


def burn_disk(folder: str) -> Iterator[None]:
    """Write blocks to an unnamed file, with fsync."""
    block = os.urandom(_BLOCK_BYTES)
    with tempfile.TemporaryFile(dir=folder) as file:
        while True:
            if file.tell() >= _FILE_BYTES:
                file.seek(0)
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            yield


KINDS: dict[str, Callable[[str], Iterator[None]]] = {
    "cpu": burn_cpu,
    "memory": burn_memory,
    "disk": burn_disk,
}


def main() -> int:
    """Create load until standard input is closed."""
    kind, argument = sys.argv[1:]
    signal.alarm(_LONGEST_SECONDS)
    with suppress(OSError):
        # The host's own work has priority.
        os.nice(_NICENESS)
    for _ in KINDS[kind](argument):
        readable, _, _ = select.select([sys.stdin], [], [], 0)
        if readable:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
