"""Groups of containers that need the same mix of resources (GenPack).

Envelopes are divided by the cluster's mean of each resource, then by their own sum, and k-means finds
containers of a similar shape, whatever their size. Groups keep their numbers and names from one pass to the
next, as the search starts from the last groups. A group has nothing to do with the SLA class of a container.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collector.analysis.histograms import Floats
from collector.analysis.kmeans import continue_from, fit, nearest, silhouette, squares
from collector.snapshot.power_curves import Rows
from collector.snapshot.tables import NOWHERE, Codes, Flags
from wire.resources import RESOURCES, Resource

MOST_GROUPS = 8
_MOST_FITTED = 10_000
_MOST_COMPARED = 1_000
"""Silhouettes need every distance between two."""
_STARTS = 4
_SEED = 0
"""The same containers make the same groups."""
_BETTER = 0.9
"""New clusters replace those continued from the last pass only if their spread is below this ratio."""
_SAME = 0.35
"""A group is the same if its centre moved by no more than this; two corners are 1.4 apart."""
_DECIMALS = 6
_UNLIKE: Floats = np.sqrt([2.0, 3.0, 5.0, 7.0])
"""Different points have different sums with these weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group."""

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
    of: Codes
    """The number of each container's group; `NOWHERE` without one."""


def shapes(envelopes: Floats, average: Floats) -> Floats:
    """The need of each container, relative to the mean of each resource, as shares that add up to 1."""
    relative = np.divide(envelopes, average, out=np.zeros_like(envelopes), where=average > 0)
    total = relative.sum(axis=1, keepdims=True)
    alike = np.full_like(relative, 1 / len(RESOURCES))
    found: Floats = np.divide(relative, total, out=alike, where=total > 0)
    return found


def group(  # noqa: PLR0913 - what is grouped, and how
    envelopes: Floats,
    learnt: Flags,
    guessed: Flags,
    *,
    count: int,
    last: Sequence[Group] = (),
    refit: bool = True,
) -> Grouping:
    """Find `count` groups, or with 0 the number that separates containers best.

    Groups are computed from the `learnt` envelopes; the `guessed` ones are then assigned to them. Without
    `refit`, all are assigned to the last groups.
    """
    of = np.full(len(envelopes), NOWHERE, dtype=np.int8)
    if not learnt.any():
        return Grouping(tuple(last), of)
    rows = np.flatnonzero(learnt | guessed)
    points = shapes(envelopes[rows], envelopes[learnt].mean(axis=0))
    if refit or not last:
        sample = _sample(points[learnt[rows]], _MOST_FITTED)
        distinct = _distinct(sample)
        if count == 0:
            count = _best_count(sample, min(MOST_GROUPS, distinct - 1))
        centres = _centres(sample, min(count, distinct), last)
    else:
        centres = np.array([each.centre for each in last])
    whose = nearest(points, centres)
    sizes = np.bincount(whose, minlength=len(centres))
    groups = tuple(_named(centres, sizes, last))
    of[rows] = np.array([each.number for each in groups], dtype=np.int8)[whose]
    return Grouping(tuple(sorted(groups, key=lambda each: each.number)), of)


def _sample(points: Floats, most: int) -> Floats:
    if len(points) <= most:
        return points
    chosen = np.random.default_rng(_SEED).choice(len(points), most, replace=False)
    return points[np.sort(chosen)]


def _distinct(points: Floats) -> int:
    """How many points differ; by one number each, as comparing whole rows holds the interpreter lock."""
    return len(np.unique(points.round(_DECIMALS) @ _UNLIKE))


def _centres(sample: Floats, count: int, last: Sequence[Group]) -> Floats:
    fresh = fit(sample, count, _STARTS)
    if len(last) == count:
        continued = continue_from(sample, np.array([each.centre for each in last]))
        if fresh.spread > _BETTER * continued.spread:
            return continued.centres
    return fresh.centres


def _best_count(sample: Floats, most: int) -> int:
    few = _sample(sample, _MOST_COMPARED)
    best, best_score = 1, 0.0
    for count in range(2, min(most, _distinct(few) - 1) + 1):
        apart = silhouette(few, fit(few, count, _STARTS).of)
        if apart > best_score:
            best, best_score = count, apart
    return best


def _named(centres: Floats, sizes: Rows, last: Sequence[Group]) -> Iterator[Group]:
    """The groups; one that is still the same keeps its name and number, others get the next free ones."""
    before = _matched(centres, last)
    dominant = [RESOURCES[int(centre.argmax())] for centre in centres]
    kept = {row: each for row, each in before.items() if each.dominant is dominant[row]}
    names = {each.name for each in kept.values()}
    numbers = {each.number for each in kept.values()}
    for row, centre in enumerate(centres):
        if row in kept:
            name, number = kept[row].name, kept[row].number
        else:
            name = next(name for name in _names(dominant[row]) if name not in names)
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


def _names(dominant: Resource) -> Iterator[str]:
    yield dominant.value
    for number in range(2, 2 * MOST_GROUPS + 2):
        yield f"{dominant}-{number}"


def _matched(centres: Floats, last: Sequence[Group]) -> dict[int, Group]:
    """The earlier group of each centre; the closest pairs are matched first."""
    if not last:
        return {}
    distances = np.sqrt(squares(centres, np.array([each.centre for each in last])))
    found: dict[int, Group] = {}
    taken: set[int] = set()
    for flat in np.argsort(distances, axis=None, kind="stable").tolist():
        row, place = divmod(flat, len(last))
        if distances[row, place] > _SAME:
            break
        if row not in found and place not in taken:
            found[row] = last[place]
            taken.add(place)
    return found
