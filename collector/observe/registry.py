"""The registry: the last reported state of every node, in memory.

Pure: no clock, no I/O. Reports may come twice, late and in any order. `AgentRun` merges the reports of one
run of an agent. Of two runs the later one wins, by the node's own time stamps. Clocks may be wrong, so a run
that missed its beacons yields to any other: a node that comes back with its clock reset is not shut out.

A new run starts empty: containers that an earlier run reported may have ended unnoticed. The first report of
a run is a heartbeat, so this lasts for a moment; if that report is lost, the node is incomplete until the
next one. Usage outlives the runs, as it belongs to the containers.

A machine that was renamed is recognised by its containers, whose ids no other machine has: once the old name
is down and a new one reports most of its containers, the old name is removed and its usage goes to the new
one. A machine without containers counts as new, and its old name is removed after
`liveness.forget_after_hours`.

Every change goes to the live tables at once, for the policies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from collector.analysis.usage import UsageWeights
from collector.common.liveness import Liveness
from collector.common.reported_alerts import AlertState, ReportedAlert
from collector.config import CollectorConfig
from collector.history.interface import WindowEnd, is_pulled
from collector.observe.agent_run import NO_CHANGES, AgentRun, NodeChanges
from collector.observe.entries import AlertEntry, NodeEntry, ServiceEnergy, ServicePower, TrackedNode
from collector.observe.limits.node_account import Limit
from collector.observe.limits.node_limits import NodeLimits
from collector.observe.live_tables import LiveTables
from collector.observe.parts import AnyLivePart
from collector.observe.probes import ResponseTimes
from collector.observe.updates import Succession
from collector.observe.usage.cluster import ClusterUsage
from wire.messages import ContainerState, EventKind, Report

_FAILURES = (EventKind.DIED, EventKind.OUT_OF_MEMORY)


class Registry:
    """Nodes, their containers and their alerts."""

    def __init__(self, config: CollectorConfig, own_host: str = "") -> None:
        """`own_host` is the host name of the collector; empty if it is on none of the nodes."""
        self._forget_after_seconds = config.liveness.forget_after_hours * 3600
        self._entries: dict[str, TrackedNode] = {}
        self._alerting: dict[str, TrackedNode] = {}
        """The nodes that have reported alerts: few of a large cluster."""
        self._out_of_memory: dict[tuple[str, str], float] = {}
        self.tables = LiveTables(config, own_host)
        self.usage = ClusterUsage(self._entries, self.tables, UsageWeights.of(config.envelopes))
        self.parts = self.tables.parts
        self.probes = ResponseTimes()
        self.service_energy = ServiceEnergy()
        self.liveness = self.tables.liveness
        self.limits = NodeLimits(config.limits, self.usage)

    def part(self, kind: type[AnyLivePart]) -> AnyLivePart:
        """What a feature keeps about the cluster."""
        return next(each for each in self.parts if isinstance(each, kind))

    def apply(self, report: Report, received_at: float) -> bool:
        """Apply a new report; returns whether an earlier one of its run is still missing.

        The usage in its heartbeat is left to `usage.add`, as it may be much.
        """
        entry = self._entries.get(report.node) or self._add(report, received_at)
        entry.last_report_at = max(entry.last_report_at, received_at)
        for alert in report.alerts:
            self._alerting[report.node] = entry
            entry.alerts.add(ReportedAlert(report.node, report.boot, report.sequence, alert))
        failures = sum(event.kind in _FAILURES for event in report.events)
        before = entry.run
        self._note_out_of_memory(report, before)
        if report.boot != before.boot:
            if not self._replaces(report, received_at, entry):
                self._write(report.node, NO_CHANGES, failures)
                return False
            if report.boot == entry.previous_boot:
                # A run that ended does not come back: two agents report under this name.
                entry.duplicate_at = received_at
            entry.previous_boot = before.boot
            entry.run = AgentRun(report.boot, received_at)
        run = entry.run
        changes = run.merge(report, received_at)
        if run.heartbeat is not None:
            entry.beacon_seconds = run.heartbeat.value.beacon_seconds
        if run is not before:
            gone = [name for name in before.containers if name not in run.containers]
            changes = structs.replace(changes, is_new_run=True, gone=gone)
        new = self._write(report.node, changes, failures)
        if report.alerts or report.heartbeat or changes.is_new_run:
            self.tables.put_alerts(report.node, entry.open_alerts())
        started = [run.containers[name].value for name in new]
        for part in self.parts:
            part.apply(report, received_at, changes, started)
        if report.probes:
            surplus = self.probes.add(report.node, report.probes, received_at, report.at)
            self.limits.refuse(report.node, Limit.BYTES, received_at, surplus)
        return changes.is_ahead

    def _add(self, report: Report, received_at: float) -> TrackedNode:
        run = AgentRun(report.boot, received_at)
        entry = TrackedNode(run, self.usage.new_tracker(), received_at, received_at)
        self._entries[report.node] = entry
        return entry

    def _note_out_of_memory(self, report: Report, run: AgentRun) -> None:
        killed = {each.container for each in report.events if each.kind is EventKind.OUT_OF_MEMORY}
        for name in killed and killed - self.tables.unconfirmed(report.node):
            reported = run.containers.get(name or "")
            service = None if reported is None else reported.value.service
            if reported is not None and service:
                had = max(reported.value.limit.memory_bytes or 0, reported.value.used.memory_bytes or 0)
                if run.state is not None and (capacity := run.state.value.capacity.memory_bytes):
                    # A limit can be above what the node has.
                    had = min(had, capacity)
                key = service, report.node
                self._out_of_memory[key] = max(had, self._out_of_memory.get(key, 0))

    def take_out_of_memory(self) -> Mapping[tuple[str, str], float]:
        """The kills since the last call: the most memory of a container, by service and node."""
        taken, self._out_of_memory = self._out_of_memory, {}
        return taken

    def is_other_machine(self, report: Report, now: float) -> bool:
        """Whether a report comes from another machine than the one that has the name of its node.

        The name is free again when the machine that has it is down.
        """
        entry = self._entries.get(report.node)
        if entry is None or report.boot == entry.run.boot or entry.machine is None or is_pulled(report):
            return False
        if self._liveness(entry, now) is Liveness.DOWN:
            return False
        if not entry.is_other_machine(report):
            return False
        entry.duplicate_at = now
        return True

    def machines(self) -> dict[str, str | None]:
        """The machine that each node reported last; None if it is unknown."""
        return {name: entry.machine for name, entry in self._entries.items()}

    def duplicates(self, since: float) -> list[str]:
        """The nodes under whose name two agents reported since a time."""
        return [name for name, entry in self._entries.items() if entry.duplicate_at >= since]

    def apply_beacons(self, nodes: Sequence[str], received_at: float) -> None:
        """Apply reports of nodes that only show that they are up."""
        for node in nodes:
            entry = self._entries[node]
            entry.last_report_at = max(entry.last_report_at, received_at)
            entry.run.last_report_at = max(entry.run.last_report_at, received_at)
        self.tables.apply_beacons(nodes, received_at)

    def _write(self, node: str, changes: NodeChanges, failures: int) -> list[str]:
        """Update the live tables, with the usage of new containers where an earlier run reported it.

        Returns the ids of new containers.
        """
        new = self.tables.apply(node, self._entries[node], changes, failures)
        if new:
            self.usage.note_change(node)
        if changes.gone:
            self.usage.note_ended(node, changes.gone)
        self.usage.note_started(node, new)
        return new

    def add_successions(self, successions: Iterable[Succession]) -> None:
        """Let containers continue their predecessors in moves, as soon as they run."""
        successions = list(successions)
        for part in self.parts:
            part.add_successions(successions)
        self.usage.add_successions(successions)

    def restore(self, alerts: Iterable[ReportedAlert]) -> None:
        """Restore the alerts of existing nodes from the history."""
        restored = {}
        for each in alerts:
            if entry := self._entries.get(each.node):
                self._alerting[each.node] = entry
                entry.alerts.add(each)
                restored[each.node] = entry
        for node, entry in restored.items():
            self.tables.put_alerts(node, entry.open_alerts())

    def names(self) -> list[str]:
        """All nodes, in no particular order."""
        return list(self._entries)

    def nodes(self, now: float, *, node: str | None = None, since: str = "") -> Iterator[NodeEntry]:
        """Nodes by name: all, those from a name on, or one."""
        found = [each for each in self._select(node) if each[0] >= since]
        for name, entry in sorted(found, key=lambda each: each[0]):
            yield NodeEntry(name, self._liveness(entry, now), entry.last_report_at, entry.run, entry.usage)

    def _replaces(self, report: Report, received_at: float, entry: TrackedNode) -> bool:
        current = entry.run
        if self._liveness(entry, received_at, current.last_report_at) is not Liveness.UP:
            return True
        # Runs with the same time stamp need some fixed order.
        return (report.at, report.boot) > (current.newest.at, current.boot)

    def drop_old(self, now: float) -> dict[str, str]:
        """Remove nodes without reports for too long, renamed nodes, and the usage of containers long gone.

        Returns the new names of renamed nodes, by their old ones.
        """
        for name, entry in list(self._entries.items()):
            # A node that was switched off sends no reports, and may be switched on again.
            silent_since = max(entry.last_report_at, self.liveness.restored_at)
            if now - silent_since > self._forget_after_seconds and not self.tables.is_off(name):
                self.remove(name)
        renamed = self._renamed(now)
        for old, new in renamed.items():
            self.usage.take_over(new, old)
            self.remove(old)
        self.usage.drop_old(now)
        self.probes.drop_old(now)
        return renamed

    def silent_nodes(self, now: float) -> dict[str, float]:
        """The nodes that are down, and the time of their last report.

        After a restart, nodes have time to report again.
        """
        return {
            name: entry.last_report_at
            for name, entry in self._entries.items()
            if self._liveness(entry, now, max(entry.last_report_at, self.liveness.restored_at))
            is Liveness.DOWN
        }

    def running_containers(self, nodes: Iterable[str]) -> dict[str, list[ContainerState]]:
        """The last reported states of the running containers of these nodes, by node."""
        return {
            name: [each.value for each in self._entries[name].run.containers.values()]
            for name in nodes
            if name in self._entries
        }

    def service_powers(self, now: float) -> list[ServicePower]:
        """Power of the services on nodes that are not down, and their energy since the start."""
        return self.service_energy.update(self.tables.service_watts(now), now)

    def remove(self, name: str) -> None:
        """Remove a node, and all that only it reported."""
        del self._entries[name]
        self._alerting.pop(name, None)
        self.limits.forget(name)
        self.usage.note_change(name)
        for part in self.parts:
            part.remove(name)
        self.tables.remove(name)

    def _renamed(self, now: float) -> dict[str, str]:
        """The new names of renamed nodes, by their old ones."""
        renamed = {}
        for name, entry in self._entries.items():
            if not entry.run.containers or self._liveness(entry, now) is not Liveness.DOWN:
                continue
            for new_name, shared in self.tables.nodes_sharing_containers(name).items():
                new = self._entries[new_name]
                is_later = (
                    # Any node can report any container, but only the renamed one has its machine.
                    new.machine == entry.machine
                    and new.first_report_at > entry.last_report_at
                    and self._liveness(new, now) is not Liveness.DOWN
                )
                if is_later and 2 * shared > len(entry.run.containers):
                    renamed[name] = new_name
        return renamed

    def alerts(self, now: float, *, state: AlertState | None = None) -> list[AlertEntry]:
        """Alerts in one state, or all, in no particular order."""
        return [
            AlertEntry(reported, of_alert, self._liveness(entry, now))
            for entry, reported, of_alert in self._alerts()
            if state in (None, of_alert)
        ]

    def _alerts(self) -> Iterator[tuple[TrackedNode, ReportedAlert, AlertState]]:
        for entry in self._alerting.values():
            for reported, is_open in entry.alerts.listed(entry.run.boot, entry.run.complete_until):
                yield entry, reported, AlertState.OPEN if is_open else AlertState.CLOSED

    def window_ends(self, now: float, *, node: str | None = None) -> list[WindowEnd]:
        """The run and the time of the last report of each node that is not down; all nodes, or one."""
        return [
            WindowEnd(name, entry.run.boot, entry.run.newest.at)
            for name, entry in self._select(node)
            if self._liveness(entry, now) is not Liveness.DOWN
        ]

    def node_count(self, now: float) -> dict[Liveness, int]:
        """How many nodes are up, suspect and down."""
        found = [self._liveness(entry, now) for entry in self._entries.values()]
        return {liveness: found.count(liveness) for liveness in Liveness}

    def container_ids(self) -> set[str]:
        """The ids of all containers, and of those that they replaced."""
        running = {name for entry in self._entries.values() for name in entry.run.containers}
        return running | self.usage.successors().keys()

    def container_count(self) -> int:
        return sum(len(entry.run.containers) for entry in self._entries.values())

    def alert_count(self) -> dict[AlertState, int]:
        """How many alerts are listed in each state."""
        found = [state for _, _, state in self._alerts()]
        return {state: found.count(state) for state in AlertState}

    def _select(self, node: str | None) -> Iterator[tuple[str, TrackedNode]]:
        if node is None:
            yield from self._entries.items()
        elif entry := self._entries.get(node):
            yield node, entry

    def _liveness(self, entry: TrackedNode, now: float, since: float | None = None) -> Liveness:
        """Whether a node is up; `since` replaces the time of its last report of any run."""
        last_report_at = entry.last_report_at if since is None else since
        return self.liveness.of(now, last_report_at, entry.beacon_seconds)
