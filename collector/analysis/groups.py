"""Groups of containers that need the same mix of resources (GenPack).

Envelopes are divided by the cluster's mean of each resource, then by their own sum, and k-means finds
containers of a similar shape, whatever their size. Groups keep their numbers and names from one pass to the
next, as the search starts from the last groups. A group has nothing to do with the SLA class of a container.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collector.analysis.kmeans import fit, nearest, refine, silhouette, squared_distances
from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.snapshot.tables import NOWHERE
from wire.resources import RESOURCES, Resource

MAX_GROUPS = 8
_MAX_FITTED = 10_000
_MAX_COMPARED = 1_000
"""A silhouette needs the distances of all pairs of points."""
_STARTS = 4
_SEED = 0
"""The same containers make the same groups."""
_REPLACE_RATIO = 0.9
"""New clusters replace those continued from the last pass only if their inertia is below this ratio."""
_MAX_SHIFT = 0.35
"""A group keeps its name if its centre moved by no more than this. The maximum distance is 1.4."""
_DECIMALS = 6
_HASH_WEIGHTS: Floats = np.sqrt([2.0, 3.0, 5.0, 7.0])
"""Weighted sums tell points apart: different points have different sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of containers."""

    number: int
    name: str
    """Its dominant resource; with a number where several groups share one: `cpu`, `cpu-2`."""
    dominant: Resource
    centre: tuple[float, float, float, float]
    """The share of each resource in the need of its containers, relative to the cluster's mean."""
    size: int


@dataclass(frozen=True, eq=False, slots=True)
class Grouping:
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
        centres = _centres(sample, min(count, distinct), last)
    else:
        centres = np.array([each.centre for each in last])
    labels = nearest(points, centres)
    sizes = np.bincount(labels, minlength=len(centres))
    groups = tuple(_name_groups(centres, sizes, last))
    group_of[rows] = np.array([each.number for each in groups], dtype=np.int8)[labels]
    return Grouping(tuple(sorted(groups, key=lambda each: each.number)), group_of)


def _sample(points: Floats, size: int) -> Floats:
    if len(points) <= size:
        return points
    chosen = np.random.default_rng(_SEED).choice(len(points), size, replace=False)
    return points[np.sort(chosen)]


def _count_distinct(points: Floats) -> int:
    """Count different points, by weighted sums: comparing whole rows would hold the interpreter lock."""
    return len(np.unique(points.round(_DECIMALS) @ _HASH_WEIGHTS))


def _centres(sample: Floats, count: int, last: Sequence[Group]) -> Floats:
    fresh = fit(sample, count, _STARTS)
    if len(last) == count:
        continued = refine(sample, np.array([each.centre for each in last]))
        if fresh.inertia > _REPLACE_RATIO * continued.inertia:
            return continued.centres
    return fresh.centres


def _best_count(sample: Floats, max_count: int) -> int:
    few = _sample(sample, _MAX_COMPARED)
    best, best_score = 1, 0.0
    for count in range(2, min(max_count, _count_distinct(few) - 1) + 1):
        score = silhouette(few, fit(few, count, _STARTS).labels)
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
        cpu, memory, disk, network = centre.tolist()
        yield Group(
            number=number,
            name=name,
            dominant=dominant[row],
            centre=(cpu, memory, disk, network),
            size=int(sizes[row]),
        )


def _candidate_names(dominant: Resource) -> Iterator[str]:
    yield dominant.value
    for number in range(2, 2 * MAX_GROUPS + 2):
        yield f"{dominant}-{number}"


def _match(centres: Floats, last: Sequence[Group]) -> dict[int, Group]:
    """Match each centre with an earlier group, the closest pairs first."""
    if not last:
        return {}
    distances = np.sqrt(squared_distances(centres, np.array([each.centre for each in last])))
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
