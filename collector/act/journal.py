"""The journal: every decision, written before and after each of its steps.

Entries are written to disk before an action starts, so that a collector that was killed finds all that it
started.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from collector.act.records import CARRIED_OUT, IN_MOTION, Decision, Pause, Step, outcome_of
from collector.config import ControlConfig
from collector.decide.policies.actions import Kill
from collector.history.interface import decode_values
from collector.history.sqlite.history import History

log = logging.getLogger(__name__)

_DECISIONS, _INPUTS, _SWITCH = "decision", "decision-input", "acting"
_PAUSE = "pause"
_ID_BYTES = 4
_KEEP_INPUT_BYTES = 64 << 20
"""Maximum size of the snapshots kept with decisions, compressed."""


class _Entry(msgspec.Struct, frozen=True):
    """A decision, and the data that undoing each of its steps needs, which the API does not return."""

    decision: Decision
    befores: dict[int, bytes] = {}


_entries = msgspec.msgpack.Decoder(_Entry)
_pauses = msgspec.msgpack.Decoder(Pause)


def _decoded_pause(packed: bytes) -> Pause:
    """Return the stored pause. A damaged one still counts as a pause, so that nothing acts by mistake."""
    try:
        return _pauses.decode(packed)
    except msgspec.DecodeError as error:
        log.warning(
            "the pause in the journal cannot be read, and lasts until wattpack control resume: %s", error
        )
        return Pause(since=0.0, why="the record of the pause is damaged")


class Journal:
    """All stored decisions, the oldest first."""

    def __init__(self, history: History, *, keep: int, keep_input_bytes: int) -> None:
        self._history = history
        self._keep, self._keep_input_bytes = keep, keep_input_bytes
        self._entries: dict[str, _Entry] = {}
        self._amending = asyncio.Lock()
        """Held during a change, because concurrent steps change the same decision."""
        self.pause: Pause | None = None

    async def load(self) -> None:
        """Load the stored decisions. Raise `HistoryUnavailable`."""
        stored = await self._history.get_values(_DECISIONS)
        found = decode_values(stored, _entries.decode, "decision").values()
        in_order = sorted(found, key=lambda each: (each.decision.at, each.decision.id))
        self._entries = {each.decision.id: each for each in in_order}
        switch = await self._history.get_values(_SWITCH)
        self.pause = _decoded_pause(switch[_PAUSE]) if _PAUSE in switch else None

    def new_id(self) -> str:
        return secrets.token_hex(_ID_BYTES)

    # --- Decisions ------------------------------------------------------------------------------

    async def add(
        self, decision: Decision, packed: bytes, waiting: AbstractSet[str] = frozenset()
    ) -> Decision:
        """Store a new decision and its packed snapshot. Keep decisions that stopped a `waiting` container."""
        if len(packed) <= self._keep_input_bytes:
            decision = msgspec.structs.replace(decision, input_bytes=len(packed))
            await self._history.put_values(_INPUTS, {decision.id: packed})
        decision = await self._write(decision, {})
        await self._delete_oldest(waiting)
        return decision

    async def amend(
        self,
        decision_id: str,
        change: Callable[[Decision], Decision],
        befores: Mapping[int, bytes] | None = None,
    ) -> Decision:
        """Store the result of `change`; `befores` is the data that undoing steps needs, by index."""
        async with self._amending:
            entry = self._entries[decision_id]
            return await self._write(change(entry.decision), {**entry.befores, **(befores or {})})

    def undo_data(self, decision_id: str, index: int) -> bytes:
        """Return the data that undoing a step needs; empty if it needs none."""
        return self._entries[decision_id].befores.get(index, b"")

    async def input_of(self, decision_id: str) -> bytes | None:
        """Return the packed snapshot of a decision; None if it is deleted."""
        return (await self._history.get_values(_INPUTS)).get(decision_id)

    def get(self, decision_id: str) -> Decision | None:
        entry = self._entries.get(decision_id)
        return None if entry is None else entry.decision

    def require(self, decision_id: str) -> Decision:
        return self._entries[decision_id].decision

    def decisions(self) -> list[Decision]:
        """Return all decisions, the latest first."""
        return [entry.decision for entry in reversed(self._entries.values())]

    def started_steps(self, since: float) -> Iterator[tuple[Decision, Step]]:
        """Return every step that started since a time, or is in motion."""
        for entry in self._entries.values():
            for step in entry.decision.steps:
                if step.started_at is not None and (step.started_at >= since or step.state in IN_MOTION):
                    yield entry.decision, step

    def carried_out(self) -> Iterator[Step]:
        """Return every step in effect, in the order of completion."""
        steps = [
            step
            for entry in self._entries.values()
            for step in entry.decision.steps
            if step.state in CARRIED_OUT
        ]
        return iter(sorted(steps, key=lambda step: step.done_at or 0.0))

    async def _write(self, decision: Decision, befores: dict[int, bytes]) -> Decision:
        decision = msgspec.structs.replace(decision, outcome=outcome_of(decision))
        entry = _Entry(decision, befores)
        await self._history.put_values(_DECISIONS, {entry.decision.id: msgspec.msgpack.encode(entry)})
        self._entries[decision.id] = entry
        return decision

    async def _delete_oldest(self, waiting: AbstractSet[str]) -> None:
        """Delete the oldest ended decisions, and the oldest snapshots beyond their size limit.

        Decisions that stopped a container which still waits are kept: no other record contains it.
        """
        names = [
            decision_id
            for decision_id, entry in self._entries.items()
            if not any(step.state in IN_MOTION for step in entry.decision.steps)
            and waiting.isdisjoint(_stopped_containers(entry.decision))
        ]
        too_many = names[: max(0, len(self._entries) - self._keep)]
        if too_many:
            await self._history.put_values(_DECISIONS, dict.fromkeys(too_many))
            await self._history.put_values(_INPUTS, dict.fromkeys(too_many))
            for decision_id in too_many:
                del self._entries[decision_id]
        total = sum(entry.decision.input_bytes for entry in self._entries.values())
        for entry in list(self._entries.values()):
            if total <= self._keep_input_bytes:
                break
            if entry.decision.input_bytes:
                total -= entry.decision.input_bytes
                await self._history.put_values(_INPUTS, {entry.decision.id: None})
                without_input = msgspec.structs.replace(entry.decision, input_bytes=0)
                await self._write(without_input, entry.befores)

    # --- The pause ------------------------------------------------------------------------------

    async def set_pause(self, pause: Pause | None) -> None:
        """Pause or resume, also across restarts."""
        await self._history.put_values(
            _SWITCH, {_PAUSE: None if pause is None else msgspec.msgpack.encode(pause)}
        )
        self.pause = pause


async def open_journal(history: History, settings: ControlConfig) -> Journal:
    """Load the journal of a history. Raise `HistoryUnavailable`."""
    journal = Journal(history, keep=settings.keep_decisions, keep_input_bytes=_KEEP_INPUT_BYTES)
    await journal.load()
    return journal


def _stopped_containers(decision: Decision) -> set[str]:
    """Return the containers that a decision stopped until there is room."""
    return {
        step.action.task
        for step in decision.steps
        if isinstance(step.action, Kill) and step.action.target is None and step.state in CARRIED_OUT
    }
