"""Data sets as traces that replay reads."""

from collections.abc import Sequence
from pathlib import Path

from replay.readers.samples import Period
from replay.sources import FORMATS, HOSTS_FORMAT, STARTUP_FORMAT, Locate, TraceFile
from wattpack.datasets.catalogue import Found, require
from wire.errors import UserError


def trace_file(found: Found) -> TraceFile:
    """The path and format of an installed set."""
    if found.dataset.format not in {*FORMATS, HOSTS_FORMAT, STARTUP_FORMAT}:
        raise UserError(
            f"{found.dataset.name} is not a trace: 'wattpack data' lists the commands that read it"
        )
    seconds = found.dataset.period_seconds if found.is_published else None
    return TraceFile(found.path, found.dataset.format, None if seconds is None else Period(*seconds))


def locate_in(folders: Sequence[Path]) -> Locate:
    """Finds sets in these folders, the first one first."""
    return lambda name: trace_file(require(name, folders))
