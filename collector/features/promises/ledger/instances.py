"""An instance: its state, computed from the transitions of its incarnations.

The state depends on the set of transitions only. A missing transition changes the interval that it would
have bounded and nothing else: an incarnation without an end runs until the next one of its slot is created.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf, isnan, nan
from operator import attrgetter
from typing import NamedTuple

import msgspec

from collector.features.promises.ledger.events import Ending, LifecycleKind, Transition


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An incarnation that runs."""

    incarnation: str
    startup_seconds: float | None


class Startup(NamedTuple):
    """A measured start-up time."""

    seconds: float
    is_same_node: bool
    """Whether the instance ran on the same node before."""
    node: str
    """Empty if unknown."""


class Span(NamedTuple):
    """A period of time; open if it ends at infinity."""

    start: float
    end: float


class InstanceState(msgspec.Struct, kw_only=True, gc=False):
    """An instance after some transitions. Sums cover closed intervals; the open one begins at `since`."""

    admitted: float = nan
    running_seconds: float = 0.0
    discarded_seconds: float = 0.0
    """Part of `running_seconds`: runs that did not complete. For a batch instance, this time is lost."""
    paused_seconds: float = 0.0
    """Time between the completion of one incarnation and the creation of the next."""
    preemptions: int = 0
    preempted_startup_seconds: float = 0.0
    """Start-up times of the incarnations that were preempted."""
    since: float = nan
    """When it began to run or to wait."""
    runs: tuple[Run, ...] = ()
    """The incarnations that run: more than one while an instance is replaced; that time counts once."""
    pending: str = ""
    """The incarnation that was created last, while it waits."""
    last_node: str = ""
    completed: float = nan
    """When it completed, if nothing was created since."""
    withdrawn: float = nan
    """When it was withdrawn, if nothing was created since."""

    @property
    def incarnation(self) -> str:
        """The incarnation that started last, or else the one that waits; empty if there is neither."""
        return self.runs[-1].incarnation if self.runs else self.pending

    def ended(self, *, is_batch: bool) -> float:
        """When it was withdrawn, or completed as a batch instance; NaN if it runs or waits."""
        return self.completed if is_batch and isnan(self.withdrawn) else self.withdrawn


class Record(msgspec.Struct, gc=False):
    """All that is known about an instance: its state at the horizon, and the transitions since."""

    base: InstanceState | None = None
    horizon: float = -inf
    """Earlier transitions change nothing any more."""
    concurrent_seconds: float = 0.0
    """The time up to the horizon in which the instance ran together with all its siblings."""
    transitions: tuple[Transition, ...] = ()

    def add(self, new: Transition) -> bool:
        """Add a transition in the order of time; returns whether it is new."""
        if new.at < self.horizon or new in self.transitions:
            return False
        place = bisect_left(self.transitions, new.at, key=attrgetter("at"))
        self.transitions = (*self.transitions[:place], new, *self.transitions[place:])
        return True

    def incarnations(self) -> set[str]:
        """The incarnations that the record names."""
        known = {each.incarnation for each in self.transitions}
        if self.base is not None:
            known.update([self.base.pending, *(each.incarnation for each in self.base.runs)])
        return known - {""}

    def fold(self, before: float) -> None:
        """Move the horizon to a later time."""
        self.base = Replay(self.base, self.transitions, before).state
        self.transitions = tuple(each for each in self.transitions if each.at >= before)
        self.horizon = before


class Instance(msgspec.Struct, gc=False, eq=False):
    """An instance of a service, and what follows from its record."""

    slot: str
    record: Record
    state: InstanceState
    startups: tuple[Startup, ...] = ()
    """Start-up times in the transitions of the record."""
    concurrent_seconds: float = 0.0
    """The time in which it ran together with all its siblings, without the time in which all run now."""


