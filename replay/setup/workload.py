"""A workload: containers with arrivals, lifetimes and reservations, and their usage over time.

Every reader and generator returns a workload, which is the only input of the simulation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.snapshot.constraints import Constraint
from wire.resources import RESOURCES


class Use(Protocol):
    """The demand of containers at any time."""

    @property
    def resources(self) -> int:
        """The number of known resources, the first of `RESOURCES`."""

    def at(self, seconds: float, rows: Rows, since: Floats) -> Floats:
        """The demand of these containers, in four columns; `since` is the start of each."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recording: one value per step of each container's lifetime.

    Usage is linear between two steps.
    """

    step_seconds: float
    values: NDArray[np.float32]
    """A row per container and step, container after container; a column per resource.

    Trailing resources that were not recorded may be missing.
    """
    start: Rows
    """Per container: the index of its first row."""
    first_step: Rows
    steps: Rows

    @classmethod
    def of_all(cls, step_seconds: float, values: NDArray[np.float32]) -> "Recorded":
        """Create a recording of containers that always run, from an array by container, step and resource."""
        count, steps, _ = values.shape
        return cls(
            step_seconds,
            values.reshape(count * steps, -1),
            np.arange(count) * steps,
            np.zeros(count, dtype=np.intp),
            np.full(count, steps),
        )

    @property
    def resources(self) -> int:
        return int(self.values.shape[1])

    @property
    def duration_seconds(self) -> float:
        """The time of the last value."""
        return float((self.first_step + self.steps).max(initial=1) - 1) * self.step_seconds

    @property
    def first_seconds(self) -> Floats:
        """The time of each container's first value."""
        return self.step_seconds * self.first_step.astype(np.float64)

    @property
    def lifetime_seconds(self) -> Floats:
        """The time that the values of each container cover."""
        return self.step_seconds * self.steps.astype(np.float64)

    def at(self, seconds: float, rows: Rows, since: Floats) -> Floats:
        del since  # a recording depends on the clock, not on when its containers started
        place = seconds / self.step_seconds
        step = int(place)
        begin, last = self.start[rows], self.steps[rows] - 1
        now = step - self.first_step[rows]
        found = np.zeros((rows.size, len(RESOURCES)))
        known = found[:, : self.values.shape[1]]
        known[:] = self.values[begin + np.clip(now, 0, last)]
        part = place - step
        if part > 0:
            known += part * (self.values[begin + np.clip(now + 1, 0, last)] - known)
        return found


