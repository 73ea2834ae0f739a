"""k-means: Lloyd's iterations, begun as k-means++ does, and how well clusters are set apart.

Few points of four numbers need no library for this, and scikit-learn would take ninety megabytes of a
collector's memory. The same points give the same clusters.
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
    """Where the centres are, and whose each point is."""

    centres: Floats
    of: Rows
    spread: float
    """The squares of all distances to the own centre, added up."""


def fit(points: Floats, count: int, starts: int) -> Clusters:
    """The closest of several searches for `count` clusters; as many points at least must differ."""
    generator = np.random.default_rng(_SEED)
    found = (go_on(points, _begin(points, count, generator)) for _ in range(starts))
    return min(found, key=lambda clusters: clusters.spread)


def go_on(points: Floats, centres: Floats) -> Clusters:
    """Move centres into the middle of the points nearest to them, until these stay the same."""
    of, spread = _assigned(points, centres)
    for _ in range(_MOST_ROUNDS):
        centres = _middles(points, of, centres)
        before, (of, spread) = of, _assigned(points, centres)
        if np.array_equal(before, of):
            break
    return Clusters(centres, of, spread)


def nearest(points: Floats, centres: Floats) -> Rows:
    """The centre that each point is closest to."""
    found: Rows = squares(points, centres).argmin(axis=1)
    return found


def squares(points: Floats, centres: Floats) -> Floats:
    """The square of every distance from a point to a centre."""
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
    # A centre that lost all its points begins anew at the one which is worst off.
    far = np.square(points - middles[of]).sum(axis=1)
    for empty in np.flatnonzero(sizes == 0).tolist():
        middles[empty] = points[int(far.argmax())]
        far[far.argmax()] = 0.0
    return middles


def _begin(points: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Points far from each other: a chance to be drawn grows with the distance to those before."""
    return points[list(_drawn(points, count, generator))]


def _drawn(points: Floats, count: int, generator: np.random.Generator) -> Iterator[int]:
    place = int(generator.integers(len(points)))
    distances: NDArray[np.float64] = np.full(len(points), np.inf)
    for _ in range(count):
        yield place
        distances = np.minimum(distances, np.square(points - points[place]).sum(axis=1))
        whole = distances.cumsum()
        place = min(int(np.searchsorted(whole, generator.random() * whole[-1], "right")), len(points) - 1)
