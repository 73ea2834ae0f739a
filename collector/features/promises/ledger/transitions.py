"""The transitions of instances after their checkpoints, in little memory."""

from array import array
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from collector.features.promises.ledger.events import Ending, LifecycleKind, Transition

NO_CHAIN = -1
"""A chain without transitions."""
_KINDS = tuple(LifecycleKind)
_ENDINGS = (None, *Ending)
_UNKNOWN = -1.0
_NODE_FACTOR, _INCARNATION_FACTOR, _ENDING_FACTOR = 2**20, 2**5, 2**2


class PackedTransition(NamedTuple):
    """A transition as numbers."""

    at: float
    codes: int
    """Kind, ending, incarnation and node; the last two are numbers that the caller assigns."""
    startup_seconds: float


def pack(each: Transition, incarnation: int, node: int) -> PackedTransition:
    """Pack a transition into numbers."""
    codes = (
        node * _NODE_FACTOR
        + incarnation * _INCARNATION_FACTOR
        + _ENDINGS.index(each.ending) * _ENDING_FACTOR
        + _KINDS.index(each.kind)
    )
    seconds = _UNKNOWN if each.startup_seconds is None else each.startup_seconds
    return PackedTransition(each.at, codes, seconds)


def unpack(packed: PackedTransition, incarnations: tuple[str, ...], nodes: "NodeNames") -> Transition:
    """Unpack a transition."""
    at, codes, seconds = packed
    node, codes = divmod(codes, _NODE_FACTOR)
    incarnation, codes = divmod(codes, _INCARNATION_FACTOR)
    ending, kind = divmod(codes, _ENDING_FACTOR)
    return Transition(
        at,
        _KINDS[kind],
        incarnations[incarnation],
        nodes.name(node),
        None if seconds < 0 else seconds,
        _ENDINGS[ending],
    )


class NodeNames:
    """A number for each name of a node."""

    def __init__(self) -> None:
        self._names: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}

    def number(self, name: str) -> int:
        """The number of a name, which is added if it is new."""
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number

    def name(self, number: int) -> str:
        return self._names[number]


class TransitionPool:
    """Chains of transitions, each from the newest to the oldest, identified by the place of the newest."""

    def __init__(self) -> None:
        self._at = array("d")
        self._codes = array("q")
        self._startup_seconds = array("d")
        self._next = array("i")
        self._free = NO_CHAIN
        """The chain of free places."""

    def newest_at(self, chain: int) -> float:
        """The time of the newest transition of a chain."""
        return -inf if chain == NO_CHAIN else self._at[chain]

    def walk(self, chain: int) -> Iterator[PackedTransition]:
        """The transitions of a chain, the newest first."""
        while chain != NO_CHAIN:
            yield PackedTransition(self._at[chain], self._codes[chain], self._startup_seconds[chain])
            chain = self._next[chain]

    def add(self, chain: int, new: PackedTransition) -> int | None:
        """Add a transition, and return the chain; None if the chain contains the transition already."""
        newer, place = NO_CHAIN, chain
        while place != NO_CHAIN and self._at[place] >= new.at:
            if (self._at[place], self._codes[place], self._startup_seconds[place]) == new:
                return None
            newer, place = place, self._next[place]
        # The order of transitions at the same time does not matter.
        added = self._store(new, place)
        if newer == NO_CHAIN:
            return added
        self._next[newer] = added
        return chain

    def release(self, chain: int) -> None:
        """Forget a chain."""
        while chain != NO_CHAIN:
            following = self._next[chain]
            self._next[chain], self._free = self._free, chain
            chain = following

    def _store(self, new: PackedTransition, older: int) -> int:
        place = self._free
        if place == NO_CHAIN:
            self._at.append(new.at)
            self._codes.append(new.codes)
            self._startup_seconds.append(new.startup_seconds)
            self._next.append(older)
            return len(self._at) - 1
        self._free = self._next[place]
        self._at[place], self._codes[place], self._startup_seconds[place] = new
        self._next[place] = older
        return place
