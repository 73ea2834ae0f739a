"""The transitions of an instance after its checkpoint, as bytes: objects take several times the memory."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import inf
from operator import itemgetter
from struct import Struct

from collector.features.promises.ledger.events import Ending, LifecycleKind, Transition

_ENTRY = Struct("<dqd")
"""Its time; kind, ending, incarnation and node as one number; its start-up time."""
_KINDS = tuple(LifecycleKind)
_ENDINGS = (None, *Ending)
_UNKNOWN = -1.0
_NODE_FACTOR, _INCARNATION_FACTOR, _ENDING_FACTOR = 2**20, 2**5, 2**2


def add_transition(packed: bytes, new: Transition, incarnation: int, node: int) -> bytes | None:
    """Transitions in the order of their times, with a new one; None if it is among them already.

    The caller assigns the numbers of incarnations and nodes.
    """
    codes = (
        node * _NODE_FACTOR
        + incarnation * _INCARNATION_FACTOR
        + _ENDINGS.index(new.ending) * _ENDING_FACTOR
        + _KINDS.index(new.kind)
    )
    entry = new.at, codes, _UNKNOWN if new.startup_seconds is None else new.startup_seconds
    if new.at > newest_at(packed):
        return packed + _ENTRY.pack(*entry)
    entries = list(_ENTRY.iter_unpack(packed))
    if entry in entries:
        return None
    place = _ENTRY.size * bisect_left(entries, new.at, key=itemgetter(0))
    return packed[:place] + _ENTRY.pack(*entry) + packed[place:]


def read_transitions(packed: bytes, incarnations: Sequence[str], nodes: "NodeNames") -> Iterator[Transition]:
    """The transitions, the oldest first."""
    for at, codes, seconds in _ENTRY.iter_unpack(packed):
        node, rest = divmod(codes, _NODE_FACTOR)
        incarnation, rest = divmod(rest, _INCARNATION_FACTOR)
        ending, kind = divmod(rest, _ENDING_FACTOR)
        yield Transition(
            at,
            _KINDS[kind],
            incarnations[incarnation],
            nodes.name(node),
            None if seconds < 0 else seconds,
            _ENDINGS[ending],
        )


def count_transitions(packed: bytes) -> int:
    """How many there are."""
    return len(packed) // _ENTRY.size


def newest_at(packed: bytes) -> float:
    """The time of the newest one."""
    return float(_ENTRY.unpack_from(packed, len(packed) - _ENTRY.size)[0]) if packed else -inf


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
