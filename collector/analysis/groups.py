"""Groups of containers that need the same mix of resources (GenPack).

Envelopes are divided by the cluster's mean of each resource, then by their own sum, and k-means finds
containers of a similar shape, whatever their size. Groups keep their numbers and names from one pass to the
next, as the search starts from the last groups. A group has nothing to do with the SLA class of a container.

k-means is Lloyd's iterations from k-means++ starts, written with numpy, since scikit-learn would add 90 MB to
the collector. The same containers make the same groups.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.common.ratios import Ratios
from collector.snapshot.tables import NOWHERE
from wire.resources import RESOURCES, Resource

MAX_GROUPS = 8
_MAX_FITTED = 10_000
_MAX_COMPARED = 1_000
"""A silhouette needs the distances of all pairs of points."""
_STARTS = 4
_MAX_ROUNDS = 100
_SEED = 0
_REPLACE_RATIO = 0.9
"""New clusters replace those continued from the last pass only if their inertia is below this ratio."""
_MAX_SHIFT = 0.35
"""A group keeps its name if its centre moved by no more than this. The maximum distance is 1.4."""
_DECIMALS = 6
_HASH_WEIGHTS: Floats = np.sqrt([2.0, 3.0, 5.0, 7.0])
"""Weighted sums tell points apart: different points have different sums."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Containers that need resources in similar proportions, whatever the amounts."""

    number: int
    """Number of the group, which stays the same as long as the group exists."""
    name: str
    """Name of the group: its dominant resource, with a number if several groups share it."""
    dominant: Resource
    """The resource that its containers need most, relative to the average of the cluster."""
    containers: int
    centre: Ratios
    """Share of each resource in the need of its containers, relative to the average of the cluster."""


class Grouping(NamedTuple):
    """The groups, and the group of each container."""

    groups: tuple[Group, ...]
    group_of: Codes
    """The number of each container's group; `NOWHERE` without one."""


def shapes(envelopes: Floats, average: Floats) -> Floats:
    """The need of each container, relative to the mean of each resource, as shares that add up to 1."""
    relative = np.divide(envelopes, average, out=np.zeros_like(envelopes), where=average > 0)
    total = relative.sum(axis=1, keepdims=True)
    equal = np.full_like(relative, 1 / len(RESOURCES))
    found: Floats = np.divide(relative, total, out=equal, where=total > 0)
    return found


def group(  # noqa: PLR0913 - input and options
    envelopes: Floats,
    measured: Flags,
    estimated: Flags,
    *,
    count: int,
    last: Sequence[Group] = (),
    refit: bool = True,
) -> Grouping:
    """Find `count` groups, or with 0 the number that separates containers best.

    Groups are computed from the `measured` envelopes; the `estimated` ones are then assigned to them. Without
    `refit`, all are assigned to the last groups.
    """
    group_of = np.full(len(envelopes), NOWHERE, dtype=np.int8)
    if not measured.any():
        return Grouping(tuple(last), group_of)
    rows = np.flatnonzero(measured | estimated)
    points = shapes(envelopes[rows], envelopes[measured].mean(axis=0))
    if refit or not last:
        sample = _sample(points[measured[rows]], _MAX_FITTED)
        distinct = _count_distinct(sample)
        if count == 0:
            count = _best_count(sample, min(MAX_GROUPS, distinct - 1))
        centres = _find_centres(sample, min(count, distinct), last)
    else:
        centres = _centres_of(last)
    labels, _ = _assign(points, centres)
    sizes = np.bincount(labels, minlength=len(centres))
    groups = tuple(_name_groups(centres, sizes, last))
    group_of[rows] = np.array([each.number for each in groups], dtype=np.int8)[labels]
    return Grouping(tuple(sorted(groups, key=lambda each: each.number)), group_of)


def _centres_of(groups: Sequence[Group]) -> Floats:
    return np.array([msgspec.structs.astuple(each.centre) for each in groups])


