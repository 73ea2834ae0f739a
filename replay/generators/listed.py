"""Containers that a scenario lists one by one, for small examples that can be checked by hand."""

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from replay.generators.common import columns, numbered, steady, workload
from replay.setup.hosts import MEBIBYTE
from replay.setup.workload import Workload


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Reservation and usage of containers of a kind."""

    cpu_cores: Annotated[float, Meta(ge=0)]
    memory_mb: Annotated[float, Meta(ge=0)]


class ListedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the generator."""

    kinds: dict[str, Kind]
    order: tuple[str, ...]
    """The kind of each container, in order of arrival."""
    every_seconds: Annotated[float, Meta(ge=0)] = 1.0
    seconds: Annotated[float, Meta(gt=0)] = 600.0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.order) - set(self.kinds)):
            raise ValueError(f"order contains unknown kinds: {', '.join(unknown)}")


def generate(settings: ListedSettings, seed: int) -> Workload:
    """Generate the containers. Each is a service of its own, and uses all of its reservation."""
    count = len(settings.order)
    kinds = [settings.kinds[name] for name in settings.order]
    cores = np.array([kind.cpu_cores for kind in kinds])
    memory = np.array([kind.memory_mb for kind in kinds]) * MEBIBYTE
    return workload(
        numbered(count, settings.order),
        columns(cores, memory, np.nan, np.nan, count=count),
        steady(columns(cores, memory, count=count), np.random.default_rng(seed)),
        arrival_seconds=settings.every_seconds * np.arange(count, dtype=np.float64),
        duration_seconds=settings.seconds,
        step_seconds=60.0,
    )
