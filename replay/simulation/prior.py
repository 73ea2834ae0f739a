"""What was learnt before the recording began: nothing, or what an earlier recording tells."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.snapshot.power_curves import Floats
from replay.setup.scenario import Learning
from replay.setup.workload import Workload
from replay.simulation.learner import SLOT_SECONDS, SLOTS, Learner, Learnt, nearest_rank
from wire.resources import RESOURCES

_WIDTH = len(RESOURCES)
_WINDOW_SECONDS = SLOTS * SLOT_SECONDS


@dataclass(frozen=True, eq=False)
class _Known:
    """Statistics of the containers of an earlier recording, by id."""

    row: dict[str, int]
    learnt: Learnt


class Prior:
    """What a collector that has been running knows at the beginning."""

    def __init__(self, earlier: Workload | None, learning: Learning) -> None:
        self._earlier = earlier
        self._known: _Known | None = None
        self._shares: tuple[Floats, Floats, Floats] | None = None
        if earlier is not None:
            self._known = _statistics(earlier, learning)
            self._shares = _shares(earlier, self._known, learning)

    def feed(self, learner: Learner, ids: Sequence[str]) -> None:
        """Let a learner take in what the earlier recording has of containers that are here again."""
        earlier, known = self._earlier, self._known
        if earlier is None or known is None:
            return
        again = [place for place, name in enumerate(ids) if name in known.row]
        here = np.array(again, dtype=np.intp)
        there = np.array([known.row[ids[place]] for place in again], dtype=np.intp)
        learner.begin(here)
        since = np.zeros(there.size)
        for seconds in _last_day(earlier):
            learner.add(seconds - earlier.duration_seconds, here, earlier.use.at(seconds, there, since))

    def of_services(self, names: Sequence[str]) -> tuple[NDArray[np.bool_], Floats, Floats, Floats]:
        """Whether each service is known, and what an instance of it is like."""
        known = np.zeros(len(names), dtype=np.bool_)
        mean, variance, envelope = (np.zeros((len(names), _WIDTH)) for _ in range(3))
        if self._known is not None:
            for place, name in enumerate(names):
                row = self._known.row.get(name)
                if row is not None:
                    known[place] = True
                    mean[place], variance[place] = (
                        self._known.learnt.mean[row],
                        self._known.learnt.variance[row],
                    )
                    envelope[place] = self._known.learnt.envelope[row]
        return known, mean, variance, envelope

    def guess(self, requested: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, variance and envelope of containers that were never seen, by what they ask for."""
        asked = np.nan_to_num(requested, nan=0.0)
        if self._shares is None:
            return asked, np.zeros_like(asked), asked
        mean, deviation, envelope = self._shares
        return asked * mean, (asked * deviation) ** 2, asked * envelope


def _statistics(earlier: Workload, learning: Learning) -> _Known:
    """What a collector would have learnt by the end of a recording."""
    learner = Learner(earlier.size, learning.need)
    rows = np.arange(earlier.size)
    learner.begin(rows)
    since = np.zeros(earlier.size)
    for seconds in _last_day(earlier):
        learner.add(seconds, rows, earlier.use.at(seconds, rows, since))
    return _Known(
        row={name: row for row, name in enumerate(earlier.ids)},
        learnt=learner.learnt(rows),
    )


def _last_day(earlier: Workload) -> list[float]:
    first = max(0.0, earlier.duration_seconds - _WINDOW_SECONDS)
    return [float(each) for each in np.arange(first, earlier.duration_seconds, earlier.step_seconds)]


def _shares(earlier: Workload, known: _Known, learning: Learning) -> tuple[Floats, Floats, Floats]:
    """How much of what they ask for containers use: on average, by deviation, and at the percentile.

    Containers differ, and one that was never seen may be any of them, so the spread between containers
    counts as deviation too.
    """
    asked = np.nan_to_num(earlier.requested, nan=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(asked > 0, known.learnt.mean / asked, 0.0)
        spread = np.where(asked > 0, known.learnt.variance / asked**2, 0.0)
        envelope = np.where(asked > 0, known.learnt.envelope / asked, 0.0)
    deviation = np.sqrt(spread.mean(axis=0) + share.var(axis=0))
    highest = np.array(
        [nearest_rank(envelope[:, [place]], learning.percentiles[place])[0] for place in range(_WIDTH)]
    )
    return share.mean(axis=0), deviation, highest
