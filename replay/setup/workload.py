"""What runs: containers with their arrivals, lifetimes and promises, and what each uses over time.

Every reader and generator makes one of these; the simulation knows nothing else of a trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from collector.policies.interface import Constraint
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import Codes
from wire.resources import RESOURCES


class Use(Protocol):
    """What containers want to use at any moment."""

    @property
    def resources(self) -> int:
        """How many resources are known, of `RESOURCES` from the first."""

    def at(self, seconds: float, rows: Rows, since: Floats) -> Floats:
        """Four columns for these containers, each of which has run since its own moment."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recording: one value per step of the time that each container was there.

    Use moves in a straight line from one step to the next.
    """

    step_seconds: float
    values: NDArray[np.float32]
    """A row per container and step, container after container; a column per resource.

    Resources that were not recorded may be left off at the end.
    """
    start: Rows
    """Per container: where its rows begin."""
    first_step: Rows
    steps: Rows

    @classmethod
    def of_all(cls, step_seconds: float, values: NDArray[np.float32]) -> "Recorded":
        """A recording of containers that were all there all the time: container, step, resource."""
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
        """Until the last value of all."""
        return float((self.first_step + self.steps).max(initial=1) - 1) * self.step_seconds

    @property
    def first_seconds(self) -> Floats:
        """When each container is first seen."""
        return self.step_seconds * self.first_step.astype(np.float64)

    @property
    def lifetime_seconds(self) -> Floats:
        """For how long each is seen."""
        return self.step_seconds * self.steps.astype(np.float64)

    def at(self, seconds: float, rows: Rows, since: Floats) -> Floats:
        del since  # a recording goes by the clock, not by when its containers came
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
    """Generated use: each container's own level, reached by a ramp, with waves of its own around it."""

    level: Floats
    ramp_seconds: Floats
    wave_ratio: Floats
    """How far the waves go to either side, per resource."""
    wave_seconds: Floats
    phase: Floats

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """Containers in columns, in the order of their ids."""

    ids: tuple[str, ...]
    services: tuple[str, ...]
    """What each is an instance of."""
    requested: Floats
    """What each asks to be promised, in four columns; NaN where it asks for nothing."""
    use: Use
    duration_seconds: float
    """When the recording, or the observation, ends."""
    step_seconds: float
    """How often there is something new to see."""
    arrival_seconds: Floats
    lifetime_seconds: Floats
    """How long each runs when it gets all that it wants; infinite for those that stay."""
    task_class: Codes
    kind: Codes
    jobs_stretch: bool = True
    """Whether a job that gets less CPU than it wants takes longer, or is ended at its time all the same."""
    constraints: tuple[tuple[Constraint, ...], ...] = ()
    """Per container; none at all where this is empty."""
    labels: tuple[Mapping[str, str], ...] = ()
    """Per container, besides class and kind; none at all where this is empty."""

    def __post_init__(self) -> None:
        if any(first >= second for first, second in zip(self.ids, self.ids[1:], strict=False)):
            raise ValueError("containers must be in the order of their ids, each of which is there once")

    @property
    def size(self) -> int:
        """How many containers there are."""
        return len(self.ids)


def always_running(
    ids: Sequence[str],
    requested: Floats,
    use: Recorded,
    constraints: tuple[tuple[Constraint, ...], ...] = (),
) -> Workload:
    """Containers that run from the beginning to the end of a recording, as virtual machines do.

    Each is the only instance of itself.
    """
    count = len(ids)
    return Workload(
        ids=tuple(ids),
        services=tuple(ids),
        requested=requested,
        use=use,
        duration_seconds=use.duration_seconds,
        step_seconds=use.step_seconds,
        arrival_seconds=np.zeros(count),
        lifetime_seconds=np.full(count, inf),
        task_class=np.ones(count, dtype=np.int8),
        kind=np.zeros(count, dtype=np.int8),
        constraints=constraints,
    )
