"""How far the use of full nodes varies, learned from the cluster's own five-minute windows.

Random groups of containers, each as large as a node can carry, stand for full nodes: their windows add up to
what such a node would have used. The groups show how far containers vary together, which no sum of variances
does, and how often their use exceeds its mean by how many deviations. Both are pooled over blocks of nodes,
without the extremes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.decide.policies.least_watts.pooling import typical, weights_of, without_extremes
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.least_watts.usage import WINDOW_SECONDS, Usage, learn_usage
from collector.snapshot.columns import CPU, MEMORY
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES

FEWEST_WINDOWS = 12
"""An hour: with fewer windows, the mean of those before a window is too uncertain to compare it with."""
WINDOWS_PER_SHORTAGE = 2.0
"""Windows that may be short, by the accepted share of the time: a node that is short is relieved at the next
decision, on average half a window later."""
_FEWEST_TO_ASSUME = 4
"""Windows from which Student's t distribution has a variance."""
_PARTITIONS = 4
"""Each container is in as many random groups."""
_MOST_GROUPED = 4000
"""Containers that are grouped at most: more would change no quantile."""
_FULL_RATIO = 0.7
"""Mean use of a group, of a node's CPU: about the mean use of a node that keeps three deviations free."""
_HALVINGS = 50
_MOST_DEVIATIONS = 100.0
_POINTS_PER_DEVIATION = 50


def student_tail(deviations: Floats, freedom: int) -> Floats:
    """The share of the time above so many deviations, by Student's t with odd degrees of freedom.

    It is assumed until windows are observed, and holds for deviations that are estimated from few windows.
    """
    # The series of Abramowitz and Stegun, 26.7.3.
    angle = np.arctan(deviations / np.sqrt(freedom))
    term = np.cos(angle)
    total, square = term.copy(), np.square(term)
    for factor in range(3, freedom - 1, 2):
        term = term * square * (factor - 1) / factor
        total += term
    tail: Floats = 0.5 - (angle + np.sin(angle) * total) / np.pi
    return np.maximum(tail, 0.0)


@dataclass(frozen=True, eq=False)
class Tail:
    """How often the use of one resource of a full node exceeds its mean by a number of deviations."""

    residuals: Floats
    """Observed, in deviations, ascending."""
    assumed: float
    """Number of windows that the assumed distribution counts for."""
    freedom: int = 3
    """Degrees of freedom of the assumed distribution."""

    def share_above(self, deviations: Floats) -> Floats:
        """The share of the time above so many deviations."""
        observed = self.residuals.size - np.searchsorted(self.residuals, deviations, side="right")
        weighted: Floats = observed + self.assumed * student_tail(deviations, self.freedom)
        return weighted / (self.residuals.size + self.assumed)

    @cached_property
    def _on_grid(self) -> Floats:
        points = np.arange(0.0, _MOST_DEVIATIONS, 1.0 / _POINTS_PER_DEVIATION)
        return np.append(self.share_above(points), 0.0)

    def share_above_at_most(self, deviations: Floats) -> Floats:
        """The same, up to the next lower point of a grid: many times as fast for many nodes.

        Anything below 0 deviations counts as 0, and nothing is above the last point.
        """
        grid = self._on_grid
        points = deviations * _POINTS_PER_DEVIATION
        np.clip(points, 0.0, grid.size - 1.0, out=points)
        return grid.take(points.astype(np.intp))

    def deviations(self, share: float) -> float:
        """The deviations that are exceeded for this share of the time."""
        low, high = 0.0, _MOST_DEVIATIONS
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if float(self.share_above(np.array(middle))) > share:
                low = middle
            else:
                high = middle
        return high


@dataclass(frozen=True, eq=False)
class Margins:
    """The deviations that nodes keep free, and the distributions that they come from."""

    together: Floats
    """Variance of a node by the sum of its containers' variances, per resource."""
    tails: tuple[Tail, ...]
    """One per resource."""
    deviations: Floats
    """Deviations that a node keeps free, per resource."""

    def share_short(self, place: int, room: Floats, variance: Floats) -> Floats:
        """The share of the windows in which nodes with so much room are short of a resource."""
        deviation = np.sqrt(np.maximum(variance, 0.0) * self.together[place])
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.tails[place].share_above(np.nan_to_num(room / deviation, nan=0.0))

    def reason(self, short_ratio: float) -> str:
        """The margin of the CPU and where it comes from, for people."""
        margin = f"CPU margin {self.deviations[CPU]:.1f} deviations for {short_ratio:.1%} of the time short"
        observed = self.tails[CPU].residuals.size
        if not observed:
            return f"{margin}: assumed until {FEWEST_WINDOWS + 1} windows of five minutes are observed"
        return f"{margin}: learned from {observed} windows of groups of containers"


def learn(snapshot: Snapshot, settings: LeastWattsSettings) -> tuple[Usage, Margins]:
    """Return the expected use of containers, and the margins of nodes."""
    usage = snapshot.cached("usage", lambda: learn_usage(snapshot))
    ratios = settings.short_ratios
    freedom = _freedom(snapshot)
    key = "margins", freedom, *ratios.tolist()
    return usage, snapshot.cached(key, lambda: learn_margins(usage, ratios, _cores(snapshot), freedom))


def _freedom(snapshot: Snapshot) -> int:
    """The degrees of freedom of a typical container's variance: its windows less one, as an odd number.

    Pending tasks with a known use have the profile of their service, which takes an hour to learn.
    """
    windows = snapshot.cached("windows", lambda: _observed_windows(snapshot))
    if np.isnan(windows):
        windows = FEWEST_WINDOWS if snapshot.pending.is_known.any() else 0.0
    return int(min(max(windows, _FEWEST_TO_ASSUME), FEWEST_WINDOWS)) // 2 * 2 - 1


