"""What the ledger keeps of each instance, in columns: objects would take several times the memory."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from sys import intern

from collector.slo.life import Life, Trace, Transition, replay
from collector.slo.pasts import NO_PAST, PastPool
from collector.slo.table import LifeTable
from collector.slo.transitions import NO_CHAIN, NodeNames, TransitionPool, pack, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInstance:
    """An instance as it is stored, in msgpack: some numbers are infinite, or NaN."""

    service: str
    slot: str
    base: Life | None
    horizon: float
    concurrent_seconds: float
    transitions: tuple[Transition, ...]


class InstanceRecords:
    """The instances by row: a sum of the past of each, and its latest transitions."""

    def __init__(self) -> None:
        self.lives = LifeTable()
        self.nodes = NodeNames()
        self._slots: list[str] = []
        self._incarnations: list[str] = []
        self._named: list[str | tuple[str, ...]] = []
        """The incarnations that the transitions name; a single one is not in a tuple, to save memory."""
        self._chains = array("i")
        self._pool = TransitionPool()
        self._past = array("i")
        """The places of the lives up to the horizons."""
        self._pasts = PastPool(self.nodes)

    def __len__(self) -> int:
        return len(self.lives)

    def take(self, slot: str) -> int:
        """The row of a new instance."""
        row = self.lives.take()
        if row == len(self._slots):
            self._slots.append("")
            self._incarnations.append("")
            self._named.append(())
            self._chains.append(NO_CHAIN)
            self._past.append(NO_PAST)
        # Most services number their slots from 1.
        self._slots[row] = intern(slot)
        return row

    def release(self, row: int) -> None:
        """Forget an instance."""
        self._replace(row, ())
        self._set_past(row, None)
        self._slots[row] = self._incarnations[row] = ""
        self.lives.release(row)

    def slot(self, row: int) -> str:
        return self._slots[row]

    def incarnation(self, row: int) -> str:
        """The incarnation that runs or waits; empty if there is none."""
        return self._incarnations[row]

    def horizon(self, row: int) -> float:
        """Earlier transitions are folded into sums; later reports of them change nothing."""
        past = self._past[row]
        return -inf if past == NO_PAST else self._pasts.horizon(past)

    def concurrent_seconds(self, row: int) -> float:
        """Up to the horizon: time in which it ran together with all its siblings."""
        past = self._past[row]
        return 0.0 if past == NO_PAST else self._pasts.concurrent_seconds(past)

    def set_concurrent_seconds(self, row: int, seconds: float) -> None:
        """Without a horizon, there is nothing to set."""
        if (past := self._past[row]) != NO_PAST:
            self._pasts.set_concurrent_seconds(past, seconds)

    def folded_seconds(self, row: int) -> float:
        """Its running time up to the horizon."""
        past = self._past[row]
        return 0.0 if past == NO_PAST else self._pasts.running_seconds(past)

    def newest_at(self, row: int) -> float:
        """The time of its newest transition."""
        return self._pool.newest_at(self._chains[row])

    def count(self, row: int) -> int:
        """How many transitions are kept."""
        return sum(1 for _ in self._pool.walk(self._chains[row]))

    def transitions(self, row: int) -> list[Transition]:
        """Those that are kept, the oldest first."""
        named = self._names(row)
        found = [unpack(each, named, self.nodes) for each in self._pool.walk(self._chains[row])]
        found.reverse()
        return found

    def add(self, row: int, new: Transition) -> bool:
        """Add a transition; returns whether it is new."""
        named = self._names(row)
        if new.incarnation not in named:
            named = (*named, new.incarnation)
            self._named[row] = new.incarnation if len(named) == 1 else named
        packed = pack(new, named.index(new.incarnation), self.nodes.number(new.node))
        chain = self._pool.add(self._chains[row], packed)
        if chain is None:
            return False
        self._chains[row] = chain
        return True

    def life(self, row: int, trace: Trace | None = None) -> Life:
        """Its life so far."""
        return replay(self._base(row), self.transitions(row), trace)

    def store_life(self, row: int, life: Life, *, service: int, is_vacant: bool) -> None:
        """Store its life in the table; `service` is the number of its service."""
        self._incarnations[row] = life.incarnation
        node = self.nodes.number(life.node)
        self.lives.store(row, life, service=service, node=node, is_vacant=is_vacant)

    def known_incarnations(self, row: int) -> set[str]:
        """Its incarnations that are not past."""
        known = set(self._names(row))
        if (past := self._past[row]) != NO_PAST:
            known.update(self._pasts.incarnations(past))
        return known - {""}

    def has_incarnation(self, row: int, incarnation: str) -> bool:
        """Whether an incarnation is one of its known ones."""
        named, past = self._named[row], self._past[row]
        is_named = incarnation == named if isinstance(named, str) else incarnation in named
        return bool(incarnation) and (
            is_named or (past != NO_PAST and incarnation in self._pasts.incarnations(past))
        )

    def fold(self, row: int, before: float) -> set[str]:
        """Fold the transitions before a time into sums; returns the incarnations that are past."""
        transitions, known = self.transitions(row), self.known_incarnations(row)
        base = replay(self._base(row), transitions, before=before)
        self._set_past(row, base, before, self.concurrent_seconds(row))
        self._replace(row, [each for each in transitions if each.at >= before])
        return known - self.known_incarnations(row)

    def stored(self, row: int, service: str) -> StoredInstance:
        """An instance as it is stored."""
        return StoredInstance(
            service=service,
            slot=self._slots[row],
            base=self._base(row),
            horizon=self.horizon(row),
            concurrent_seconds=self.concurrent_seconds(row),
            transitions=tuple(self.transitions(row)),
        )

    def restore(self, row: int, stored: StoredInstance) -> None:
        """Set everything but its slot."""
        self._set_past(row, stored.base, stored.horizon, stored.concurrent_seconds)
        self._replace(row, stored.transitions)

    def _names(self, row: int) -> tuple[str, ...]:
        named = self._named[row]
        return (named,) if isinstance(named, str) else named

    def _replace(self, row: int, transitions: Iterable[Transition]) -> None:
        self._pool.release(self._chains[row])
        self._named[row], self._chains[row] = (), NO_CHAIN
        for each in transitions:
            self.add(row, each)

    def _base(self, row: int) -> Life | None:
        """Its life up to the horizon."""
        past = self._past[row]
        return None if past == NO_PAST else self._pasts.life(past)

    def _set_past(
        self, row: int, life: Life | None, horizon: float = -inf, concurrent_seconds: float = 0.0
    ) -> None:
        if self._past[row] != NO_PAST:
            self._pasts.release(self._past[row])
        self._past[row] = NO_PAST if life is None else self._pasts.add(life, horizon, concurrent_seconds)
