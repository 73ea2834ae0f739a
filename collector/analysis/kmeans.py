"""k-means: Lloyd's iterations from k-means++ starts, and the silhouette of the clusters.

Written with numpy, since scikit-learn would add 90 MB to the collector. The same points give the same
clusters.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Floats, Rows

_SEED = 0
_MAX_ROUNDS = 100


@dataclass(frozen=True, eq=False, slots=True)
class Clusters:
    """The result of a fit."""

    centres: Floats
    labels: Rows
    """The cluster of each point."""
    inertia: float
    """The sum of the squared distances of points to their centres."""


def fit(points: Floats, count: int, starts: int) -> Clusters:
    """Find `count` clusters, the best of several attempts; at least as many points must differ."""
    generator = np.random.default_rng(_SEED)
    found = (refine(points, _choose_starts(points, count, generator)) for _ in range(starts))
    return min(found, key=lambda clusters: clusters.inertia)


def refine(points: Floats, centres: Floats) -> Clusters:
    """Move each centre to the mean of its nearest points, until the assignment does not change."""
    labels, inertia = _assign(points, centres)
    for _ in range(_MAX_ROUNDS):
        centres = _move_centres(points, labels, centres)
        before, (labels, inertia) = labels, _assign(points, centres)
        if np.array_equal(before, labels):
            break
    return Clusters(centres, labels, inertia)


def nearest(points: Floats, centres: Floats) -> Rows:
    """The nearest centre of each point."""
    found: Rows = squared_distances(points, centres).argmin(axis=1)
    return found


def squared_distances(points: Floats, centres: Floats) -> Floats:
    """The squared distance of every point to every centre."""
    found: Floats = np.square(points[:, None, :] - centres[None, :, :]).sum(axis=2)
    return found


def silhouette(points: Floats, labels: Rows) -> float:
    """How much closer points are to their own cluster than to the next, from -1 to 1 (Rousseeuw, 1987)."""
    clusters, labels = np.unique(labels, return_inverse=True)
    members = np.equal.outer(labels, np.arange(clusters.size)).astype(np.float64)
    sizes = members.sum(axis=0)
    # Sums of distances from each point to the points of each cluster.
    sums = np.sqrt(squared_distances(points, points)) @ members
    rows = np.arange(len(points))
    inside = sums[rows, labels] / np.maximum(sizes[labels] - 1, 1)
    means = sums / sizes
    means[rows, labels] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    scores = np.divide(outside - inside, larger, out=np.zeros_like(larger), where=larger > 0)
    return float(np.where(sizes[labels] > 1, scores, 0.0).mean())


def _assign(points: Floats, centres: Floats) -> tuple[Rows, float]:
    distances = squared_distances(points, centres)
    labels: Rows = distances.argmin(axis=1)
    return labels, float(distances[np.arange(len(points)), labels].sum())


def _move_centres(points: Floats, labels: Rows, centres: Floats) -> Floats:
    sizes = np.bincount(labels, minlength=len(centres))
    sums = np.column_stack([np.bincount(labels, weights=each, minlength=len(centres)) for each in points.T])
    moved: Floats = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    # A centre without points restarts at the point furthest from its centre.
    far = np.square(points - moved[labels]).sum(axis=1)
    for empty in np.flatnonzero(sizes == 0).tolist():
        moved[empty] = points[int(far.argmax())]
        far[far.argmax()] = 0.0
    return moved


def _choose_starts(points: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Choose starting points (k-means++): points far from the earlier ones are more likely."""
    return points[list(_draw_starts(points, count, generator))]


def _draw_starts(points: Floats, count: int, generator: np.random.Generator) -> Iterator[int]:
    place = int(generator.integers(len(points)))
    distances: NDArray[np.float64] = np.full(len(points), np.inf)
    for _ in range(count):
        yield place
        distances = np.minimum(distances, np.square(points - points[place]).sum(axis=1))
        cumulative = distances.cumsum()
        place = min(
            int(np.searchsorted(cumulative, generator.random() * cumulative[-1], "right")), len(points) - 1
        )
