"""One kind of load, in a process of its own: `python -m powermodels.calibration.burner cpu DUTY`.

Also `memory BYTES`, which walks through so much of it, and `disk FOLDER`, which writes there and forces it
to the disk. It ends when its standard input does, and that ends with whoever started it, however they go;
an alarm ends it in any case. What it writes has no name, so nothing is left behind.
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
    """Compute for a part of each slice, and sleep for the rest."""
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
    """Write to every page of a large piece of memory, over and over."""
    memory = bytearray(int(size))
    pages = len(range(0, len(memory), _PAGE_BYTES))
    value = 0
    while True:
        value = (value + 1) % 256
        memory[::_PAGE_BYTES] = bytes([value]) * pages
        # A page that is in the cache costs nothing: whole stretches are moved as well.
        half = len(memory) // 2
        memory[:half] = memory[half : 2 * half]
        yield


def burn_disk(folder: str) -> Iterator[None]:
    """Write blocks to a file without a name, each forced to the disk."""
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
    """Burn until standard input ends."""
    kind, argument = sys.argv[1:]
    signal.alarm(_LONGEST_SECONDS)
    with suppress(OSError):
        # What runs on this host for a reason goes first.
        os.nice(_NICENESS)
    for _ in KINDS[kind](argument):
        readable, _, _ = select.select([sys.stdin], [], [], 0)
        if readable:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
