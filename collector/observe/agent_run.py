"""The state of one node, merged from the reports of one run of its agent.

A report carries only what changed. The report with the highest sequence number counts: for the state of the
node, and for each container, whether it runs or is gone. A heartbeat lists all containers: one that it leaves
out, and that no newer report mentions, is gone. So the next heartbeat repairs what was lost on the way, late
reports do no harm, and the order in which reports arrive does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from collector.history.interface import MOST_GONE, MOST_REPORTS
from wire.messages import ContainerState, Heartbeat, NodeState, PowerCurve, Report

Part = TypeVar("Part")


class Reported(msgspec.Struct, Generic[Part], frozen=True, gc=False):
    """A part of a report, with its sequence number and its time by the node's clock.

    Every heartbeat replaces those of all containers. None has a reference cycle, so the garbage collector may
    skip them.
    """

    sequence: int
    at: float
    value: Part


class NodeChanges(msgspec.Struct, frozen=True, gc=False):
    """What a report changed on its node. None means unchanged."""

    state: NodeState | None = None
    containers: Sequence[ContainerState] = ()
    """New and changed containers."""
    gone: Sequence[str] = ()
    """Ids of the containers that ended."""
    images: Sequence[str] | None = None
    """Names of the images on the node."""
    is_new_run: bool = False
    """Whether the agent restarted: the state of its earlier run is void."""
    is_ahead: bool = False
    """Whether an earlier report of the run is still missing."""


NO_CHANGES = NodeChanges()


@dataclass(slots=True)
class AgentRun:
    """A node, as one run of its agent reports it."""

    boot: str
    last_report_at: float
    """When its last report arrived, by the collector's clock."""
    newest: Reported[None] = field(default=Reported(0, 0.0, None))
    """The newest report of any kind."""
    state: Reported[NodeState] | None = None
    heartbeat: Reported[Heartbeat] | None = None
    images_sequence: int = 0
    """Sequence of the newest report with images."""
    containers: dict[str, Reported[ContainerState]] = field(default_factory=dict)
    """The running containers, by id."""
    _gone: dict[str, int] = field(default_factory=dict)
    """The sequence of the report, since the last heartbeat: a late report must not bring a container back."""
    _received: set[int] = field(default_factory=set)
    """The sequences after that of the last heartbeat."""

    def merge(self, report: Report, received_at: float) -> NodeChanges:
        """Merge a report of this run; returns what it changed."""
        is_ahead = bool(self.newest.sequence) and report.sequence > self.newest.sequence + 1
        self.last_report_at = max(self.last_report_at, received_at)
        if report.sequence > self.newest.sequence:
            self.newest = Reported(report.sequence, report.at, None)
        state = None
        if report.state is not None and (self.state is None or report.sequence > self.state.sequence):
            self.state = Reported(report.sequence, report.at, report.state)
            state = report.state
        images = None
        if report.images is not None and report.sequence >= self.images_sequence:
            self.images_sequence = report.sequence
            images = report.images
        containers, gone = self._merge_newest(report) if report.sequence > self.complete_until else ([], [])
        return NodeChanges(state, containers, gone, images, is_ahead=is_ahead)

    @property
    def power_curve(self) -> PowerCurve | None:
        """From its last heartbeat."""
        return None if self.heartbeat is None else self.heartbeat.value.power_curve

    @property
    def complete_until(self) -> int:
        """The sequence of the last heartbeat: earlier reports no longer count for containers."""
        return 0 if self.heartbeat is None else self.heartbeat.sequence

    def _start_from(self, heartbeat: Reported[Heartbeat]) -> None:
        self.heartbeat = heartbeat
        self._received = {sequence for sequence in self._received if sequence > heartbeat.sequence}
        self._gone = {
            name: sequence for name, sequence in self._gone.items() if sequence > heartbeat.sequence
        }
        self.containers = {
            name: each for name, each in self.containers.items() if each.sequence > heartbeat.sequence
        }

    def _merge_newest(self, report: Report) -> tuple[list[ContainerState], list[str]]:
        """Merge the containers of a report that is newer than the last heartbeat."""
        if report.heartbeat is None:
            if len(self._received) < MOST_REPORTS:
                self._received.add(report.sequence)
            return self._merge_containers(report)
        before = self.containers
        # Usage is stored elsewhere, and is larger than all the rest.
        brief = msgspec.structs.replace(report.heartbeat, usage=())
        self._start_from(Reported(report.sequence, report.at, brief))
        changed, _ = self._merge_containers(report)
        return changed, [name for name in before if name not in self.containers]

    def _merge_containers(self, report: Report) -> tuple[list[ContainerState], list[str]]:
        """Merge the containers of a report; returns those that changed, and the ids of those that ended."""
        gone, changed = [], []
        for name in report.gone:
            if report.sequence >= self._newest_sequence(name):
                if self.containers.pop(name, None) is not None:
                    gone.append(name)
                if len(self._gone) < MOST_GONE:
                    self._gone[name] = report.sequence
        # A container that is both gone and running was restarted between two samples.
        for container in report.containers:
            if report.sequence >= self._newest_sequence(container.id):
                self._gone.pop(container.id, None)
                self.containers[container.id] = Reported(report.sequence, report.at, container)
                changed.append(container)
        return changed, [name for name in gone if name not in self.containers]

    def _newest_sequence(self, name: str) -> int:
        reported = self.containers.get(name)
        return self._gone.get(name, 0) if reported is None else reported.sequence

    @property
    def is_complete(self) -> bool:
        """Whether a heartbeat and every report since have arrived."""
        return self.heartbeat is not None and self.newest.sequence == self.heartbeat.sequence + len(
            self._received
        )