@dataclass(frozen=True, eq=False)
class Steady:
    """Generated usage: a level per container, reached by a ramp, with waves around it."""

    level: Floats
    ramp_seconds: Floats
    wave_ratio: Floats
    """The amplitude of the waves, relative to the level, per resource."""
    wave_seconds: Floats
    phase: Floats

    @classmethod
    def around(
        cls, level: Floats, rng: np.random.Generator, wave_ratio: float = 0.0, ramp_seconds: float = 0.0
    ) -> "Steady":
        """Usage around a level, with waves whose length and phase differ between containers."""
        count = len(level)
        return cls(
            level=level,
            ramp_seconds=np.full(count, ramp_seconds),
            # Memory varies less than the others.
            wave_ratio=columns(wave_ratio, wave_ratio / 2, rest=wave_ratio, count=count),
            wave_seconds=rng.uniform(120.0, 3600.0, count),
            phase=rng.uniform(0.0, 1.0, count),
        )

    @property
    def resources(self) -> int:
        return len(RESOURCES)

    def at(self, seconds: float, rows: Rows, since: Floats) -> Floats:
        ramp = self.ramp_seconds[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.where(ramp > 0, np.clip((seconds - since) / ramp, 0.0, 1.0), 1.0)
        swing = np.sin(2 * np.pi * (seconds / self.wave_seconds[rows] + self.phase[rows]))
        found: Floats = self.level[rows] * grown[:, None] * (1 + self.wave_ratio[rows] * swing[:, None])
        return found


@dataclass(frozen=True, eq=False)
class Reserved:
    """Unknown usage: containers use the CPU and memory that they reserve."""

    requested: Floats

    @property
    def resources(self) -> int:
        return 2

    def at(self, seconds: float, rows: Rows, since: Floats) -> Floats:
        del seconds, since
        return np.nan_to_num(self.requested[rows], nan=0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class PromisedContainers:
    """Promises of availability to the containers of a workload, one row each."""

    promises: tuple[Promise, ...]
    """The classes, the most important first."""
    promise: Codes
    """The class of each container, as a place in `promises`."""
    spread: Flags
    """Whether a host runs at most one container of its service."""
    mode: ServiceMode = ServiceMode.INDEPENDENT
    """The mode of all services."""
    by_service: bool = False
    """Whether results count services, or containers."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """Containers in columns, in the order of their ids."""

    ids: tuple[str, ...]
    services: tuple[str, ...]
    """The service of each."""
    requested: Floats
    """The reservation of each, in four columns; NaN means none."""
    use: Use
    duration_seconds: float
    """The end of the recording."""
    step_seconds: float
    """The time between two values."""
    arrival_seconds: Floats
    lifetime_seconds: Floats
    """The runtime of each with all the CPU that it demands; infinite for containers that stay."""
    task_class: Codes
    kind: Codes
    jobs_stretch: bool = True
    """Whether a job that gets less CPU than it demands takes longer; otherwise it ends on time."""
    constraints: tuple[tuple[Constraint, ...], ...] = ()
    """Constraints of each container; empty if no container has any."""
    labels: tuple[Mapping[str, str], ...] = ()
    """Labels of each container, besides class and kind; empty if no container has any."""
    promised: PromisedContainers | None = None
    """Promises of availability. With them, containers wait in a queue until a policy starts them."""

    def __post_init__(self) -> None:
        if any(first >= second for first, second in zip(self.ids, self.ids[1:], strict=False)):
            raise ValueError("containers must be sorted by id, each once")

    @property
    def size(self) -> int:
        return len(self.ids)


def build_workload(
    ids: Sequence[str],
    requested: Floats,
    use: Use,
    *,
    duration_seconds: float,
    step_seconds: float,
    **others: Any,  # noqa: ANN401 - fields of a workload
) -> Workload:
    """A workload with defaults for all other columns.

    By default, containers run from the beginning to the end, each as the only instance of its service.
    """
    count = len(ids)
    defaults = {
        "services": tuple(ids),
        "arrival_seconds": np.zeros(count),
        "lifetime_seconds": np.full(count, inf),
        "task_class": np.ones(count, dtype=np.int8),
        "kind": np.zeros(count, dtype=np.int8),
    }
    return Workload(
        ids=tuple(ids),
        requested=requested,
        use=use,
        duration_seconds=duration_seconds,
        step_seconds=step_seconds,
        **(defaults | others),
    )


def always_running(
    ids: Sequence[str],
    requested: Floats,
    use: Recorded,
    constraints: tuple[tuple[Constraint, ...], ...] = (),
) -> Workload:
    """Containers that run from the beginning to the end of a recording, as virtual machines do."""
    return build_workload(
        ids,
        requested,
        use,
        duration_seconds=use.duration_seconds,
        step_seconds=use.step_seconds,
        constraints=constraints,
    )


def columns(*resources: Floats | float, count: int, rest: float = 0.0) -> Floats:
    """Four columns. Resources that are not given have the value `rest`: NaN means no reservation."""
    found = np.full((count, len(RESOURCES)), rest)
    for place, resource in enumerate(resources):
        found[:, place] = resource
    return found


def numbered(count: int, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Ids that sort as their numbers."""
    width = len(str(count))
    return tuple(
        f"{number:0{width}}" if names is None else f"{number:0{width}}-{names[number]}"
        for number in range(count)
    )
