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

A container that was moved has a new id on its new node. Its usage does not change by that, so it continues
the windows and the samples of its predecessor: see `add_successions`.

Every change goes to the live tables at once, for the policies.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from collector.analysis.envelopes import Statistic
from collector.analysis.usage import ObservedContainer, UsageRing, UsageWeights, slot_at
from collector.common.liveness import Liveness, liveness_of
from collector.config import CollectorConfig
from collector.history.interface import UsageKey, UsageTotal, WindowEnd, is_pulled
from collector.live.admission import Admission
from collector.live.live_tables import LiveTables
from collector.live.successions import Successions
from collector.live.updates import ContainerChanges, NodeUpdate, Succession
from collector.live.usage_tracker import Inheritance, UsageTracker, inherit, update
from collector.reports.alerts import AlertState, NodeAlerts, ReportedAlert
from collector.reports.run import AgentRun
from wire.messages import Alert, ContainerState, ContainerUsage, EventKind, PowerCurve, Report
from wire.resources import RESOURCES

log = logging.getLogger(__name__)

_NO_USAGE = UsageRing()
_MOST_OTHER_BOOTS = 100
_FAILURES = (EventKind.DIED, EventKind.OUT_OF_MEMORY)


@dataclass(slots=True)
class _Entry:
    """One node."""

    run: AgentRun
    usage: UsageTracker
    first_report_at: float
    last_report_at: float
    """Of any run, by the collector's clock."""
    beacon_seconds: float = 0.0
    """From the last heartbeat of any run."""
    alerts: NodeAlerts = field(default_factory=NodeAlerts)
    other_boots: dict[str, None] = field(default_factory=dict)
    """Runs on another machine of the same name, which are refused."""
    previous_boot: str = ""
    duplicate_at: float = 0.0
    """When two agents were last noticed that report under this name."""

    @property
    def machine(self) -> str | None:
        """Of the present run; None if it is unknown."""
        return None if self.run.heartbeat is None else self.run.heartbeat.value.machine

    @property
    def sample_seconds(self) -> float:
        """Time between two samples of its agent; a second if it does not report it."""
        heartbeat = self.run.heartbeat
        return (0.0 if heartbeat is None else heartbeat.value.sample_seconds) or 1.0


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node and its containers at this moment. Do not keep it: the registry changes what it refers to."""

    name: str
    liveness: Liveness
    last_report_at: float
    """By the collector's clock."""
    run: AgentRun
    usage: Mapping[str, UsageRing]

    def usage_of(self, container: str) -> UsageRing:
        """The usage of one of its containers, by id; empty before its first histogram arrives."""
        return self.usage.get(container, _NO_USAGE)


@dataclass(frozen=True, slots=True)
class AlertEntry:
    """An alert that a node reported."""

    reported: ReportedAlert
    state: AlertState
    liveness: Liveness
    """Of the node."""


