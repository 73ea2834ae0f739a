"""Measured start-up times: a CSV with the column `seconds`."""

from pathlib import Path

from replay.readers.queues.rows import not_negative, read_rows
from wire.errors import UserError


def read_startup_seconds(path: Path) -> tuple[float, ...]:
    """Read every measured time."""
    seconds = tuple(read_rows(path, ("seconds",), lambda row: not_negative(row["seconds"])))
    if not seconds:
        raise UserError(f"{path} has no start-up times")
    return seconds
