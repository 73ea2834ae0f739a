"""The life of one instance, computed from the transitions of its incarnations.

The result depends on the set of transitions only. A missing transition changes the interval that it would
have bounded and nothing else: an incarnation without an end runs until the next one of its slot is created.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan, nan
from typing import NamedTuple

from collector.slo.events import Ending, LifecycleKind


class Transition(NamedTuple):
    """An event, without the names of its service and slot."""

    at: float
    kind: LifecycleKind
    incarnation: str
    node: str
    """Empty if unknown."""
    startup_seconds: float | None
    ending: Ending | None


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
    """A time in which the instance ran."""

    start: float
    end: float


@dataclass(slots=True, kw_only=True)
class Life:
    """An instance after some transitions. Sums are of closed intervals; the open one begins at `since`."""

    admitted: float = nan
    running_seconds: float = 0.0
    discarded_seconds: float = 0.0
    """Part of `running_seconds`: of runs that did not complete. It is lost if the instance is a batch one."""
    paused_seconds: float = 0.0
    """Between the completion of one incarnation and the creation of the next."""
    preemptions: int = 0
    preempted_startup_seconds: float = 0.0
    """Start-up times of the incarnations that were preempted."""
    since: float = nan
    """When it began to run or to wait."""
    runs: dict[str, Run] = field(default_factory=dict)
    """By incarnation. More than one while an instance is replaced; that time counts once."""
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
class Trace:
    """What a replay of transitions observes on its way."""

    spans: list[Span] = field(default_factory=list)
    startups: list[Startup] = field(default_factory=list)


def replay(
    base: Life | None,
    transitions: Sequence[Transition],
    trace: Trace | None = None,
    *,
    before: float = inf,
) -> Life:
    """Continue a life with the transitions before a time; all are in order of time."""
    life = Life() if base is None else replace(base, runs=dict(base.runs))
    step = _Step(life, _last_ends(transitions), Trace() if trace is None else trace)
    group: list[Transition] = []
    for each in transitions:
        if each.at >= before:
            break
        if group and group[0].at != each.at:
            step.apply_all(group)
            group = []
        group.append(each)
    step.apply_all(group)
    return life


def _last_ends(transitions: Iterable[Transition]) -> dict[str, float]:
    return {each.incarnation: each.at for each in transitions if each.kind is LifecycleKind.ENDED}


@dataclass(slots=True)
class _Step:
    life: Life
    last_ends: Mapping[str, float]
    trace: Trace

    def apply_all(self, group: Sequence[Transition]) -> None:
        """Apply the transitions of one instant.

        A start and an end of one incarnation at the same instant leave it as it was: one that ran was
        restarted, one that did not run started and ended.
        """
        if len(group) == 1:
            _APPLY[group[0].kind](self, group[0])
            return
        running = frozenset(self.life.runs)

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
        if each.incarnation not in self.life.runs:
            self._supersede(each)
            self.life.pending = each.incarnation

    def start(self, each: Transition) -> None:
        self._admit(each.at)
        life = self.life
        if each.incarnation in life.runs:
            return
        self._supersede(each)
        if life.pending == each.incarnation:
            life.pending = ""
        if not life.runs:
            life.since = each.at
        life.runs[each.incarnation] = Run(each.node, each.startup_seconds)
        if each.startup_seconds is not None:
            is_same_node = each.node != "" and each.node == life.last_node
            self.trace.startups.append(Startup(each.at, each.startup_seconds, is_same_node, each.node))
        life.last_node = each.node or life.last_node

    def end(self, each: Transition) -> None:
        life = self.life
        if not isnan(life.withdrawn):
            return
        if isnan(life.admitted):
            life.admitted = life.since = each.at
        if life.pending == each.incarnation:
            life.pending = ""
        if each.incarnation in life.runs:
            self._close(each.incarnation, each.at, each.ending)
        if each.ending is Ending.COMPLETED and not life.runs and not life.pending and isnan(life.completed):
            life.completed = each.at

    def withdraw(self, each: Transition) -> None:
        life = self.life
        if not isnan(life.withdrawn):
            return
        if isnan(life.admitted):
            life.admitted = life.since = each.at
        for incarnation in list(life.runs):
            self._close(incarnation, each.at, None)
        life.pending, life.withdrawn = "", each.at

    def _admit(self, at: float) -> None:
        """Begin a life, or resume one that completed."""
        life = self.life
        if not isnan(life.withdrawn):
            # A slot that is wanted again is a new instance.
            for name in Life.__dataclass_fields__:
                setattr(life, name, getattr(Life(last_node=life.last_node), name))
        if isnan(life.admitted):
            life.admitted = life.since = at
        if not isnan(life.completed):
            life.paused_seconds += at - life.completed
            life.completed, life.since = nan, at

    def _supersede(self, by: Transition) -> None:
        """End the other incarnations whose end was not reported: a slot has one at a time."""
        for incarnation in list(self.life.runs):
            if self.last_ends.get(incarnation, -inf) < by.at:
                self._close(incarnation, by.at, None)

    def _close(self, incarnation: str, at: float, ending: Ending | None) -> None:
        life = self.life
        run = life.runs.pop(incarnation)
        if ending is Ending.PREEMPTED:
            life.preemptions += 1
            life.preempted_startup_seconds += run.startup_seconds or 0.0
        if life.runs:
            return
        life.running_seconds += at - life.since
        if ending is not Ending.COMPLETED:
            life.discarded_seconds += at - life.since
        self.trace.spans.append(Span(life.since, at))
        life.since = at


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
