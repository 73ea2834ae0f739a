"""Starts and ends of containers that nodes report.

Without an orchestrator, the labels of a container promise something to its service. Nothing but a move by the
collector connects containers of two nodes then: a container of a service that another node runs belongs to a
service of its own, NAME@NODE, so that no node changes the promises of another. With an orchestrator, a
container counts once it is listed on this node: what a node reports of others is ignored.

The clock of a node may be wrong, and a report may wait in a spool before it is sent. It never arrives before
it was made, so the shortest time from the making of a report to its receipt is how far the clock of the node
is behind: all its times are shifted by that. If the clock was set back, it is measured again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isinf, nextafter
from typing import NamedTuple

from collector.features.promises.ledger.events import Ending, LifecycleKind
from collector.features.promises.tracking.book import PromiseBook, TrackedContainer, TrackedService
from collector.observe.agent_run import NodeChanges
from collector.observe.updates import Succession
from wire.messages import ContainerState, EventKind, Report

_ORCHESTRATOR_LABELS = ("com.docker.swarm.service.id", "io.kubernetes.pod.name")
_ENDS = (EventKind.STOPPED, EventKind.DIED)
_SAMPLES_LATE = 2
"""An agent waits for an event of the runtime for one sample, after the one that shows the change."""


class ReportTimes(NamedTuple):
    """The time that a report is about, by the collector's clock."""

    since: float
    """The time of the report before: what is new happened since."""
    at: float
    """When it was made."""
    offset_seconds: float
    """How far the clock of the node is behind."""

    def of(self, at: float | None) -> float:
        """The time of something new, from its time by the clock of the node; None is unknown."""
        return self.at if at is None else min(max(at + self.offset_seconds, self.since), self.at)


@dataclass(slots=True)
class NodeTimes:
    """The clock of a node, and the time up to which it has reported."""

    boot: str = ""
    sequence: int = 0
    newest_at: float = -inf
    """The time of its newest report, by its own clock."""
    offset_seconds: float = inf
    reported_until: float | None = None
    """The time of its newest report, by the collector's clock; None before the first one."""
    sample_seconds: float = 1.0
    """Time between two samples of its agent; a second if it does not report it."""
    run_since: float = 0.0
    """The end of the run before: what a late report of this run contains happened since."""

    def read(self, report: Report, received_at: float) -> ReportTimes:
        """The times of a report, which is of the present run or begins a new one."""
        is_new_run = report.boot != self.boot
        is_newer = is_new_run or report.sequence > self.sequence
        if report.heartbeat is not None:
            self.sample_seconds = report.heartbeat.sample_seconds or 1.0
        if is_newer and report.at < self.newest_at:
            self.offset_seconds = inf
        self.offset_seconds = min(self.offset_seconds, received_at - report.at)
        at = min(report.at + self.offset_seconds, received_at)
        if self.reported_until is None:
            self.reported_until = at
        if is_new_run:
            self.boot, self.run_since, since = report.boot, self.reported_until, self.reported_until
        elif is_newer:
            since = max(self.run_since, self.reported_until - _SAMPLES_LATE * self.sample_seconds)
        else:
            since = self.run_since
        if is_newer:
            self.sequence, self.newest_at = report.sequence, report.at
            self.reported_until = max(self.reported_until, at)
        return ReportTimes(min(since, at), at, self.offset_seconds)


@dataclass(slots=True)
class ReportingNode:
    """A node, as far as its containers have promises."""

    times: NodeTimes = field(default_factory=NodeTimes)
    unlisted: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    """Containers that the orchestrator does not list yet: when they started, and how long that took."""
    is_silent: bool = False
    lost: list[str] = field(default_factory=list)
    """Containers that ran when it became silent."""
    tracked: int = 0
    """How many of its containers are tracked by their labels, at most."""