class Registry:
    """Nodes, their containers and their alerts."""

    def __init__(self, config: CollectorConfig, own_host: str = "") -> None:
        """`own_host` is the host name of the collector; empty if it is on none of the nodes."""
        self._limits = config.liveness
        self._forget_after_seconds = config.liveness.forget_after_hours * 3600
        self._weights = UsageWeights.of(config.envelopes)
        self._entries: dict[str, _Entry] = {}
        self._changed: set[str] = set()
        self._successions = Successions()
        self._started: list[Succession] = []
        """Of containers that just started to run."""
        self.tables = LiveTables(config, own_host)
        self.promises = self.tables.promises
        self.restored_at = 0.0
        """When reports were restored from the history. Since then, a node has time to report again."""
        self.admission = Admission(config.limits, self)

    def apply(self, report: Report, received_at: float) -> bool:
        """Apply a new report; returns whether an earlier one of its run is still missing.

        The usage in its heartbeat is left to `add_usage`, as it may be much.
        """
        is_ahead = self._apply(report, received_at)
        self._continue_started()
        return is_ahead

    def apply_all(self, reports: Iterable[Report], received_at: float) -> None:
        """Apply the reports of many nodes, as `apply` does."""
        for report in reports:
            self._apply(report, received_at)
        self._continue_started()

    def _apply(self, report: Report, received_at: float) -> bool:
        entry = self._entries.get(report.node)
        if entry is None:
            run = AgentRun(report.boot, received_at)
            entry = _Entry(run, UsageTracker(self._weights), received_at, received_at)
            self._entries[report.node] = entry
        entry.last_report_at = max(entry.last_report_at, received_at)
        for alert in report.alerts:
            entry.alerts.add(ReportedAlert(report.node, report.boot, report.sequence, alert))
        failures = sum(event.kind in _FAILURES for event in report.events)
        before = entry.run
        if report.boot != before.boot:
            if not self._replaces(report, received_at, entry):
                self._write(entry, _update(report.node, entry, failures=failures))
                return False
            if report.boot == entry.previous_boot:
                # A run that ended does not come back: there are two.
                entry.duplicate_at = received_at
            entry.previous_boot = before.boot
            entry.run = AgentRun(report.boot, received_at)
        run = entry.run
        times = self.promises.read_times(report, received_at, entry.sample_seconds)
        merged = run.merge(report, received_at)
        if run.heartbeat is not None:
            entry.beacon_seconds = run.heartbeat.value.beacon_seconds
        is_new_run = run is not before
        gone = (
            [name for name in before.containers if name not in run.containers] if is_new_run else merged.gone
        )
        update = NodeUpdate(
            node=report.node,
            last_report_at=entry.last_report_at,
            beacon_seconds=entry.beacon_seconds,
            state=merged.state,
            containers=merged.containers,
            gone=gone,
            curve=None if run.heartbeat is None else run.heartbeat.value.power_curve,
            failures=failures,
            is_new_run=is_new_run,
        )
        if report.alerts or report.heartbeat or is_new_run:
            update = _with_alerts(update, entry)
        new = self._write(entry, update)
        changes = ContainerChanges(
            new=[run.containers[name].value for name in new],
            changed=merged.containers,
            gone=gone,
            is_new_run=is_new_run,
        )
        self.promises.apply(report, times, changes)
        return merged.is_ahead

    def is_other_machine(self, report: Report, now: float) -> bool:
        """Whether a report comes from another machine than the one that has the name of its node.

        The name is free again when the machine that has it is down.
        """
        entry = self._entries.get(report.node)
        if entry is None or report.boot == entry.run.boot or entry.machine is None or is_pulled(report):
            return False
        if self._liveness(entry, now) is Liveness.DOWN:
            return False
        if report.heartbeat is not None and report.heartbeat.machine != entry.machine:
            entry.other_boots[report.boot] = None
            if len(entry.other_boots) > _MOST_OTHER_BOOTS:
                del entry.other_boots[next(iter(entry.other_boots))]
        elif report.boot not in entry.other_boots:
            return False
        entry.duplicate_at = now
        return True

    def is_taken(self, node: str, machine: str, now: float) -> bool:
        """Whether another machine reports as this node, or one that does not tell which it is."""
        entry = self._entries.get(node)
        if entry is None or entry.machine == machine:
            return False
        return self._liveness(entry, now) is not Liveness.DOWN

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

    def _write(self, entry: _Entry, update: NodeUpdate) -> list[str]:
        """Update the live tables, with the usage of new containers where an earlier run reported it.

        Returns the ids of new containers.
        """
        new = self.tables.apply(update)
        if new or update.gone:
            self._changed.add(update.node)
        self._put_envelopes(update.node, [name for name in new if name in entry.usage.rings])
        for name in new:
            self._start(update.node, name)
        return new

    def add_successions(self, successions: Iterable[Succession]) -> None:
        """Let containers continue the usage of those that they replaced in moves, as soon as they run."""
        successions = list(successions)
        self.promises.add_successions(successions)
        for each in successions:
            if self._successions.add(each):
                self.tables.put_successor(each)
                if self._is_running(each):
                    self._start(each.node, each.container)
        self._continue_started()

    def _is_running(self, succession: Succession) -> bool:
        entry = self._entries.get(succession.node)
        return entry is not None and succession.container in entry.run.containers

    def _start(self, node: str, container: str) -> None:
        """A container runs: let it continue its predecessor, if it has one."""
        if (succession := self._successions.start(node, container)) is not None:
            self.tables.inherit_windows(succession)
            self._started.append(succession)

    def _continue_started(self) -> None:
        if self._started:
            started, self._started = self._started, []
            self._inherit_usage(started)

    def _inherit_usage(self, successions: Sequence[Succession]) -> None:
        """Set what containers inherit, and those that replaced them in turn."""
        while successions:
            found = [(each, self._inheritance(each)) for each in successions]
            known = [(each, pair) for each, pair in found if pair is not None]
            changed = [known[place][0] for place in inherit([pair for _, pair in known])]
            for each in changed:
                self._note_update(each.node, [each.container])
            successions = self._successions.replaced(each.container for each in changed)

    def _inheritance(self, succession: Succession) -> Inheritance | None:
        before, after = self._entries.get(succession.from_node), self._entries.get(succession.node)
        if before is None or after is None:
            return None
        return Inheritance(before.usage, succession.predecessor, after.usage, succession.container)

    def _pass_on(self, usage: Iterable[ContainerUsage]) -> None:
        """Let the last samples of containers that were replaced count for their successors."""
        self._inherit_usage(self._successions.replaced(each.id for each in usage))

    def add_usage(self, key: UsageKey, usage: Sequence[ContainerUsage]) -> Iterator[None]:
        """Add the usage of a heartbeat, and pause after every few containers.

        Envelopes change only where there is much new usage: see `usage_tracker`.
        """
        for names in self._entries[key.node].usage.add_heartbeat(key, usage):
            self._note_update(key.node, names)
            yield
        self._pass_on(usage)

    def add_usages(self, heartbeats: Sequence[tuple[UsageKey, Sequence[ContainerUsage]]]) -> None:
        """Add the usage of the heartbeats of many nodes at once. They are not kept for the history."""
        due = []
        for key, usage in heartbeats:
            tracker = self._entries[key.node].usage
            due.append((key.node, tracker, tracker.collect(key.slot, usage)))
        update([(tracker, names) for _, tracker, names in due])
        for node, _, names in due:
            self._note_update(node, names)
        self._pass_on(each for _, usage in heartbeats for each in usage)

    def _note_update(self, node: str, containers: Sequence[str]) -> None:
        if containers:
            self._changed.add(node)
            self._put_envelopes(node, containers)

    def compact_usage(self, most_nodes: int) -> tuple[list[UsageKey], list[UsageTotal]]:
        """The heartbeats of some nodes whose usage the history can replace by totals, and these totals."""
        keys: list[UsageKey] = []
        totals: list[UsageTotal] = []
        for name, entry in self._entries.items():
            if not entry.usage.can_compact:
                continue
            of_node, total = entry.usage.compact(name)
            keys += of_node
            totals += total
            most_nodes -= 1
            if not most_nodes:
                break
        return keys, totals

    def shrink_usage(self, node: str, max_bytes: int) -> int:
        """Drop usage of ended containers until a node is within a size; returns its size after that."""
        entry = self._entries.get(node)
        return 0 if entry is None else entry.usage.shrink(entry.run.containers.keys(), max_bytes)

    def requeue_usage(self, keys: Iterable[UsageKey]) -> None:
        """The history could not replace these heartbeats: `compact_usage` returns them again."""
        for key in keys:
            if entry := self._entries.get(key.node):
                entry.usage.requeue(key)

    def restore(
        self,
        alerts: Iterable[ReportedAlert],
        totals: Iterable[UsageTotal],
        heartbeats: Iterable[tuple[UsageKey, Sequence[ContainerUsage]]] = (),
    ) -> None:
        """Restore the alerts and the usage of existing nodes from the history."""
        self._restore_alerts(alerts)
        for total in totals:
            if entry := self._entries.get(total.node):
                entry.usage.restore_total(total)
        by_slot: defaultdict[tuple[str, int], tuple[list[UsageKey], list[ContainerUsage]]]
        by_slot = defaultdict(lambda: ([], []))
        for key, usage in heartbeats:
            if key.node in self._entries:
                by_slot[key.node, key.slot][0].append(key)
                by_slot[key.node, key.slot][1].extend(usage)
        for (node, slot), (keys, usages) in by_slot.items():
            self._entries[node].usage.restore_heartbeats(slot, keys, usages)
        for node, entry in self._entries.items():
            try:
                entry.usage.settle()
            except Exception:
                log.exception("the stored usage of node %r is not valid: it starts without", node)
                entry.usage = UsageTracker(self._weights)
            self._put_envelopes(node, list(entry.usage.rings))
        for succession in self._successions:
            self._inherit_usage([succession])

    def _restore_alerts(self, alerts: Iterable[ReportedAlert]) -> None:
        nodes = set()
        for each in alerts:
            if entry := self._entries.get(each.node):
                entry.alerts.add(each)
                nodes.add(each.node)
        for node in nodes:
            entry = self._entries[node]
            self._write(entry, _with_alerts(_update(node, entry), entry))

    def _put_envelopes(self, node: str, containers: Sequence[str]) -> None:
        if not containers:
            return
        entry = self._entries[node]
        rings, sample_seconds = entry.usage.rings, entry.sample_seconds
        found = np.stack([rings[name].statistics for name in containers])
        variance = found[:, :, Statistic.VARIANCE]
        self.tables.put_envelopes(
            node,
            containers,
            envelope=found[:, :, Statistic.ENVELOPE],
            mean=found[:, :, Statistic.MEAN],
            variance=np.where(np.isnan(variance), 0.0, variance),
            observed_seconds=[rings[name].samples * sample_seconds for name in containers],
        )

    def names(self) -> list[str]:
        """All nodes, in no particular order."""
        return list(self._entries)

    def nodes(self, now: float, *, node: str | None = None, since: str = "") -> Iterator[NodeEntry]:
        """Nodes by name: all, those from a name on, or one."""
        for name, entry in _by_name(self._select(node), since):
            yield NodeEntry(
                name, self._liveness(entry, now), entry.last_report_at, entry.run, entry.usage.current()
            )

    def take_changed_nodes(self) -> set[str]:
        """The nodes for which `observed_containers` changed since the last call.

        Containers started or ended, or have new samples. A container that changes its service, which is rare,
        counts from its next samples on.
        """
        changed, self._changed = self._changed, set()
        return changed

    def observed_containers(self, node: str) -> list[ObservedContainer]:
        """The running containers of a node that belong to a service, with their usage.

        If an orchestrator runs the service, only the containers that it lists count.
        """
        entry = self._entries.get(node)
        if entry is None:
            return []
        sample_seconds, unconfirmed = entry.sample_seconds, self.tables.unconfirmed(node)
        observed = []
        for name, reported in entry.run.containers.items():
            state, ring = reported.value, entry.usage.rings.get(name, _NO_USAGE)
            if state.service and name not in unconfirmed:
                observed.append(
                    ObservedContainer(
                        node,
                        state.service,
                        state.image or "",
                        sample_seconds,
                        ring.parts,
                        ring.statistics,
                        ring.samples,
                    )
                )
        return observed

    def _replaces(self, report: Report, received_at: float, entry: _Entry) -> bool:
        current = entry.run
        if (
            liveness_of(self._limits, received_at - current.last_report_at, entry.beacon_seconds)
            is not Liveness.UP
        ):
            return True
        # Runs with the same time stamp need some fixed order.
        return (report.at, report.boot) > (current.newest.at, current.boot)

    def drop_old(self, now: float) -> dict[str, str]:
        """Remove nodes without reports for too long, renamed nodes, and the usage of containers long gone.

        Returns the new names of renamed nodes, by their old ones.
        """
        for name, entry in list(self._entries.items()):
            # A node that was switched off sends no reports, and may be switched on again.
            silent_since = max(entry.last_report_at, self.restored_at)
            if now - silent_since > self._forget_after_seconds and not self.tables.is_off(name):
                self._remove(name)
        renamed = self._renamed(now)
        for old, new in renamed.items():
            inherited = self._entries[new].usage.inherit(self._entries[old].usage)
            self._changed.add(new)
            self._put_envelopes(new, inherited)
            self._remove(old)
        slot = slot_at(now)
        for entry in self._entries.values():
            entry.usage.drop_ended(entry.run.containers.keys(), slot)
        self._drop_successions()
        return renamed

    def note_silence(self, now: float) -> None:
        """Let the promised containers of nodes that are down wait, from the last reports of these on.

        After a restart, nodes have time to report again.
        """
        silent = {
            name: entry.last_report_at
            for name, entry in self._entries.items()
            if liveness_of(
                self._limits, now - max(entry.last_report_at, self.restored_at), entry.beacon_seconds
            )
            is Liveness.DOWN
        }
        if silent:
            self.promises.note_silence(silent)

    def running_containers(self) -> dict[str, list[ContainerState]]:
        """The last reported states of all running containers, by node."""
        return {
            name: [each.value for each in entry.run.containers.values()]
            for name, entry in self._entries.items()
        }

    def _drop_successions(self) -> None:
        """Forget the successions whose containers are both gone."""
        for each in self._successions:
            before = self._entries.get(each.from_node)
            if not self._is_running(each) and (before is None or not before.usage.has(each.predecessor)):
                self._successions.drop(each)
                self.tables.drop_successor(each)

    def _remove(self, name: str) -> None:
        del self._entries[name]
        self.admission.forget(name)
        self._changed.add(name)
        self.promises.drop_node(name)
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

    def power_curve(self, node: str) -> PowerCurve | None:
        """The power curve from the last heartbeat of an existing node; None if it has none."""
        heartbeat = self._entries[node].run.heartbeat
        return None if heartbeat is None else heartbeat.value.power_curve

    def alerts(self, now: float, *, state: AlertState | None = None) -> list[AlertEntry]:
        """Alerts in one state, or all, in no particular order."""
        found = [
            AlertEntry(
                reported, AlertState.OPEN if is_open else AlertState.CLOSED, self._liveness(entry, now)
            )
            for entry in self._entries.values()
            for reported, is_open in entry.alerts.listed(entry.run.boot, entry.run.complete_until)
        ]
        return [alert for alert in found if state in (None, alert.state)]

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
        return running | {each.predecessor for each in self._successions}

    def container_count(self) -> int:
        return sum(len(entry.run.containers) for entry in self._entries.values())

    def alert_count(self) -> dict[AlertState, int]:
        """How many alerts are listed in each state."""
        are_open = [
            is_open
            for entry in self._entries.values()
            for _, is_open in entry.alerts.listed(entry.run.boot, entry.run.complete_until)
        ]
        return {AlertState.OPEN: are_open.count(True), AlertState.CLOSED: are_open.count(False)}

    def _select(self, node: str | None) -> Iterator[tuple[str, _Entry]]:
        if node is None:
            yield from self._entries.items()
        elif entry := self._entries.get(node):
            yield node, entry

    def _liveness(self, entry: _Entry, now: float) -> Liveness:
        return liveness_of(self._limits, now - entry.last_report_at, entry.beacon_seconds)


def _update(node: str, entry: _Entry, *, failures: int = 0) -> NodeUpdate:
    """An update that does not touch the run of a node."""
    return NodeUpdate(
        node=node,
        last_report_at=entry.last_report_at,
        beacon_seconds=entry.beacon_seconds,
        failures=failures,
    )


def _by_name(entries: Iterable[tuple[str, _Entry]], since: str) -> list[tuple[str, _Entry]]:
    return sorted((each for each in entries if each[0] >= since), key=lambda each: each[0])


def _with_alerts(update: NodeUpdate, entry: _Entry) -> NodeUpdate:
    """The update with the open alerts of its node, and the containers that they name."""
    alerts = entry.alerts.open_alerts(entry.run.boot, entry.run.complete_until)
    cpu, memory, disk, network = (alerts.get(resource) for resource in RESOURCES)
    return replace(
        update,
        bottleneck=(cpu is not None, memory is not None, disk is not None, network is not None),
        culprits=(_named_by(cpu), _named_by(memory), _named_by(disk), _named_by(network)),
    )


def _named_by(alert: Alert | None) -> str:
    return "" if alert is None else alert.container or ""