class Replay:
    """The state of an instance after transitions in order of time, and its runs and start-up times."""

    def __init__(
        self, base: InstanceState | None, transitions: Sequence[Transition], before: float = inf
    ) -> None:
        """Apply the transitions before a time."""
        self.state = InstanceState() if base is None else msgspec.structs.replace(base)
        self.spans: list[Span] = []
        """The runs that ended."""
        self.startups: list[Startup] = []
        self._last_ends = {
            each.incarnation: each.at for each in transitions if each.kind is LifecycleKind.ENDED
        }
        group: list[Transition] = []
        for each in transitions:
            if each.at >= before:
                break
            if group and group[0].at != each.at:
                self._apply(group)
                group = []
            group.append(each)
        self._apply(group)

    def _apply(self, group: Sequence[Transition]) -> None:
        """Apply the transitions of one instant.

        A start and an end of one incarnation at the same instant leave it as it was: one that ran was
        restarted, one that did not run started and ended.
        """
        if len(group) > 1:
            running = {each.incarnation for each in self.state.runs}

            def order(each: Transition) -> tuple[int, str, int, float, str]:
                is_end = each.kind is LifecycleKind.ENDED
                rank = 0 if is_end and each.incarnation in running else _RANK[each.kind]
                # Of two reports of one event, the one with more details counts.
                seconds = -1.0 if each.startup_seconds is None else each.startup_seconds
                return rank, each.incarnation, _DETAIL[each.ending], -seconds, each.node

            group = sorted(group, key=order)
        for each in group:
            match each.kind:
                case LifecycleKind.WAITING | LifecycleKind.STARTED:
                    self._create(each)
                case LifecycleKind.ENDED if isnan(self.state.withdrawn):
                    self._end(each)
                case LifecycleKind.WITHDRAWN if isnan(self.state.withdrawn):
                    self._withdraw(each.at)

    def _create(self, each: Transition) -> None:
        """An incarnation waits, or runs."""
        if not isnan(self.state.withdrawn):
            # A slot that is wanted again is a new instance.
            self.state = InstanceState(last_node=self.state.last_node)
        state = self.state
        self._admit(each.at)
        if not isnan(state.completed):
            state.paused_seconds += each.at - state.completed
            state.completed, state.since = nan, each.at
        if any(run.incarnation == each.incarnation for run in state.runs):
            return
        # A slot has one incarnation at a time: the others ended, if that is not reported at a later time.
        for run in state.runs:
            if self._last_ends.get(run.incarnation, -inf) < each.at:
                self._close(run, each.at, None)
        if each.kind is LifecycleKind.WAITING:
            state.pending = each.incarnation
            return
        if state.pending == each.incarnation:
            state.pending = ""
        if not state.runs:
            state.since = each.at
        state.runs = (*state.runs, Run(each.incarnation, each.startup_seconds))
        if each.startup_seconds is not None:
            is_same_node = each.node != "" and each.node == state.last_node
            self.startups.append(Startup(each.startup_seconds, is_same_node, each.node))
        state.last_node = each.node or state.last_node

    def _end(self, each: Transition) -> None:
        state = self.state
        self._admit(each.at)
        if state.pending == each.incarnation:
            state.pending = ""
        for run in state.runs:
            if run.incarnation == each.incarnation:
                self._close(run, each.at, each.ending)
        is_idle = not state.runs and not state.pending
        if each.ending is Ending.COMPLETED and is_idle and isnan(state.completed):
            state.completed = each.at

    def _withdraw(self, at: float) -> None:
        self._admit(at)
        for run in self.state.runs:
            self._close(run, at, None)
        self.state.pending, self.state.withdrawn = "", at

    def _admit(self, at: float) -> None:
        if isnan(self.state.admitted):
            self.state.admitted = self.state.since = at

    def _close(self, run: Run, at: float, ending: Ending | None) -> None:
        state = self.state
        state.runs = tuple(each for each in state.runs if each is not run)
        if ending is Ending.PREEMPTED:
            state.preemptions += 1
            state.preempted_startup_seconds += run.startup_seconds or 0.0
        if state.runs:
            return
        state.running_seconds += at - state.since
        if ending is not Ending.COMPLETED:
            state.discarded_seconds += at - state.since
        self.spans.append(Span(state.since, at))
        state.since = at


_RANK = {kind: rank for rank, kind in enumerate(LifecycleKind, 1)}
_DETAIL = {Ending.PREEMPTED: 0, Ending.COMPLETED: 1, Ending.FAILED: 2, Ending.LOST: 3, None: 4}
