"""The state of an instance, computed from the transitions of its incarnations.

The result depends on the set of transitions only. A missing transition changes the interval that it would
have bounded and nothing else: an incarnation without an end runs until the next one of its slot is created.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan, nan
from typing import NamedTuple

from collector.features.promises.ledger.events import Ending, LifecycleKind, Transition


class Run(NamedTuple):
    """An incarnation that runs."""

    node: str
    startup_seconds: float | None


class Startup(NamedTuple):
    """A measured start-up time."""

    at: float
    seconds: float
    is_same_node: bool
    """Whether the instance ran on the same node before."""
    node: str = ""
    """Empty if unknown."""


class Span(NamedTuple):
    """A period of time; open if it ends at infinity."""

    start: float
    end: float


@dataclass(slots=True, kw_only=True)
class InstanceState:
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
    runs: dict[str, Run] = field(default_factory=dict)
    """The incarnations that run: more than one while an instance is replaced; that time counts once."""
    pending: str = ""
    """The incarnation that was created last, while it waits."""
    last_node: str = ""
    completed: float = nan
    """When it completed, if nothing was created since."""
    withdrawn: float = nan
    """When it was withdrawn, if nothing was created since."""

    @property
    def is_running(self) -> bool:
        return bool(self.runs)

    @property
    def is_completed(self) -> bool:
        return not isnan(self.completed)

    @property
    def is_vacant(self) -> bool:
        """Whether the slot is wanted and has no incarnation."""
        return not self.runs and not self.pending and isnan(self.withdrawn)

    @property
    def incarnation(self) -> str:
        """The incarnation that started last, or else the one that waits; empty if there is neither."""
        return next(reversed(self.runs)) if self.runs else self.pending

    @property
    def node(self) -> str:
        """The node that it runs on; empty while it waits."""
        return self.runs[self.incarnation].node if self.runs else ""


@dataclass(slots=True)
class RunLog:
    """The runs and start-up times in a sequence of transitions."""

    spans: list[Span] = field(default_factory=list)
    startups: list[Startup] = field(default_factory=list)


def apply_transitions(
    base: InstanceState | None,
    transitions: Sequence[Transition],
    log: RunLog | None = None,
    *,
    before: float = inf,
) -> InstanceState:
    """The state after `base` and the transitions before a time, which are in order of time.

    Adds the runs and start-up times to `log`.
    """
    state = InstanceState() if base is None else replace(base, runs=dict(base.runs))
    step = _Step(state, _last_ends(transitions), RunLog() if log is None else log)
    group: list[Transition] = []
    for each in transitions:
        if each.at >= before:
            break
        if group and group[0].at != each.at:
            step.apply_all(group)
            group = []
        group.append(each)
    step.apply_all(group)
    return state


def _last_ends(transitions: Iterable[Transition]) -> dict[str, float]:
    return {each.incarnation: each.at for each in transitions if each.kind is LifecycleKind.ENDED}


@dataclass(slots=True)
class _Step:
    state: InstanceState
    last_ends: Mapping[str, float]
    log: RunLog

    def apply_all(self, group: Sequence[Transition]) -> None:
        """Apply the transitions of one instant.

        A start and an end of one incarnation at the same instant leave it as it was: one that ran was
        restarted, one that did not run started and ended.
        """
        if len(group) == 1:
            _APPLY[group[0].kind](self, group[0])
            return
        running = frozenset(self.state.runs)

        def order(each: Transition) -> tuple[int, str, int, float, str]:
            is_end = each.kind is LifecycleKind.ENDED
            rank = 0 if is_end and each.incarnation in running else _RANK[each.kind]
            # Of two reports of one event, the one with more details counts.
            seconds = -1.0 if each.startup_seconds is None else each.startup_seconds
            return rank, each.incarnation, _DETAIL[each.ending], -seconds, each.node

        for each in sorted(group, key=order):
            _APPLY[each.kind](self, each)

    def wait(self, each: Transition) -> None:
        self._admit(each.at)
        if each.incarnation not in self.state.runs:
            self._supersede(each)
            self.state.pending = each.incarnation

    def start(self, each: Transition) -> None:
        self._admit(each.at)
        state = self.state
        if each.incarnation in state.runs:
            return
        self._supersede(each)
        if state.pending == each.incarnation:
            state.pending = ""
        if not state.runs:
            state.since = each.at
        state.runs[each.incarnation] = Run(each.node, each.startup_seconds)
        if each.startup_seconds is not None:
            is_same_node = each.node != "" and each.node == state.last_node
            self.log.startups.append(Startup(each.at, each.startup_seconds, is_same_node, each.node))
        state.last_node = each.node or state.last_node

    def end(self, each: Transition) -> None:
        state = self.state
        if not isnan(state.withdrawn):
            return
        if isnan(state.admitted):
            state.admitted = state.since = each.at
        if state.pending == each.incarnation:
            state.pending = ""
        if each.incarnation in state.runs:
            self._close(each.incarnation, each.at, each.ending)
        is_idle = not state.runs and not state.pending
        if each.ending is Ending.COMPLETED and is_idle and isnan(state.completed):
            state.completed = each.at

    def withdraw(self, each: Transition) -> None:
        state = self.state
        if not isnan(state.withdrawn):
            return
        if isnan(state.admitted):
            state.admitted = state.since = each.at
        for incarnation in list(state.runs):
            self._close(incarnation, each.at, None)
        state.pending, state.withdrawn = "", each.at

    def _admit(self, at: float) -> None:
        """Admit an instance, or resume one that completed."""
        state = self.state
        if not isnan(state.withdrawn):
            # A slot that is wanted again is a new instance.
            for name in InstanceState.__dataclass_fields__:
                setattr(state, name, getattr(InstanceState(last_node=state.last_node), name))
        if isnan(state.admitted):
            state.admitted = state.since = at
        if not isnan(state.completed):
            state.paused_seconds += at - state.completed
            state.completed, state.since = nan, at

    def _supersede(self, by: Transition) -> None:
        """End the other incarnations whose end was not reported: a slot has one at a time."""
        for incarnation in list(self.state.runs):
            if self.last_ends.get(incarnation, -inf) < by.at:
                self._close(incarnation, by.at, None)

    def _close(self, incarnation: str, at: float, ending: Ending | None) -> None:
        state = self.state
        run = state.runs.pop(incarnation)
        if ending is Ending.PREEMPTED:
            state.preemptions += 1
            state.preempted_startup_seconds += run.startup_seconds or 0.0
        if state.runs:
            return
        state.running_seconds += at - state.since
        if ending is not Ending.COMPLETED:
            state.discarded_seconds += at - state.since
        self.log.spans.append(Span(state.since, at))
        state.since = at


_RANK = {
    LifecycleKind.WAITING: 1,
    LifecycleKind.STARTED: 2,
    LifecycleKind.ENDED: 3,
    LifecycleKind.WITHDRAWN: 4,
}
_DETAIL = {Ending.PREEMPTED: 0, Ending.COMPLETED: 1, Ending.FAILED: 2, Ending.LOST: 3, None: 4}
_APPLY = {
    LifecycleKind.WAITING: _Step.wait,
    LifecycleKind.STARTED: _Step.start,
    LifecycleKind.ENDED: _Step.end,
    LifecycleKind.WITHDRAWN: _Step.withdraw,
}