def _sample(points: Floats, size: int) -> Floats:
    if len(points) <= size:
        return points
    chosen = np.random.default_rng(_SEED).choice(len(points), size, replace=False)
    return points[np.sort(chosen)]


def _count_distinct(points: Floats) -> int:
    """Count different points, by weighted sums: comparing whole rows would hold the interpreter lock."""
    return len(np.unique(points.round(_DECIMALS) @ _HASH_WEIGHTS))


def _find_centres(sample: Floats, count: int, last: Sequence[Group]) -> Floats:
    fresh = fit(sample, count)
    if len(last) == count:
        continued = refine(sample, _centres_of(last))
        if fresh.inertia > _REPLACE_RATIO * continued.inertia:
            return continued.centres
    return fresh.centres


def _best_count(sample: Floats, max_count: int) -> int:
    few = _sample(sample, _MAX_COMPARED)
    best, best_score = 1, 0.0
    for count in range(2, min(max_count, _count_distinct(few) - 1) + 1):
        score = silhouette(few, fit(few, count).labels)
        if score > best_score:
            best, best_score = count, score
    return best


def _name_groups(centres: Floats, sizes: Rows, last: Sequence[Group]) -> Iterator[Group]:
    """Name the groups: one that still exists keeps its name and number, others get the next free ones."""
    before = _match(centres, last)
    dominant = [RESOURCES[int(centre.argmax())] for centre in centres]
    kept = {row: each for row, each in before.items() if each.dominant is dominant[row]}
    names = {each.name for each in kept.values()}
    numbers = {each.number for each in kept.values()}
    for row, centre in enumerate(centres):
        if row in kept:
            name, number = kept[row].name, kept[row].number
        else:
            name = next(name for name in _candidate_names(dominant[row]) if name not in names)
            number = next(number for number in range(len(centres) + len(last) + 1) if number not in numbers)
            names.add(name)
            numbers.add(number)
        yield Group(
            number=number,
            name=name,
            dominant=dominant[row],
            containers=int(sizes[row]),
            centre=Ratios(*centre.tolist()),
        )


def _candidate_names(dominant: Resource) -> Iterator[str]:
    yield dominant.value
    for number in range(2, 2 * MAX_GROUPS + 2):
        yield f"{dominant}-{number}"


def _match(centres: Floats, last: Sequence[Group]) -> dict[int, Group]:
    """Match each centre with an earlier group, the closest pairs first."""
    if not last:
        return {}
    distances = np.sqrt(squared_distances(centres, _centres_of(last)))
    found: dict[int, Group] = {}
    taken: set[int] = set()
    for flat in np.argsort(distances, axis=None, kind="stable").tolist():
        row, place = divmod(flat, len(last))
        if distances[row, place] > _MAX_SHIFT:
            break
        if row not in found and place not in taken:
            found[row] = last[place]
            taken.add(place)
    return found


# --- k-means ---------------------------------------------------------------------------------


class Clusters(NamedTuple):
    """The result of a fit."""

    centres: Floats
    labels: Rows
    """The cluster of each point."""
    inertia: float
    """The sum of the squared distances of points to their centres."""


def fit(points: Floats, count: int) -> Clusters:
    """Find `count` clusters, the best of several attempts; at least as many points must differ."""
    generator = np.random.default_rng(_SEED)
    found = (refine(points, points[list(_choose_starts(points, count, generator))]) for _ in range(_STARTS))
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


def _choose_starts(points: Floats, count: int, generator: np.random.Generator) -> Iterator[int]:
    """Choose starting points (k-means++): points far from the earlier ones are more likely."""
    place = int(generator.integers(len(points)))
    distances: Floats = np.full(len(points), np.inf)
    for _ in range(count):
        yield place
        distances = np.minimum(distances, np.square(points - points[place]).sum(axis=1))
        cumulative = distances.cumsum()
        place = min(
            int(np.searchsorted(cumulative, generator.random() * cumulative[-1], "right")), len(points) - 1
        )
