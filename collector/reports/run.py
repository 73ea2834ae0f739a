"""What one run of a node's agent has said, put together: the same in whatever order its reports come.

Reports are sparse, so each part stands for itself, and of each part the word with the highest sequence
counts: of the node's state, and of every container, be it that it runs or that it is gone. A heartbeat
tells of all containers at once: one that is not in it, and of which nothing newer was said, is not there.
What was lost on the way is thereby healed by the next heartbeat, and what comes late harms nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from wire.messages import ContainerState, Heartbeat, NodeState, Report

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Reported(Generic[Part]):
    """A part of a report: what was said, with which sequence, and when by the node's clock."""

    sequence: int
    at: float
    what: Part


@dataclass(frozen=True, slots=True)
class Merged:
    """What a report changed in a picture."""

    ahead: bool
    """It is ahead of one that has not come yet."""
    state: NodeState | None
    """The state it brought, where that is the newest."""
    containers: Sequence[ContainerState]
    """Of what it said of containers, the last words on them."""
    gone: Sequence[str]
    """Ids of those that were there before it and are not any more."""


@dataclass(slots=True)
class AgentRun:
    """A node as one run of its agent describes it."""

    boot: str
    heard_at: float
    """When a report of this run last came in, by the collector's clock."""
    newest: Reported[None] = field(default=Reported(0, 0.0, None))
    """The last word, whatever it was about."""
    state: Reported[NodeState] | None = None
    heartbeat: Reported[Heartbeat] | None = None
    containers: dict[str, Reported[ContainerState]] = field(default_factory=dict)
    """Those that run, by id."""
    _gone: dict[str, int] = field(default_factory=dict)
    """The sequence that said so, since the last heartbeat: a late word must not bring one back."""
    _heard: set[int] = field(default_factory=set)
    """The sequences after the last heartbeat's that have come."""

    def merge(self, report: Report, received_at: float) -> Merged:
        """Take in a report of this run; says what it changed."""
        ahead = bool(self.newest.sequence) and report.sequence > self.newest.sequence + 1
        self.heard_at = max(self.heard_at, received_at)
        if report.sequence > self.newest.sequence:
            self.newest = Reported(report.sequence, report.at, None)
        state = None
        if report.state is not None and (self.state is None or report.sequence > self.state.sequence):
            self.state = Reported(report.sequence, report.at, report.state)
            state = report.state
        if report.sequence <= self.complete_until:
            return Merged(ahead, state, (), ())
        before = self.containers
        if report.heartbeat is not None:
            # Usage is added up elsewhere; kept here, it would outweigh all the rest.
            brief = msgspec.structs.replace(report.heartbeat, usage=())
            self._begin_anew(Reported(report.sequence, report.at, brief))
            containers, _ = self._merge_containers(report)
            return Merged(ahead, state, containers, [name for name in before if name not in self.containers])
        self._heard.add(report.sequence)
        containers, gone = self._merge_containers(report)
        return Merged(ahead, state, containers, gone)

    @property
    def complete_until(self) -> int:
        """The sequence of the last heartbeat: an earlier word about containers tells nothing any more."""
        return 0 if self.heartbeat is None else self.heartbeat.sequence

    def _begin_anew(self, heartbeat: Reported[Heartbeat]) -> None:
        self.heartbeat = heartbeat
        self._heard = {sequence for sequence in self._heard if sequence > heartbeat.sequence}
        self._gone = {
            name: sequence for name, sequence in self._gone.items() if sequence > heartbeat.sequence
        }
        self.containers = {
            name: said for name, said in self.containers.items() if said.sequence > heartbeat.sequence
        }

    def _merge_containers(self, report: Report) -> tuple[list[ContainerState], list[str]]:
        """Take in the last words on containers; gives those that told something, and those that went."""
        gone, told = [], []
        for name in report.gone:
            if report.sequence >= self._last_word_on(name):
                if self.containers.pop(name, None) is not None:
                    gone.append(name)
                self._gone[name] = report.sequence
        # One that is both gone and there was started anew between two looks.
        for container in report.containers:
            if report.sequence >= self._last_word_on(container.id):
                self._gone.pop(container.id, None)
                self.containers[container.id] = Reported(report.sequence, report.at, container)
                told.append(container)
        return told, [name for name in gone if name not in self.containers]

    def _last_word_on(self, name: str) -> int:
        said = self.containers.get(name)
        return self._gone.get(name, 0) if said is None else said.sequence

    @property
    def is_complete(self) -> bool:
        """Whether a heartbeat has come, and every report since."""
        return self.heartbeat is not None and self.newest.sequence == self.heartbeat.sequence + len(
            self._heard
        )
