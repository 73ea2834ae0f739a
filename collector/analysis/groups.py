"""Classes of containers by what they need most, and how large each is within the cluster (GenPack).

What sort a container is and how large it is are two questions. The class answers the first: envelopes are
set in proportion to the cluster's average of each resource, then to their own sum, and k-means finds
containers of a like shape. The score answers the second. Classes keep their numbers and names from one run to
the next, as the clusters of the last run are where the search begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collector.analysis.histograms import Floats
from collector.analysis.kmeans import fit, go_on, nearest, silhouette, squares
from collector.snapshot.power_curves import Rows
from collector.snapshot.tables import NOWHERE, Codes, Flags
from wire.resources import RESOURCES, Resource

MOST_CLASSES = 8
_MOST_FITTED = 10_000
_MOST_COMPARED = 1_000
"""Silhouettes need every distance between two."""
_STARTS = 4
_SEED = 0
"""The same containers make the same classes."""
_BETTER = 0.9
"""Clusters found afresh replace those that went on from the last run only if they fit so much closer."""
_SAME = 0.35
"""A class is still the same if its centre moved by no more. From one corner to the next it is 1.4."""
_DECIMALS = 6
_UNLIKE: Floats = np.sqrt([2.0, 3.0, 5.0, 7.0])
"""Two points that differ have different sums with these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One class."""

    number: int
    name: str
    """Its dominant resource; with a number where several classes share one: `cpu`, `cpu-2`."""
    dominant: Resource
    centre: tuple[float, float, float, float]
    """The share of each resource in what its containers need, where the cluster's average is all alike."""
    size: int


@dataclass(frozen=True, eq=False, slots=True)
class Grouping:
    """Who belongs where."""

    groups: tuple[Group, ...]
    of: Codes
    """The number of each container's class; `NOWHERE` without one."""


def score(envelopes: Floats) -> Floats:
    """How large each is: the length of its shares in what all need; a resource nobody uses adds nothing."""
    whole = envelopes.sum(axis=0)
    shares = np.divide(envelopes, whole, out=np.zeros_like(envelopes), where=whole > 0)
    length: Floats = np.sqrt(np.square(shares).sum(axis=1))
    return length


def shapes(envelopes: Floats, average: Floats) -> Floats:
    """What each needs, in proportion to the average of each resource, as parts of one."""
    relative = np.divide(envelopes, average, out=np.zeros_like(envelopes), where=average > 0)
    total = relative.sum(axis=1, keepdims=True)
    alike = np.full_like(relative, 1 / len(RESOURCES))
    found: Floats = np.divide(relative, total, out=alike, where=total > 0)
    return found


def group(
    envelopes: Floats, learnt: Flags, guessed: Flags, *, count: int, last: Sequence[Group] = ()
) -> Grouping:
    """Find `count` classes, or with 0 as many as set containers apart best.

    Classes are made from the `learnt` envelopes; those that are `guessed` well enough are put into them.
    """
    of = np.full(len(envelopes), NOWHERE, dtype=np.int8)
    if not learnt.any():
        return Grouping(tuple(last), of)
    rows = np.flatnonzero(learnt | guessed)
    points = shapes(envelopes[rows], envelopes[learnt].mean(axis=0))
    sample = _sample(points[learnt[rows]], _MOST_FITTED)
    distinct = _distinct(sample)
    if count == 0:
        count = _best_count(sample, min(MOST_CLASSES, distinct - 1))
    centres = _centres(sample, min(count, distinct), last)
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
    """How many are not alike. By one number for each: rows are compared one by one, while all others wait."""
    return len(np.unique(points.round(_DECIMALS) @ _UNLIKE))


def _centres(sample: Floats, count: int, last: Sequence[Group]) -> Floats:
    fresh = fit(sample, count, _STARTS)
    if len(last) == count:
        going_on = go_on(sample, np.array([each.centre for each in last]))
        if fresh.spread > _BETTER * going_on.spread:
            return going_on.centres
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
    """The same name and number for what is still the same; else the next that is free."""
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
    for number in range(2, 2 * MOST_CLASSES + 2):
        yield f"{dominant}-{number}"


def _matched(centres: Floats, last: Sequence[Group]) -> dict[int, Group]:
    """The earlier class of each centre: those that are nearest to each other find each other first."""
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