class ReportedContainers:
    """Applies reports to a book. Not thread-safe."""

    def __init__(self, book: PromiseBook, *, is_orchestrated: bool, max_containers: int) -> None:
        self._book = book
        self._is_orchestrated = is_orchestrated
        self._most_tracked = 2 * max_containers
        """Most tracked containers per node: those that run, and as many that have ended."""
        self._replayed: defaultdict[str, set[str]] = defaultdict(set)
        """Containers by node, during a replay."""
        self.nodes: defaultdict[str, ReportingNode] = defaultdict(ReportingNode)
        self.predecessors: dict[str, str] = {}
        """Which container replaced which in a move."""

    def apply(
        self, report: Report, times: ReportTimes, changes: NodeChanges, new: Sequence[ContainerState]
    ) -> None:
        """Apply the starts and ends of a report."""
        node = self.nodes[report.node]
        node.is_silent = False
        if node.lost:
            self._resume(report, times, is_new_run=changes.is_new_run)
        states = {each.id: each for each in report.containers} if report.events else {}
        for event in sorted(report.events, key=lambda each: each.at):
            if event.container is None:
                continue
            if event.kind is EventKind.STARTED:
                state = states.get(event.container)
                self._start(report.node, event.container, times.of(event.at), state, event.startup_seconds)
            elif event.kind in _ENDS:
                ending = Ending.COMPLETED if event.exit_code == 0 else None
                ending = Ending.FAILED if event.kind is EventKind.DIED else ending
                self._end(report.node, event.container, times.of(event.at), ending)
        for state in new:
            self._start(report.node, state.id, self._start_time(state, times), state)
        for state in changes.containers:
            # An agent may report a container before it knows its labels.
            is_tracked = state.id in self._book.containers
            if not is_tracked and self._book.may_promise(state.labels) and not self._awaits_listing(state):
                self._start(report.node, state.id, times.of(state.started_at), state)
        # A container that ended while the agent was down was last known to run at its last report.
        ended_at = times.since if changes.is_new_run else times.at
        for container in changes.gone:
            self._vanish(report.node, container, ended_at)

    def add_successions(self, successions: Iterable[Succession]) -> None:
        """Let containers that replace others in moves continue their instances."""
        tracked = self._book.containers
        for each in successions:
            self.predecessors[each.container] = each.predecessor
            before, after = tracked.get(each.predecessor), tracked.get(each.container)
            # Its node may have reported it before the move ended.
            if before is not None and after is not None and before.service != after.service:
                self._book.reassign(each.container, before.service, before.slot)

    def restore_lost(self) -> None:
        """Note the containers of a restored book whose nodes are silent."""
        for container, entry in self._book.containers.items():
            if entry.is_lost:
                self.nodes[entry.node].lost.append(container)

    def await_listing(self, node: str, times: ReportTimes, new: Sequence[ContainerState]) -> None:
        """Note the containers of a restored report that the orchestrator may list later."""
        for state in new:
            if state.id not in self._book.containers and self._awaits_listing(state):
                self.nodes[node].unlisted[state.id] = times.of(state.started_at), None

    def replay(self, report: Report, received_at: float, since: float) -> None:
        """Apply a stored report, without knowledge of the reports before it."""
        offset = self.nodes[report.node].times.offset_seconds
        offset = received_at - report.at if isinf(offset) else offset
        times = ReportTimes(since, max(since, min(report.at + offset, received_at)), offset)
        tracked = self._book.containers
        new = [
            each for each in report.containers if each.id not in tracked or not tracked[each.id].is_running
        ]
        gone = list(report.gone)
        if not self._replayed:
            for name, entry in tracked.items():
                self._replayed[entry.node].add(name)
        of_node = self._replayed[report.node]
        if report.heartbeat is not None:
            missing = of_node.difference(each.id for each in report.containers)
            gone += [name for name in missing if name in tracked and tracked[name].is_running]
        of_node.update(each.id for each in report.containers)
        # Of a report that came late, this is the end of an earlier run.
        late = {name for name in gone if name in tracked and tracked[name].since > times.at}
        changes = NodeChanges(gone=[name for name in gone if name not in late])
        self.apply(report, times, changes, new)
        for name in late:
            self._end(report.node, name, times.at)

    def reconcile(self, running: Mapping[str, Sequence[ContainerState]], now: float) -> None:
        """Start the containers that run and are not tracked; end those that are tracked and do not run."""
        self._replayed.clear()
        for node, states in running.items():
            for state in states:
                if state.id not in self._book.containers:
                    self._start(node, state.id, now, state)
        ids = {node: {each.id for each in states} for node, states in running.items()}
        for container, entry in list(self._book.containers.items()):
            if entry.is_running and entry.is_reported and container not in ids.get(entry.node, ()):
                until = self.nodes[entry.node].times.reported_until
                self._book.end(container, max(entry.since, now if until is None else until), Ending.LOST)

    def tidy(self) -> None:
        """Forget moves whose containers are both gone, and count the containers of each node again."""
        tracked = self._book.containers
        counts = Counter(entry.node for entry in tracked.values())
        for name, node in self.nodes.items():
            node.tracked = counts[name]
        self.predecessors = {
            after: before
            for after, before in self.predecessors.items()
            if after in tracked or before in tracked
        }

    def note_silence(self, silent: Mapping[str, float]) -> None:
        """Count containers of silent nodes as waiting since the last report of their node."""
        newly = {name for name in silent if not self.nodes[name].is_silent}
        if not newly:
            return
        for name in newly:
            self.nodes[name].is_silent = True
        for container, entry in self._book.containers.items():
            if entry.node in newly and entry.is_running and entry.is_reported:
                # Not at its start: an instance that starts and ends at one instant did not run.
                lost_at = max(silent[entry.node], nextafter(entry.since, inf))
                self._book.enter(entry, LifecycleKind.ENDED, lost_at, ending=Ending.LOST)
                entry.put(lost_at, is_lost=True)
                self.nodes[entry.node].lost.append(container)

    def _resume(self, report: Report, times: ReportTimes, *, is_new_run: bool) -> None:
        """A silent node reports again: the containers that ran all along did not wait after all."""
        node, listed = self.nodes[report.node], {each.id: each for each in report.containers}
        for container in node.lost:
            entry = self._book.containers.get(container)
            if entry is None or not entry.is_lost or entry.node != report.node:
                continue
            if is_new_run and container not in listed:
                continue
            started_at = listed[container].started_at if container in listed else None
            resumed_at = entry.since if started_at is None else started_at + times.offset_seconds
            self._book.run(container, max(entry.since, min(resumed_at, times.at)))
        node.lost = []

    def _start(
        self,
        node: str,
        container: str,
        at: float,
        state: ContainerState | None,
        startup_seconds: float | None = None,
    ) -> None:
        book = self._book
        entry = book.containers.get(container)
        if entry is None and state is not None:
            entry = self._identify(node, state)
            if entry is None and self._awaits_listing(state):
                self.nodes[node].unlisted.setdefault(state.id, (at, startup_seconds))
        if entry is None:
            return
        if entry.node != node:
            if entry.is_running or entry.is_listed:
                return  # it runs elsewhere, whatever this node reports
            entry.node = node
        entry.is_reported = True
        if entry.is_running and at >= entry.since:
            if startup_seconds is not None:
                book.enter(entry, LifecycleKind.STARTED, entry.since, startup_seconds=startup_seconds)
        elif not entry.is_running and at < entry.since:
            # A late report of a run that has ended.
            book.enter(entry, LifecycleKind.STARTED, at, startup_seconds=startup_seconds)
        else:
            book.run(container, at, startup_seconds)

    def _start_time(self, state: ContainerState, times: ReportTimes) -> float:
        """When a container that a node reports for the first time began to run."""
        entry = self._book.containers.get(state.id)
        if entry is not None and entry.is_lost and state.started_at is not None:
            # It ran all along, on a node that was renamed, or whose first report was lost.
            return min(max(state.started_at + times.offset_seconds, entry.since), times.at)
        return times.of(state.started_at)

    def _end(self, node: str, container: str, at: float, ending: Ending | None = None) -> None:
        self.nodes[node].unlisted.pop(container, None)
        entry = self._book.containers.get(container)
        if entry is not None and entry.node == node:
            self._book.end(container, at, ending)

    def _vanish(self, node: str, container: str, at: float) -> None:
        """A node no longer has a container; an event may have reported its end before."""
        entry = self._book.containers.get(container)
        if entry is not None and entry.node == node:
            if entry.is_running:
                # A new promise counts from when it is known, which may be after the end of a container.
                # An end at the time of the start would count as a restart.
                at = max(at, nextafter(entry.since, inf))
            elif entry.since <= at and not entry.is_lost:
                return
        self._end(node, container, at)

    def _awaits_listing(self, state: ContainerState) -> bool:
        """Whether a container counts only if the orchestrator lists it."""
        if not self._is_orchestrated:
            return False
        is_of_orchestrator = self._book.is_orchestrated(state.service or state.name)
        return is_of_orchestrator or any(label in state.labels for label in _ORCHESTRATOR_LABELS)

    def _identify(self, node: str, state: ContainerState) -> TrackedContainer | None:
        """Track a new container if its labels promise something."""
        book = self._book
        if not book.may_promise(state.labels):
            return None
        traits = book.traits(state.labels)
        if not traits.promise_class or self._awaits_listing(state):
            return None
        name = self._service_of(node, state)
        if self.nodes[node].tracked >= self._most_tracked:
            return None  # as with its other limits, a node cannot fill the memory with ever new names
        self.nodes[node].tracked += 1
        known = book.services.get(name)
        if known is None or (known.traits != traits and not self._runs_elsewhere(name, node)):
            book.set_service(name, TrackedService(traits, is_orchestrated=False))
        slot = book.ledger.slot_of(name, self.predecessors.get(state.id, ""))
        return book.add(state.id, TrackedContainer(node, name, state.id, slot))

    def _service_of(self, node: str, state: ContainerState) -> str:
        """The service that a new container belongs to."""
        before = self._book.containers.get(self.predecessors.get(state.id, ""))
        if before is not None:
            return before.service
        name = state.service or state.name
        while not self._is_free_for(node, name):
            name = f"{name}@{node}"
        return name

    def _is_free_for(self, node: str, name: str) -> bool:
        """Whether a service does not exist, or runs or ran on this node."""
        containers = self._book.containers_of(name)
        return not containers or any(self._book.containers[each].node == node for each in containers)

    def _runs_elsewhere(self, service: str, node: str) -> bool:
        """Whether other nodes run a service: a node does not change the promise of these."""
        entries = (self._book.containers[each] for each in self._book.containers_of(service))
        return any(entry.is_running and entry.node != node for entry in entries)
