"""Network coordinates: estimates of the round-trip times of all pairs from a few measured pairs. Pure.

As in Vivaldi, a node has a position in a Euclidean space and a height: the time between two nodes is their
distance plus both heights. The positions minimize the relative error of the measured pairs. Unlike Vivaldi,
all measurements are in one place, so the positions of all nodes are found at once: by gradient descent from
starting points that landmarks provide. Without scipy's 30 MB.

Clusters have regions, zones and racks, with times that differ by a factor of a thousand. Forces on
single nodes do not move a whole region that is in the wrong place, so groups of near nodes move as well: one
set of groups for each scale of time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Floats, Rows

DIMENSIONS = 4
_LANDMARKS = 64
_STEPS = 300
_SCALE_FACTOR = 3.0
"""Ratio of two successive scales of time."""
_RATE = 0.1
_DECAY_1, _DECAY_2, _TINY = 0.9, 0.99, 1e-12
"""Parameters of Adam, which scales each step by the recent gradients."""
_MAX_LOG_ERROR = 0.5
"""Larger errors count as this one, so that outliers do not distort the space."""
_CLOSENESS = 0.1
"""Force that keeps the nodes of a group close together. Delays that all pairs of a node share go into its
height."""
_SHORTEST_SECONDS = 1e-6
_HELD_OUT = 20
"""One of this many pairs is held out of the fit, to measure its error."""
_MIN_HELD_OUT = 20


class Components:
    """Groups of rows that are connected by pairs."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))
        self.count = count
        """Number of groups."""

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Connect the groups of each pair."""
        for one, other in pairs:
            first, second = self._root(one), self._root(other)
            if first != second:
                self._parent[max(first, second)] = min(first, second)
                self.count -= 1

    def labels(self) -> Rows:
        """The group of each row, numbered from 0 in the order of their first rows."""
        roots = [self._root(row) for row in range(len(self._parent))]
        _, labels = np.unique(roots, return_inverse=True)
        return labels.astype(np.intp)

    def _root(self, row: int) -> int:
        parent = self._parent
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Positions and heights in seconds, one row per node; NaN is unknown."""

    positions: Floats
    heights: Floats
    error_ratio: float | None
    """90th percentile of the relative error of held-out pairs; None with too few pairs."""

    def estimates(self, pairs: Rows) -> Floats:
        """Round-trip times of pairs of rows."""
        one, other = pairs.T
        distance = np.sqrt(np.square(self.positions[one] - self.positions[other]).sum(axis=1))
        total: Floats = distance + self.heights[one] + self.heights[other]
        return total


@dataclass(frozen=True, slots=True)
class _Level:
    """Groups of nodes that are connected by pairs up to a time."""

    seconds: Floats
    """The scale of each group, as a column."""
    group: Rows
    count: int

    def sums(self, values: Floats) -> Floats:
        """Sums over the nodes of each group."""
        return np.stack([np.bincount(self.group, column, self.count) for column in values.T], axis=1)


def fit_coordinates(count: int, pairs: Rows, seconds: Floats) -> Coordinates:
    """Coordinates of nodes from measured pairs, two columns of rows, and their round-trip times."""
    positions, heights = np.full((count, DIMENSIONS), np.nan), np.full(count, np.nan)
    if not len(pairs):
        return Coordinates(positions, heights, None)
    seconds = np.maximum(seconds, _SHORTEST_SECONDS)
    is_held_out = np.arange(len(pairs)) % _HELD_OUT == _HELD_OUT - 1
    used, used_seconds = pairs[~is_held_out], seconds[~is_held_out]
    components = Components(count)
    components.join(used.tolist())
    group = components.labels()
    # Only the largest connected part gets coordinates: times between parts are unknown.
    largest = group == np.bincount(group).argmax()
    place = np.cumsum(largest) - 1
    inside = largest[used[:, 0]]
    positions[largest], heights[largest] = _fit(int(largest.sum()), place[used[inside]], used_seconds[inside])
    found = Coordinates(positions, heights, None)
    held_out, held_out_seconds = pairs[is_held_out], seconds[is_held_out]
    errors = np.abs(found.estimates(held_out) - held_out_seconds) / held_out_seconds
    errors = errors[~np.isnan(errors)]
    if len(errors) < _MIN_HELD_OUT:
        return found
    return Coordinates(positions, heights, float(np.quantile(errors, 0.9)))


