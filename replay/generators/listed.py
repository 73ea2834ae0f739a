"""Containers that a scenario lists one by one, for small examples that can be checked by hand."""

import numpy as np

from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import NotNegative, Positive, Table
from replay.setup.workload import Steady, Workload, build_workload, columns, numbered


class Kind(Table, frozen=True, kw_only=True):
    """Reservation and usage of containers of a kind."""

    cpu_cores: NotNegative
    memory_mb: NotNegative


class ListedSettings(Table, frozen=True, kw_only=True):
    """Settings of the generator."""

    kinds: dict[str, Kind]
    order: tuple[str, ...]
    """The kind of each container, in order of arrival."""
    every_seconds: NotNegative = 1.0
    seconds: Positive = 600.0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.order) - set(self.kinds)):
            raise ValueError(f"order contains unknown kinds: {', '.join(unknown)}")


def generate(settings: ListedSettings, seed: int) -> Workload:
    """Generate the containers. Each is a service of its own, and uses all of its reservation."""
    count = len(settings.order)
    kinds = [settings.kinds[name] for name in settings.order]
    cores = np.array([kind.cpu_cores for kind in kinds])
    memory = np.array([kind.memory_mb for kind in kinds]) * MEBIBYTE
    return build_workload(
        numbered(count, settings.order),
        columns(cores, memory, rest=np.nan, count=count),
        Steady.around(columns(cores, memory, count=count), np.random.default_rng(seed)),
        arrival_seconds=settings.every_seconds * np.arange(count, dtype=np.float64),
        duration_seconds=settings.seconds,
        step_seconds=60.0,
    )
