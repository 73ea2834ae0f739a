"""Who is there now: the last word of every node, in memory.

Pure: no clock, no I/O. Reports may come twice, late and in any order. Within one boot of an agent the
highest sequence is the newest; between two boots it is the later sample. Clocks may lie, so a boot that
has gone silent yields to any other: a node that comes back with its clock reset is not shut out.
"""

from dataclasses import dataclass

from collector.answers import Container, Node, Ratios, State
from collector.config import Liveness
from wire.messages import ContainerState, Report
from wire.resources import RESOURCES, ratio

_MISSED_INTERVALS = 3


@dataclass(slots=True)
class _Entry:
    """What is known of one node."""

    report: Report
    received_at: float
    """When `report` came in."""
    heard_at: float
    """When any report of this node last came in."""


class Registry:
    """Nodes and their containers."""

    def __init__(self, liveness: Liveness) -> None:
        self._silent_after_seconds = liveness.silent_after_seconds
        self._forget_after_seconds = liveness.forget_after_hours * 3600
        self._entries: dict[str, _Entry] = {}

    def apply(self, report: Report, received_at: float) -> None:
        """Take in a report; one that is older than what is known says only that the node is alive."""
        entry = self._entries.get(report.node)
        if entry is None:
            self._entries[report.node] = _Entry(report, received_at, heard_at=received_at)
            return
        entry.heard_at = max(entry.heard_at, received_at)
        if self._replaces(report, received_at, entry):
            entry.report, entry.received_at = report, received_at

    def _replaces(self, report: Report, received_at: float, entry: _Entry) -> bool:
        current = entry.report
        if report.boot == current.boot:
            return report.sequence > current.sequence
        if received_at - entry.received_at > self._patience_seconds(current):
            return True
        # Two boots at the very same time: any order will do, as long as it is always the same.
        return (report.at, report.boot) > (current.at, current.boot)

    def forget_silent(self, now: float) -> None:
        """Drop the nodes that have been silent for too long to be listed."""
        self._entries = {
            name: entry
            for name, entry in self._entries.items()
            if now - entry.heard_at <= self._forget_after_seconds
        }

    def nodes(self, now: float) -> list[Node]:
        """Every node, by name."""
        return [self._node(entry, now) for _, entry in sorted(self._entries.items())]

    def containers(self, now: float, *, node: str | None = None, name: str | None = None) -> list[Container]:
        """Containers by name, then by node and id; all, or those of one node or of one name."""
        entries = self._entries.values() if node is None else filter(None, [self._entries.get(node)])
        found = [
            self._container(container, entry, now)
            for entry in entries
            for container in entry.report.containers
            if name is None or container.name == name
        ]
        return sorted(found, key=lambda container: (container.name, container.node, container.id))

    def count(self, now: float) -> dict[State, int]:
        """How many nodes there are in each state."""
        states = [self._state(entry, now) for entry in self._entries.values()]
        return {state: states.count(state) for state in State}

    def container_count(self) -> int:
        return sum(len(entry.report.containers) for entry in self._entries.values())

    def _state(self, entry: _Entry, now: float) -> State:
        silent = now - entry.heard_at > self._patience_seconds(entry.report)
        return State.SILENT if silent else State.UP

    def _patience_seconds(self, report: Report) -> float:
        """A node that was told to speak seldom is not silent between two of its words."""
        return max(self._silent_after_seconds, _MISSED_INTERVALS * report.interval_seconds)

    def _node(self, entry: _Entry, now: float) -> Node:
        report, state = entry.report, entry.report.state
        return Node(
            name=report.node,
            state=self._state(entry, now),
            boot=report.boot,
            sampled_at=report.at,
            last_seen_seconds_ago=max(0.0, now - entry.heard_at),
            agent_version=report.agent_version,
            interval_seconds=report.interval_seconds,
            used=state.used,
            capacity=state.capacity,
            used_ratio=Ratios(*(ratio(state.used, state.capacity, resource) for resource in RESOURCES)),
            pressure=state.pressure,
            power=state.power,
            gaps=state.gaps,
            containers=len(report.containers),
            mean=None,
        )

    def _container(self, container: ContainerState, entry: _Entry, now: float) -> Container:
        return Container(
            node=entry.report.node,
            node_state=self._state(entry, now),
            id=container.id,
            name=container.name,
            runtime=container.runtime,
            image=container.image,
            service=container.service,
            cpu_seconds_total=container.cpu_seconds_total,
            used=container.used,
            limit=container.limit,
            pressure=container.pressure,
            power=container.power,
            started_at=container.started_at,
            sampled_at=entry.report.at,
            mean=None,
        )
