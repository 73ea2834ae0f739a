"""The ledger's record of each instance, in columns, since objects take several times the memory."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from sys import intern

from collector.features.promises.ledger.checkpoints import NO_CHECKPOINT, CheckpointPool
from collector.features.promises.ledger.events import Transition
from collector.features.promises.ledger.instance_state import InstanceState, RunLog, apply_transitions
from collector.features.promises.ledger.instance_table import InstanceTable
from collector.features.promises.ledger.transitions import (
    NodeNames,
    add_transition,
    count_transitions,
    newest_at,
    read_transitions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInstance:
    """An instance in the history, as msgpack: some numbers are infinite, or NaN."""

    service: str
    slot: str
    base: InstanceState | None
    horizon: float
    concurrent_seconds: float
    transitions: tuple[Transition, ...]


class InstanceRecords:
    """The instances by row: a checkpoint of each, and its later transitions.

    An incarnation is retired when its instance has a later checkpoint at which it no longer runs or waits.
    """

    def __init__(self) -> None:
        self.table = InstanceTable()
        self.nodes = NodeNames()
        self._slots: list[str] = []
        self._incarnations: list[str] = []
        self._named: list[str | tuple[str, ...]] = []
        """The incarnations that the transitions name; a single one is no tuple, to save memory."""
        self._transitions: list[bytes] = []
        self._checkpoint = array("i")
        """The places of the checkpoints."""
        self._checkpoints = CheckpointPool(self.nodes)

    def __len__(self) -> int:
        return len(self.table)

    def allocate(self, slot: str) -> int:
        """Return the row of a new instance."""
        row = self.table.allocate()
        if row == len(self._slots):
            self._slots.append("")
            self._incarnations.append("")
            self._named.append(())
            self._transitions.append(b"")
            self._checkpoint.append(NO_CHECKPOINT)
        # Most services number their slots from 1.
        self._slots[row] = intern(slot)
        return row

    def release(self, row: int) -> None:
        """Forget an instance."""
        self._replace(row, ())
        self._set_checkpoint(row, None)
        self._slots[row] = self._incarnations[row] = ""
        self.table.release(row)

    def slot(self, row: int) -> str:
        return self._slots[row]

    def incarnation(self, row: int) -> str:
        """The incarnation that runs or waits; empty if there is none."""
        return self._incarnations[row]

    def horizon(self, row: int) -> float:
        """The time of the checkpoint. Reports of earlier transitions change nothing."""
        checkpoint = self._checkpoint[row]
        return -inf if checkpoint == NO_CHECKPOINT else self._checkpoints.horizon(checkpoint)

    def concurrent_seconds(self, row: int) -> float:
        """The time up to the horizon in which the instance ran together with all its siblings."""
        checkpoint = self._checkpoint[row]
        return 0.0 if checkpoint == NO_CHECKPOINT else self._checkpoints.concurrent_seconds(checkpoint)

    def set_concurrent_seconds(self, row: int, seconds: float) -> None:
        """Set the concurrent time up to the horizon; does nothing without a checkpoint."""
        if (checkpoint := self._checkpoint[row]) != NO_CHECKPOINT:
            self._checkpoints.set_concurrent_seconds(checkpoint, seconds)

    def folded_seconds(self, row: int) -> float:
        """The running time of the instance up to the horizon."""
        checkpoint = self._checkpoint[row]
        return 0.0 if checkpoint == NO_CHECKPOINT else self._checkpoints.running_seconds(checkpoint)

    def newest_at(self, row: int) -> float:
        """The time of the newest transition after the horizon."""
        return newest_at(self._transitions[row])

    def count(self, row: int) -> int:
        """The number of transitions after the horizon."""
        return count_transitions(self._transitions[row])

    def transitions(self, row: int) -> list[Transition]:
        """The transitions after the horizon, the oldest first."""
        return list(read_transitions(self._transitions[row], self._names(row), self.nodes))

    def add(self, row: int, new: Transition) -> bool:
        """Add a transition; returns whether it is new."""
        named = self._names(row)
        if new.incarnation not in named:
            named = (*named, new.incarnation)
            self._named[row] = new.incarnation if len(named) == 1 else named
        number = named.index(new.incarnation)
        packed = add_transition(self._transitions[row], new, number, self.nodes.number(new.node))
        if packed is not None:
            self._transitions[row] = packed
        return packed is not None

    def state(self, row: int, log: RunLog | None = None) -> InstanceState:
        """The state of the instance after all transitions."""
        return apply_transitions(self._base(row), self.transitions(row), log)

    def store_state(self, row: int, state: InstanceState, *, service: int, is_vacant: bool) -> None:
        """Store the state of the instance in the table; `service` is the number of its service."""
        self._incarnations[row] = state.incarnation
        node = self.nodes.number(state.node)
        self.table.store(row, state, service=service, node=node, is_vacant=is_vacant)

    def known_incarnations(self, row: int) -> set[str]:
        """The incarnations of the instance that are not retired."""
        known = set(self._names(row))
        if (checkpoint := self._checkpoint[row]) != NO_CHECKPOINT:
            known.update(self._checkpoints.incarnations(checkpoint))
        return known - {""}

    def has_incarnation(self, row: int, incarnation: str) -> bool:
        """Whether an incarnation is one of `known_incarnations`."""
        named, checkpoint = self._named[row], self._checkpoint[row]
        is_named = incarnation == named if isinstance(named, str) else incarnation in named
        return bool(incarnation) and (
            is_named
            or (checkpoint != NO_CHECKPOINT and incarnation in self._checkpoints.incarnations(checkpoint))
        )

    def fold(self, row: int, before: float) -> set[str]:
        """Fold the transitions before a time into a checkpoint; returns the incarnations that retire."""
        transitions, known = self.transitions(row), self.known_incarnations(row)
        base = apply_transitions(self._base(row), transitions, before=before)
        self._set_checkpoint(row, base, before, self.concurrent_seconds(row))
        self._replace(row, [each for each in transitions if each.at >= before])
        return known - self.known_incarnations(row)

    def stored(self, row: int, service: str) -> StoredInstance:
        """The instance for the history."""
        return StoredInstance(
            service=service,
            slot=self._slots[row],
            base=self._base(row),
            horizon=self.horizon(row),
            concurrent_seconds=self.concurrent_seconds(row),
            transitions=tuple(self.transitions(row)),
        )

    def restore(self, row: int, stored: StoredInstance) -> None:
        """Set everything but the slot."""
        self._set_checkpoint(row, stored.base, stored.horizon, stored.concurrent_seconds)
        self._replace(row, stored.transitions)

    def _names(self, row: int) -> tuple[str, ...]:
        named = self._named[row]
        return (named,) if isinstance(named, str) else named

    def _replace(self, row: int, transitions: Iterable[Transition]) -> None:
        self._named[row], self._transitions[row] = (), b""
        for each in transitions:
            self.add(row, each)

    def _base(self, row: int) -> InstanceState | None:
        """The state of the instance up to the horizon."""
        checkpoint = self._checkpoint[row]
        return None if checkpoint == NO_CHECKPOINT else self._checkpoints.state(checkpoint)

    def _set_checkpoint(
        self, row: int, state: InstanceState | None, horizon: float = -inf, concurrent_seconds: float = 0.0
    ) -> None:
        if self._checkpoint[row] != NO_CHECKPOINT:
            self._checkpoints.release(self._checkpoint[row])
        self._checkpoint[row] = (
            NO_CHECKPOINT if state is None else self._checkpoints.add(state, horizon, concurrent_seconds)
        )
