"""Published idle and full-load power of whole servers, which the prior is based on.

Every row of `published_machines.csv` is one SPECpower_ssj2008 result (spec.org/power_ssj2008/results): wall
power of the machine at active idle and at 100 % load, under the name of its CPU's generation. `prior`
explains how they are used, and `bench.power.published_curves` the origin of those with whole curves.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware and wall power of a published machine."""

    source: str
    """Vendor and model, CPU, and date of publication."""
    sockets: int
    cores: int
    idle_watts: float
    max_watts: float
    threads_per_core: int = 2
    memory_gb: int | None = None

    @property
    def threads(self) -> int:
        return self.cores * self.threads_per_core

    @property
    def cores_per_socket(self) -> float:
        return self.cores / self.sockets

    @property
    def dynamic_watts(self) -> float:
        return self.max_watts - self.idle_watts


def _read() -> dict[str, tuple[Machine, ...]]:
    """The machines of each generation; an empty field has its default."""
    found: dict[str, tuple[Machine, ...]] = {}
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            generation = row.pop("generation")
            given = {name: text for name, text in row.items() if text}
            machine = msgspec.convert(given, Machine, strict=False)
            found[generation] = (*found.get(generation, ()), machine)
    return found


MACHINES: Mapping[str, tuple[Machine, ...]] = _read()
