"""k-means: Lloyd's iterations from k-means++ starts, and the silhouette of the clusters.

Written with numpy, since scikit-learn would add 90 MB to the collector. The same points give the same
clusters.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.analysis.histograms import Floats
from collector.snapshot.power_curves import Rows

_SEED = 0
_MOST_ROUNDS = 100


@dataclass(frozen=True, eq=False, slots=True)
class Clusters:
    """Centres, and the cluster of each point."""

    centres: Floats
    of: Rows
    spread: float
    """The sum of the squared distances to the own centre."""


def fit(points: Floats, count: int, starts: int) -> Clusters:
    """The best of several searches for `count` clusters; at least as many points must differ."""
    generator = np.random.default_rng(_SEED)
    found = (continue_from(points, _begin(points, count, generator)) for _ in range(starts))
    return min(found, key=lambda clusters: clusters.spread)


def continue_from(points: Floats, centres: Floats) -> Clusters:
    """Move each centre to the mean of its nearest points, until the assignment does not change."""
    of, spread = _assigned(points, centres)
    for _ in range(_MOST_ROUNDS):
        centres = _middles(points, of, centres)
        before, (of, spread) = of, _assigned(points, centres)
        if np.array_equal(before, of):
            break
    return Clusters(centres, of, spread)


def nearest(points: Floats, centres: Floats) -> Rows:
    """The nearest centre of each point."""
    found: Rows = squares(points, centres).argmin(axis=1)
    return found


def squares(points: Floats, centres: Floats) -> Floats:
    """The squared distance of every point to every centre."""
    found: Floats = np.square(points[:, None, :] - centres[None, :, :]).sum(axis=2)
    return found


def silhouette(points: Floats, of: Rows) -> float:
    """How much closer points are to their own cluster than to the next, from -1 to 1 (Rousseeuw, 1987)."""
    clusters, of = np.unique(of, return_inverse=True)
    members = np.equal.outer(of, np.arange(clusters.size)).astype(np.float64)
    sizes = members.sum(axis=0)
    # Sums of distances from each point to the points of each cluster.
    sums = np.sqrt(squares(points, points)) @ members
    rows = np.arange(len(points))
    inside = sums[rows, of] / np.maximum(sizes[of] - 1, 1)
    means = sums / sizes
    means[rows, of] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    apart = np.divide(outside - inside, larger, out=np.zeros_like(larger), where=larger > 0)
    return float(np.where(sizes[of] > 1, apart, 0.0).mean())


def _assigned(points: Floats, centres: Floats) -> tuple[Rows, float]:
    distances = squares(points, centres)
    of: Rows = distances.argmin(axis=1)
    return of, float(distances[np.arange(len(points)), of].sum())


def _middles(points: Floats, of: Rows, centres: Floats) -> Floats:
    sizes = np.bincount(of, minlength=len(centres))
    sums = np.column_stack([np.bincount(of, weights=each, minlength=len(centres)) for each in points.T])
    middles: Floats = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    # A centre without points restarts at the point furthest from its centre.
    far = np.square(points - middles[of]).sum(axis=1)
    for empty in np.flatnonzero(sizes == 0).tolist():
        middles[empty] = points[int(far.argmax())]
        far[far.argmax()] = 0.0
    return middles


def _begin(points: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Starting points (k-means++): the chance of a point grows with its distance to the earlier ones."""
    return points[list(_drawn(points, count, generator))]


def _drawn(points: Floats, count: int, generator: np.random.Generator) -> Iterator[int]:
    place = int(generator.integers(len(points)))
    distances: NDArray[np.float64] = np.full(len(points), np.inf)
    for _ in range(count):
        yield place
        distances = np.minimum(distances, np.square(points - points[place]).sum(axis=1))
        whole = distances.cumsum()
        place = min(int(np.searchsorted(whole, generator.random() * whole[-1], "right")), len(points) - 1)
