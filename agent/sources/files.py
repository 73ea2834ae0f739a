"""Reads and parses kernel files.

Paths are strings here: a pass over hundreds of containers opens thousands of files, and creating a `Path` for
each would cost as much as reading it.
"""

import os
import re

from agent.sources.readings import PressureTotals

_CHUNK_BYTES = 16384
_SURELY_WHOLE_BYTES = 2048
"""A read may end at a page boundary: with lines under half a page, only a shorter read is surely whole."""
_LARGEST = 2**63 - 1
_MAX_DIGITS = 19
"""Digits of the largest count that fits in a report; anything larger is an error of a driver."""
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


def parse_count(text: bytes | None) -> int | None:
    """A non-negative number; None for any other text."""
    if text is None:
        return None
    digits = text.strip()
    if not digits.isdigit() or len(digits) > _MAX_DIGITS:
        return None
    count = int(digits)
    return count if count <= _LARGEST else None


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
