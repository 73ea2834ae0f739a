"""Samples in any order as a recording: sorted, averaged per step, gaps filled with the last value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats
from replay.setup.workload import Recorded, Workload, build_workload


@dataclass(frozen=True, slots=True)
class Period:
    """A part of a trace: a half-open interval, in seconds of the trace's own clock."""

    start_seconds: float
    end_seconds: float

    def covers(self, seconds: Floats) -> Flags:
        """Whether each of these times is in the period."""
        inside: Flags = (seconds >= self.start_seconds) & (seconds < self.end_seconds)
        return inside


@dataclass(frozen=True, eq=False)
class Timeline:
    """A recording, and the names of its containers."""

    use: Recorded
    names: tuple[str, ...]
    """Sorted, as in the recording."""

    def workload(self, requested: Floats, services: Sequence[str], **others: Any) -> Workload:  # noqa: ANN401 - fields of a workload
        """Containers that run from their first value to their last."""
        use = self.use
        return build_workload(
            self.names,
            requested,
            use,
            services=tuple(services),
            duration_seconds=use.duration_seconds + use.step_seconds,
            step_seconds=use.step_seconds,
            arrival_seconds=use.first_seconds,
            lifetime_seconds=use.lifetime_seconds,
            **others,
        )


def timeline(
    container: NDArray[np.intp], names: Sequence[str], seconds: Floats, values: Floats, step_seconds: float
) -> Timeline:
    """Create a recording from samples, each with a container (an index of `names`), time and values."""
    order = np.argsort(names)
    place = np.empty(len(names), dtype=np.intp)
    place[order] = np.arange(len(names))
    step = (seconds // step_seconds).astype(np.intp)
    step -= step.min()
    steps = int(step.max(initial=0)) + 1
    key = place[container] * steps + step
    unique, of = np.unique(key, return_inverse=True)
    count = np.bincount(of)
    means = np.column_stack(
        [np.bincount(of, weights=values[:, column]) / count for column in range(values.shape[1])]
    )
    owner, at = unique // steps, unique % steps
    first = np.searchsorted(owner, np.arange(len(names)))
    last = np.searchsorted(owner, np.arange(len(names)), side="right") - 1
    lengths = at[last] - at[first] + 1
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    # A step without a sample repeats the previous sample.
    held = np.zeros(int(lengths.sum()), dtype=np.intp)
    held[start[owner] + at - at[first][owner]] = np.arange(unique.size)
    held = np.maximum.accumulate(held)
    use = Recorded(step_seconds, means[held].astype(np.float32), start, at[first], lengths)
    return Timeline(use, tuple(names[int(each)] for each in order))
