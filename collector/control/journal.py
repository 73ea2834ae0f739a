"""The record: every decision, written down before and after each of its steps.

What is here was on disk first, so that a collector that is killed finds all that it may have begun.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from collector.control.records import CARRIED_OUT, IN_MOTION, Decision, Pause, Step, outcome_of
from collector.history.interface import History

_DECISIONS, _INPUTS, _SWITCH = "decision", "decision-input", "acting"
_PAUSE, _IDENTITY = "pause", "identity"
_ID_BYTES = 4
_NO_BEFORES: Mapping[int, bytes] = MappingProxyType({})


class _Entry(msgspec.Struct, frozen=True):
    """A decision, and what undoing each of its steps would need: that is no business of those who read."""

    decision: Decision
    befores: dict[int, bytes] = {}


_entries = msgspec.msgpack.Decoder(_Entry)
_pauses = msgspec.msgpack.Decoder(Pause)


class Journal:
    """All decisions that are kept, the oldest first."""

    def __init__(self, history: History, *, keep: int, keep_input_bytes: int) -> None:
        self._history = history
        self._keep, self._keep_input_bytes = keep, keep_input_bytes
        self._entries: dict[str, _Entry] = {}
        self._amending = asyncio.Lock()
        """Steps that are done at once change the same decision."""
        self.pause: Pause | None = None
        self.identity = ""

    async def recollect(self) -> None:
        """Know again what was written down; raises `Unavailable`."""
        found = [_entries.decode(packed) for packed in (await self._history.get_values(_DECISIONS)).values()]
        found.sort(key=lambda each: (each.decision.at, each.decision.id))
        self._entries = {each.decision.id: each for each in found}
        switch = await self._history.get_values(_SWITCH)
        self.pause = _pauses.decode(switch[_PAUSE]) if _PAUSE in switch else None
        self.identity = switch.get(_IDENTITY, b"").decode()
        if not self.identity:
            self.identity = secrets.token_hex(_ID_BYTES)
            await self._history.put_values(_SWITCH, {_IDENTITY: self.identity.encode()})

    def new_id(self) -> str:
        """A name for a decision."""
        return secrets.token_hex(_ID_BYTES)

    # --- Decisions ------------------------------------------------------------------------------

    async def add(self, decision: Decision, packed: bytes) -> Decision:
        """Write down a new decision, and what it was made from."""
        if len(packed) <= self._keep_input_bytes:
            decision = msgspec.structs.replace(decision, input_bytes=len(packed))
            await self._history.put_values(_INPUTS, {decision.id: packed})
        decision = await self._write(decision, {})
        await self._forget()
        return decision

    async def amend(
        self,
        name: str,
        change: Callable[[Decision], Decision],
        befores: Mapping[int, bytes] = _NO_BEFORES,
    ) -> Decision:
        """Write down what `change` makes of a decision; `befores` is what undoing steps needs, by place."""
        async with self._amending:
            entry = self._entries[name]
            return await self._write(change(entry.decision), {**entry.befores, **befores})

    def before(self, decision: str, place: int) -> bytes:
        """What undoing a step needs; empty if nothing was said."""
        return self._entries[decision].befores.get(place, b"")

    async def input_of(self, decision: str) -> bytes | None:
        """What one was made from, as it was packed; None once that is gone."""
        return (await self._history.get_values(_INPUTS)).get(decision)

    def get(self, name: str) -> Decision | None:
        """One decision."""
        entry = self._entries.get(name)
        return None if entry is None else entry.decision

    def known(self, name: str) -> Decision:
        """One decision that is surely there."""
        return self._entries[name].decision

    def decisions(self) -> list[Decision]:
        """All of them, the latest first."""
        return [entry.decision for entry in reversed(self._entries.values())]

    def begun(self, since: float) -> Iterator[tuple[Decision, Step]]:
        """Every step that was begun since a time, or is in motion."""
        for entry in self._entries.values():
            for step in entry.decision.steps:
                if step.started_at is not None and (step.started_at >= since or step.state in IN_MOTION):
                    yield entry.decision, step

    def carried_out(self) -> Iterator[Step]:
        """Every step that holds, in the order in which they were done."""
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

    async def _forget(self) -> None:
        """Let the oldest go that are over; and the oldest inputs, where they take too much room."""
        names = [name for name, entry in self._entries.items() if not _is_under_way(entry.decision)]
        too_many = names[: max(0, len(self._entries) - self._keep)]
        if too_many:
            await self._history.put_values(_DECISIONS, dict.fromkeys(too_many))
            await self._history.put_values(_INPUTS, dict.fromkeys(too_many))
            for name in too_many:
                del self._entries[name]
        total = sum(entry.decision.input_bytes for entry in self._entries.values())
        for entry in list(self._entries.values()):
            if total <= self._keep_input_bytes:
                break
            if entry.decision.input_bytes:
                total -= entry.decision.input_bytes
                await self._history.put_values(_INPUTS, {entry.decision.id: None})
                forgotten = msgspec.structs.replace(entry.decision, input_bytes=0)
                await self._write(forgotten, entry.befores)

    # --- The switch -----------------------------------------------------------------------------

    async def set_pause(self, pause: Pause | None) -> None:
        """Pause or resume, for good until somebody says otherwise."""
        await self._history.put_values(
            _SWITCH, {_PAUSE: None if pause is None else msgspec.msgpack.encode(pause)}
        )
        self.pause = pause


def _is_under_way(decision: Decision) -> bool:
    return any(step.state in IN_MOTION for step in decision.steps)