def _fit(count: int, pairs: Rows, seconds: Floats) -> tuple[Floats, Floats]:
    """Positions and heights of connected nodes."""
    one, other = pairs.T
    nearest = np.full(count, np.inf)
    np.minimum.at(nearest, one, seconds)
    np.minimum.at(nearest, other, seconds)
    levels = _levels(count, pairs, seconds, nearest)
    positions = _start_positions(count, pairs, seconds)
    noise = np.random.default_rng(0).normal(0.0, _RATE, positions.shape)
    positions = _group_means(levels, positions, count // 4) + noise * nearest[:, np.newaxis]
    log_heights = np.log(nearest / 2)
    steps = [_Adam() for _ in levels]
    height_steps = _Adam()
    for step in range(_STEPS):
        rate = _RATE * (1 - step / _STEPS)
        difference = positions[one] - positions[other]
        distance = np.sqrt(np.square(difference).sum(axis=1)) + _TINY
        heights = np.exp(log_heights)
        estimate = distance + heights[one] + heights[other]
        pull = np.clip(np.log(estimate / seconds), -_MAX_LOG_ERROR, _MAX_LOG_ERROR) / estimate
        by_pair = (pull / distance)[:, np.newaxis] * difference
        gradient = np.stack(
            [np.bincount(one, axis, count) - np.bincount(other, axis, count) for axis in by_pair.T], axis=1
        )
        centres = _group_means(levels, positions, count)
        gradient += _CLOSENESS * (positions - centres) / np.square(nearest)[:, np.newaxis]
        for level, adam in zip(levels, steps, strict=True):
            positions -= (rate * level.seconds * adam.step(level.sums(gradient)))[level.group]
        by_height = np.bincount(one, pull, count) + np.bincount(other, pull, count)
        log_heights -= rate * height_steps.step(by_height.astype(np.float64) * heights)
    return positions, np.exp(log_heights)


class _Adam:
    """The direction of the next step: the mean gradient relative to its recent size."""

    def __init__(self) -> None:
        self._mean: Floats | float = 0.0
        self._square: Floats | float = 0.0
        self._steps = 0

    def step(self, gradient: Floats) -> Floats:
        self._steps += 1
        self._mean = _DECAY_1 * self._mean + (1 - _DECAY_1) * gradient
        self._square = _DECAY_2 * self._square + (1 - _DECAY_2) * np.square(gradient)
        mean = self._mean / (1 - _DECAY_1**self._steps)
        size = np.sqrt(self._square / (1 - _DECAY_2**self._steps))
        direction: Floats = mean / (size + _TINY)
        return direction


def _levels(count: int, pairs: Rows, seconds: Floats, nearest: Floats) -> list[_Level]:
    """The groups of each scale of time, the largest scale first; the single nodes are last."""
    levels: list[_Level] = []
    components = Components(count)
    order = np.argsort(seconds, kind="stable")
    ordered, lengths = pairs[order].tolist(), seconds[order]
    scales = int(np.ceil(np.log(lengths[-1] / lengths[0]) / np.log(_SCALE_FACTOR)))
    joined = 0
    for step in range(scales, 0, -1):
        scale = lengths[-1] / _SCALE_FACTOR**step
        until = int(np.searchsorted(lengths, scale, side="right"))
        before = components.count
        components.join(ordered[joined:until])
        joined = until
        if 1 < components.count < before:
            scales_of_groups = np.full((components.count, 1), scale)
            levels.insert(0, _Level(scales_of_groups, components.labels(), components.count))
    own_scale = np.sqrt(nearest * np.median(seconds))[:, np.newaxis]
    return [*levels, _Level(own_scale, np.arange(count), count)]


def _group_means(levels: list[_Level], positions: Floats, max_groups: int) -> Floats:
    """The mean position of each node's group, in the finest level with at most `max_groups` groups."""
    fitting = [level for level in levels[:-1] if level.count <= max_groups]
    if not fitting:
        return positions
    level = fitting[-1]
    sizes = np.bincount(level.group, minlength=level.count)[:, np.newaxis]
    means: Floats = (level.sums(positions) / sizes)[level.group]
    return means


def _start_positions(count: int, pairs: Rows, seconds: Floats) -> Floats:
    """Starting positions: classical scaling of the shortest paths to landmarks, which are random nodes."""
    landmarks = np.random.default_rng(0).permutation(count)[:_LANDMARKS]
    paths = _shortest_paths(landmarks, count, pairs, seconds)
    squares = np.square(paths)
    among = squares[:, landmarks]
    mean = among.mean(axis=0)
    centred = -0.5 * (among - mean - mean[:, np.newaxis] + among.mean())
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1][:DIMENSIONS], vectors[:, ::-1][:, :DIMENSIONS]
    axes = np.where(values > _TINY, vectors / np.sqrt(np.maximum(values, _TINY)), 0.0)
    positions = np.zeros((count, DIMENSIONS))
    positions[:, : axes.shape[1]] = -0.5 * (squares - mean[:, np.newaxis]).T @ axes
    return positions


def _shortest_paths(sources: Rows, count: int, pairs: Rows, seconds: Floats) -> Floats:
    """Lengths of the shortest paths from some nodes to all: a row per source. All nodes are connected."""
    near, far = np.concatenate((pairs, pairs[:, ::-1])).T
    length = np.concatenate((seconds, seconds))
    order = np.argsort(far, kind="stable")
    near, far, length = near[order], far[order], length[order]
    starts = np.flatnonzero(np.diff(far, prepend=-1))
    targets = far[starts]
    paths = np.full((len(sources), count), np.inf)
    paths[np.arange(len(sources)), sources] = 0.0
    while True:
        # Bellman-Ford for all sources at once. It takes few rounds, as the graph has short paths.
        through = np.minimum.reduceat(paths[:, near] + length, starts, axis=1)
        if not (through < paths[:, targets]).any():
            return paths
        paths[:, targets] = np.minimum(paths[:, targets], through)