def _observed_windows(snapshot: Snapshot) -> float:
    """The median number of windows of the containers that are observed; NaN if none is."""
    seconds = snapshot.tasks.observed_seconds
    seconds = seconds[seconds > 0]
    return float(np.floor(np.median(seconds) / WINDOW_SECONDS)) if seconds.size else np.nan


def _cores(snapshot: Snapshot) -> float:
    """The CPU of a typical node."""
    known = snapshot.nodes.capacity[:, CPU]
    known = known[~np.isnan(known)]
    return float(np.median(known)) if known.size else 0.0


def learn_margins(usage: Usage, short_ratios: Floats, cores: float, freedom: int) -> Margins:
    """The margins that keep a full node from being short for more than the accepted share of the time.

    The assumed distribution counts for as many windows as it takes to observe one shortage: with fewer, the
    absence of a shortage shows nothing. Memory has no deviations: the envelopes of containers add up.
    """
    blocks = _groups(usage, cores)
    together = _together(blocks)
    residuals = [_residuals(windows, variance * together) for windows, variance in blocks]
    windows_short = short_ratios * WINDOWS_PER_SHORTAGE
    tails = tuple(
        Tail(_pooled([each[place] for each in residuals], windows_short[place]), 1.0 / ratio, freedom)
        for place, ratio in enumerate(short_ratios)
    )
    deviations = [tail.deviations(float(ratio)) for tail, ratio in zip(tails, windows_short, strict=True)]
    deviations[MEMORY] = 0.0
    return Margins(together, tails, np.array(deviations))


def _groups(usage: Usage, cores: float) -> list[tuple[Floats, Floats]]:
    """Per block of nodes: windows of random groups of its containers, and the sums of their variances."""
    width = usage.length * len(RESOURCES)
    windows, variances = [np.empty((0, width))], [np.empty((0, len(RESOURCES)))]
    block, count = [np.empty(0, dtype=np.intp)], int(usage.block.max(initial=0)) + 1
    for seed in range(_PARTITIONS if usage.is_observed.any() and cores > 0 else 0):
        orders = [_random_order(usage, each, _MOST_GROUPED // count, seed) for each in range(count)]
        filled = np.concatenate([np.cumsum(usage.expected[each, CPU]) for each in orders])
        filled = (filled / (cores * _FULL_RATIO)).astype(np.intp)
        order = np.concatenate(orders)
        # A group begins where the last one is full, and with each block.
        of_task = usage.block[order]
        starts = np.flatnonzero(np.diff(filled, prepend=-1) | np.diff(of_task, prepend=-1))
        windows.append(np.add.reduceat(usage.windows_of(order).reshape(order.size, width), starts, axis=0))
        variances.append(np.add.reduceat(usage.variance[order], starts, axis=0))
        block.append(of_task[starts])
    of_group = np.concatenate(block)
    together = np.concatenate(windows).reshape(of_group.size, usage.length, len(RESOURCES))
    alone = np.concatenate(variances)
    return [(together[of_group == each], alone[of_group == each]) for each in range(count)]


def _random_order(usage: Usage, block: int, most: int, seed: int) -> Rows:
    """Observed containers of a block in a random order, at most `most`."""
    rows = np.flatnonzero((usage.block == block) & usage.is_observed)
    return np.random.default_rng(seed).permutation(rows)[:most]


def _together(blocks: Sequence[tuple[Floats, Floats]]) -> Floats:
    together: Floats = np.ones(len(RESOURCES))
    if blocks[0][0].shape[1] < FEWEST_WINDOWS:
        return together
    observed = np.array([windows.var(axis=1, ddof=1).sum(axis=0) for windows, _ in blocks])
    alone = np.array([variance.sum(axis=0) for _, variance in blocks])
    ratios = np.divide(observed, alone, out=np.full_like(alone, np.nan), where=alone > 0)
    for place in range(len(RESOURCES)):
        weights = weights_of(alone[:, place]) * without_extremes(ratios[:, place])
        of_all, of_each = weights @ observed[:, place], weights @ alone[:, place]
        if of_each > 0 and of_all > 0:
            together[place] = of_all / of_each
    return together


def _pooled(residuals: Sequence[Floats], share: float) -> Floats:
    """The residuals of the blocks that count, by what each exceeds for this share of the time; ascending."""
    quantiles = [
        float(np.quantile(each, max(1.0 - share, 0.0))) if each.size else np.nan for each in residuals
    ]
    kept = without_extremes(np.array(quantiles))
    most = round(typical(np.array([float(each.size) for each in residuals])))
    counted = [each[:most] for each, counts in zip(residuals, kept, strict=True) if counts]
    return np.sort(np.concatenate(counted))


def _residuals(windows: Floats, variance: Floats) -> list[Floats]:
    """Per resource: each window less the mean of those before it, in deviations."""
    length = windows.shape[1]
    if not len(windows) or length <= FEWEST_WINDOWS:
        return [np.empty(0)] * len(RESOURCES)
    before = np.cumsum(windows, axis=1)[:, :-1] / np.arange(1, length)[None, :, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        residuals = (windows[:, 1:] - before) / np.sqrt(variance)[:, None]
    residuals = residuals[:, FEWEST_WINDOWS - 1 :]
    places = [residuals[:, :, place] for place in range(len(RESOURCES))]
    return [each[np.isfinite(each)] for each in places]
