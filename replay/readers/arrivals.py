"""Arrival rates as a CSV: `seconds,requests_per_second`; a rate holds until the next one."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from replay.generators.arrivals import STEP_SECONDS, Arrivals
from replay.readers.queues.rows import not_negative, read_rows
from wire.errors import UserError

_COLUMNS = ("seconds", "requests_per_second")
_FEWEST = 2


def read_arrivals(path: Path) -> Arrivals:
    """Read the rates of the file. They end with its last row, whose rate does not count."""

    def parse(row: Mapping[str, str]) -> tuple[float, float]:
        return not_negative(row["seconds"]), not_negative(row["requests_per_second"])

    rows = np.array(list(read_rows(path, _COLUMNS, parse))).reshape(-1, len(_COLUMNS))
    if len(rows) < _FEWEST or np.any(np.diff(rows[:, 0]) <= 0):
        raise UserError(f"{path} needs at least two rows, with ascending seconds")
    at = rows[0, 0] + STEP_SECONDS * np.arange(int((rows[-1, 0] - rows[0, 0]) / STEP_SECONDS))
    if not at.size:
        raise UserError(f"{path} covers less than {STEP_SECONDS:g} seconds")
    return Arrivals(STEP_SECONDS, rows[np.searchsorted(rows[:, 0], at, side="right") - 1, 1])
