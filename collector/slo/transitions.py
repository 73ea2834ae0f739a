"""The transitions of an instance that may still be joined by late ones, in little memory."""

from array import array
from collections.abc import Iterable
from math import inf
from struct import Struct

from collector.slo.events import Ending, LifecycleKind
from collector.slo.life import Transition

_KINDS = tuple(LifecycleKind)
_ENDINGS = (None, *Ending)
_UNKNOWN = -1.0
_WIDTH = 3
"""Numbers per transition: its time, its codes in one number, its start-up time."""
_BYTES = 8 * _WIDTH
_TIME = Struct("d")
_NODE_FACTOR, _INCARNATION_FACTOR, _ENDING_FACTOR = 2**20, 2**5, 2**2


class NodeNames:
    """A number for each name of a node."""

    def __init__(self) -> None:
        self._names: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}

    def number(self, name: str) -> int:
        """The number of a name, which may be new."""
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number

    def name(self, number: int) -> str:
        return self._names[number]


class Transitions:
    """Transitions in the order of their times."""

    __slots__ = ("_incarnations", "_nodes", "_packed")

    def __init__(self, nodes: NodeNames) -> None:
        self._nodes = nodes
        self._packed = b""
        """As an array of numbers, which would take twice the memory for a few of them."""
        self._incarnations: str | tuple[str, ...] = ()
        """A single one is not in a tuple, for the same reason."""

    def __len__(self) -> int:
        return len(self._packed) // _BYTES

    @property
    def last_at(self) -> float:
        """The time of the newest."""
        return float(_TIME.unpack_from(self._packed, len(self._packed) - _BYTES)[0]) if self._packed else -inf

    @property
    def incarnations(self) -> tuple[str, ...]:
        """The incarnations that they name."""
        return (self._incarnations,) if isinstance(self._incarnations, str) else self._incarnations

    def add(self, new: Transition) -> bool:
        """Add one; returns whether it is new."""
        numbers = array("d", self._packed)
        packed = array("d", self._pack(new))
        place = len(numbers)
        while place and numbers[place - _WIDTH] >= new.at:
            place -= _WIDTH
            if numbers[place : place + _WIDTH] == packed:
                return False
        # Among those of one time, the order does not matter.
        numbers[place:place] = packed
        self._packed = numbers.tobytes()
        return True

    def replace(self, transitions: Iterable[Transition]) -> None:
        """Keep these instead."""
        self._incarnations, numbers = (), array("d")
        for each in transitions:
            numbers.extend(self._pack(each))
        self._packed = numbers.tobytes()

    def unpack(self) -> list[Transition]:
        """All of them, the oldest first."""
        numbers, incarnations = array("d", self._packed), self.incarnations
        return [
            self._unpack(incarnations, *numbers[place : place + _WIDTH])
            for place in range(0, len(numbers), _WIDTH)
        ]

    def _pack(self, each: Transition) -> tuple[float, float, float]:
        incarnations = self.incarnations
        if each.incarnation not in incarnations:
            incarnations = (*incarnations, each.incarnation)
            self._incarnations = each.incarnation if len(incarnations) == 1 else incarnations
        codes = (
            self._nodes.number(each.node) * _NODE_FACTOR
            + incarnations.index(each.incarnation) * _INCARNATION_FACTOR
            + _ENDINGS.index(each.ending) * _ENDING_FACTOR
            + _KINDS.index(each.kind)
        )
        return each.at, codes, _UNKNOWN if each.startup_seconds is None else each.startup_seconds

    def _unpack(self, incarnations: tuple[str, ...], at: float, packed: float, seconds: float) -> Transition:
        node, codes = divmod(int(packed), _NODE_FACTOR)
        incarnation, codes = divmod(codes, _INCARNATION_FACTOR)
        ending, kind = divmod(codes, _ENDING_FACTOR)
        return Transition(
            at,
            _KINDS[kind],
            incarnations[incarnation],
            self._nodes.name(node),
            None if seconds < 0 else seconds,
            _ENDINGS[ending],
        )
