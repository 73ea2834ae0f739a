"""Who is there now: the last words of every node, in memory.

Pure: no clock, no I/O. Reports may come twice, late and in any order. Within one run of an agent they are
put together by `run`; of two runs the later one counts, by the times that the node gave them. Clocks
may lie, so a run that has missed its beacons yields to any other: a node that comes back with its clock reset
is not shut out.

A new run starts with an empty run: what an earlier one said of the node's containers is not believed,
since nobody watched them in between. The first word of a run is a heartbeat, so this lasts for a moment;
should that word be lost, the node is listed as not complete until the next. Usage outlives the runs: it is
about the containers, and adds up whoever counted it.

A machine that was given another name is known by its containers, whose ids no other machine has: once the
old name is down and most of its containers are told of under a new one, the old is dropped, and what was
learnt under it goes on. Without containers it is a stranger, and the old name goes after a long silence.

What changes is written on the `board` at once, in columns, for those that decide.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from collector.analysis.envelopes import Statistic
from collector.analysis.usage import ObservedContainer, UsageRing, UsageWeights, add, count, settle, slot_at
from collector.common.liveness import Liveness, liveness_of
from collector.config import CollectorConfig
from collector.history.interface import UsageKey, UsageTotal, WindowEnd
from collector.live.board import LiveTables
from collector.live.changes import Change, Flags
from collector.reports.alerts import AlertState, NodeAlerts, ReportedAlert
from collector.reports.run import AgentRun
from wire.messages import ContainerState, ContainerUsage, EventKind, PowerCurve, Report
from wire.resources import RESOURCES

_NOTHING_COUNTED = UsageRing()
_FAILURES = (EventKind.DIED, EventKind.OUT_OF_MEMORY)
_BITE = 60
"""Containers: a node's usual number, as most of the cost is in starting, not in how many there are."""
_MOST_WORDS = 2
"""Words on usage that may wait to be replaced by their sum; to add them up takes time at a restart."""


@dataclass(slots=True)
class _Entry:
    """What is known of one node."""

    run: AgentRun
    first_heard_at: float
    heard_at: float
    """When any report of this node last came in."""
    beacon_seconds: float = 0.0
    """As the last heartbeat of any run said."""
    alerts: NodeAlerts = field(default_factory=NodeAlerts)
    usage: dict[str, UsageRing] = field(default_factory=dict)
    words: list[UsageKey] = field(default_factory=list)
    """Those that are in `usage` and not in the sums that the history holds."""
    counting: int = 0
    """Words that are in `usage` in part."""


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
        return self.usage.get(container, _NOTHING_COUNTED)


@dataclass(frozen=True, slots=True)
class AlertEntry:
    """An alert that a node reported."""

    reported: ReportedAlert
    state: AlertState
    liveness: Liveness
    """Of the node."""


class Registry:
    """Nodes, their containers and their alerts."""

    def __init__(self, config: CollectorConfig) -> None:
        self._limits = config.liveness
        self._forget_after_seconds = config.liveness.forget_after_hours * 3600
        self._reckoning = UsageWeights.of(config.envelopes)
        self._entries: dict[str, _Entry] = {}
        self._stirred: set[str] = set()
        self.tables = LiveTables(config)

    def apply(self, report: Report, received_at: float) -> bool:
        """Take in a report that is new; says whether it is ahead of one of its run that has not come yet.

        The usage in its heartbeat is left to `count_usage`, as it may be much.
        """
        entry = self._entries.get(report.node)
        if entry is None:
            entry = _Entry(AgentRun(report.boot, received_at), received_at, received_at)
            self._entries[report.node] = entry
        entry.heard_at = max(entry.heard_at, received_at)
        for alert in report.alerts:
            entry.alerts.take(ReportedAlert(report.node, report.boot, report.sequence, alert))
        failures = sum(event.kind in _FAILURES for event in report.events)
        before = entry.run
        if report.boot != before.boot:
            if not self._replaces(report, received_at, entry):
                self._write(entry, _change(report.node, entry, failures=failures))
                return False
            entry.run = AgentRun(report.boot, received_at)
        run = entry.run
        merged = run.merge(report, received_at)
        if run.heartbeat is not None:
            entry.beacon_seconds = run.heartbeat.what.beacon_seconds
        is_new_run = run is not before
        gone = (
            [name for name in before.containers if name not in run.containers] if is_new_run else merged.gone
        )
        change = Change(
            node=report.node,
            heard_at=entry.heard_at,
            beacon_seconds=entry.beacon_seconds,
            state=merged.state,
            containers=merged.containers,
            gone=gone,
            curve=None if run.heartbeat is None else run.heartbeat.what.power_curve,
            bottleneck=_open(entry) if report.alerts or report.heartbeat or is_new_run else None,
            failures=failures,
            is_new_run=is_new_run,
        )
        self._write(entry, change)
        return merged.ahead

    def _write(self, entry: _Entry, change: Change) -> None:
        """Put on the board what changed, and what is known already of containers that are new there."""
        new = self.tables.take(change)
        if new or change.gone:
            self._stirred.add(change.node)
        if new:
            self._put_envelopes(change.node, [name for name in new if name in entry.usage], entry.usage)

    def count_usage(self, node: str, slot: int, usage: Sequence[ContainerUsage]) -> None:
        """Add up what containers of a node that is already here used."""
        rings = self._entries[node].usage
        self._stirred.add(node)
        self._put_envelopes(node, count(rings, slot, usage, self._reckoning), rings)

    def hear_usage(self, word: UsageKey, usage: Sequence[ContainerUsage]) -> Iterator[None]:
        """Add up what a heartbeat said, in bites that others can have their turn between."""
        entry = self._entries[word.node]
        entry.counting += 1
        for start in range(0, len(usage), _BITE):
            self.count_usage(word.node, word.slot, usage[start : start + _BITE])
            yield
        # If this broke off, the history goes by the words themselves.
        entry.counting -= 1
        entry.words.append(word)

    def sums_due(self, at_most: int) -> tuple[list[UsageKey], list[UsageTotal]]:
        """What some nodes' usage adds up to, where that stands for many words, and which these are."""
        words: list[UsageKey] = []
        sums: list[UsageTotal] = []
        for name, entry in self._entries.items():
            if len(entry.words) < _MOST_WORDS or entry.counting:
                continue
            for slot in {word.slot for word in entry.words}:
                held = {key: ring.slots[slot] for key, ring in entry.usage.items() if slot in ring.slots}
                sums.append(UsageTotal(name, slot, held))
            words += entry.words
            entry.words = []
            at_most -= 1
            if not at_most:
                break
        return words, sums

    def put_back(self, words: Iterable[UsageKey]) -> None:
        """These are still to be added up."""
        for word in words:
            if entry := self._entries.get(word.node):
                entry.words.append(word)

    def restore(
        self,
        alerts: Iterable[ReportedAlert],
        usage: Iterable[UsageTotal],
        words: Iterable[tuple[UsageKey, Sequence[ContainerUsage]]] = (),
    ) -> None:
        """Know again what the nodes that are already here said before."""
        self._restore_alerts(alerts)
        for used in usage:
            if entry := self._entries.get(used.node):
                for container, packed in used.packed.items():
                    entry.usage.setdefault(container, UsageRing()).slots[used.slot] = packed
        together: defaultdict[tuple[str, int], list[ContainerUsage]] = defaultdict(list)
        for word, told in words:
            if entry := self._entries.get(word.node):
                together[word.node, word.slot] += told
                entry.words.append(word)
        for (node, slot), told in together.items():
            add(self._entries[node].usage, slot, told)
        for node, entry in self._entries.items():
            settle(list(entry.usage.values()), self._reckoning)
            self._put_envelopes(node, list(entry.usage), entry.usage)

    def _restore_alerts(self, alerts: Iterable[ReportedAlert]) -> None:
        alarmed = set()
        for said in alerts:
            if entry := self._entries.get(said.node):
                entry.alerts.take(said)
                alarmed.add(said.node)
        for node in alarmed:
            entry = self._entries[node]
            self._write(entry, _change(node, entry, bottleneck=_open(entry)))

    def _put_envelopes(self, node: str, containers: Sequence[str], rings: Mapping[str, UsageRing]) -> None:
        if not containers:
            return
        found = np.stack([rings[name].statistics for name in containers])
        variance = found[:, :, Statistic.VARIANCE]
        self.tables.put_envelopes(
            node,
            containers,
            envelope=found[:, :, Statistic.ENVELOPE],
            mean=found[:, :, Statistic.MEAN],
            variance=np.where(np.isnan(variance), 0.0, variance),
            samples=[rings[name].samples for name in containers],
        )

    def names(self) -> list[str]:
        """All nodes, in no particular order."""
        return list(self._entries)

    def nodes(self, now: float, *, node: str | None = None, since: str = "") -> Iterator[NodeEntry]:
        """Nodes by name: all, those from a name on, or one."""
        for name, entry in _by_name(self._asked(node), since):
            yield NodeEntry(name, self._liveness(entry, now), entry.heard_at, entry.run, entry.usage)

    def stirred(self) -> set[str]:
        """The nodes of which `watched` tells something else than when this was last asked.

        Containers came or went, or more is known of their use; should one be of another service, which is
        rare, that is seen when it next tells what it used.
        """
        stirred, self._stirred = self._stirred, set()
        return stirred

    def watched(self, node: str) -> list[ObservedContainer]:
        """The containers of services that run on a node, and what they used."""
        entry = self._entries.get(node)
        if entry is None:
            return []
        heartbeat = entry.run.heartbeat
        sample_seconds = 0.0 if heartbeat is None else heartbeat.what.sample_seconds
        return [
            _watched(node, said.what, sample_seconds or 1.0, entry.usage.get(name, _NOTHING_COUNTED))
            for name, said in entry.run.containers.items()
            if said.what.service
        ]

    def _replaces(self, report: Report, received_at: float, entry: _Entry) -> bool:
        current = entry.run
        if liveness_of(self._limits, received_at - current.heard_at, entry.beacon_seconds) is not Liveness.UP:
            return True
        # Two runs at the very same time: any order will do, as long as it is always the same.
        return (report.at, report.boot) > (current.newest.at, current.boot)

    def tidy(self, now: float) -> dict[str, str]:
        """Drop the nodes not heard of for too long, or renamed, and the usage of containers long gone.

        Gives the new names of those that were renamed, by their old ones.
        """
        for name, entry in list(self._entries.items()):
            # One that was switched off is silent on purpose: it waits to be woken.
            if now - entry.heard_at > self._forget_after_seconds and not self.tables.is_off(name):
                self._forget(name)
        renamed = self._renamed(now)
        for old, new in renamed.items():
            heir, legacy = self._entries[new], self._entries[old].usage
            inherited = legacy.keys() - heir.usage.keys()
            heir.usage |= {name: legacy[name] for name in inherited}
            self._stirred.add(new)
            self._put_envelopes(new, list(inherited), legacy)
            self._forget(old)
        slot = slot_at(now)
        for entry in self._entries.values():
            for name in entry.usage.keys() - entry.run.containers.keys():
                if entry.usage[name].newest < slot:
                    del entry.usage[name]
        return renamed

    def _forget(self, name: str) -> None:
        del self._entries[name]
        self._stirred.add(name)
        self.tables.forget(name)

    def _renamed(self, now: float) -> dict[str, str]:
        """The nodes that go on under another name, with that name."""
        renamed = {}
        for name, entry in self._entries.items():
            if not entry.run.containers or self._liveness(entry, now) is not Liveness.DOWN:
                continue
            for rival, shared in self.tables.rivals(name).items():
                heir = self._entries[rival]
                is_later = (
                    heir.first_heard_at > entry.heard_at and self._liveness(heir, now) is not Liveness.DOWN
                )
                if is_later and 2 * shared > len(entry.run.containers):
                    renamed[name] = rival
        return renamed

    def power_curve(self, node: str) -> PowerCurve | None:
        """How a node that is here answers to load, as its last heartbeat said; None if it did not."""
        heartbeat = self._entries[node].run.heartbeat
        return None if heartbeat is None else heartbeat.what.power_curve

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

    def standings(self, now: float, *, node: str | None = None) -> list[WindowEnd]:
        """Where the nodes that are not down stand; all, or one."""
        return [
            WindowEnd(name, entry.run.boot, entry.run.newest.at)
            for name, entry in self._asked(node)
            if self._liveness(entry, now) is not Liveness.DOWN
        ]

    def count(self, now: float) -> dict[Liveness, int]:
        """How many nodes are up, suspect and down."""
        found = [self._liveness(entry, now) for entry in self._entries.values()]
        return {liveness: found.count(liveness) for liveness in Liveness}

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

    def _asked(self, node: str | None) -> Iterator[tuple[str, _Entry]]:
        if node is None:
            yield from self._entries.items()
        elif entry := self._entries.get(node):
            yield node, entry

    def _liveness(self, entry: _Entry, now: float) -> Liveness:
        return liveness_of(self._limits, now - entry.heard_at, entry.beacon_seconds)


def _watched(
    node: str, container: ContainerState, sample_seconds: float, ring: UsageRing
) -> ObservedContainer:
    return ObservedContainer(
        node,
        container.service or "",
        container.image or "",
        sample_seconds,
        dict(ring.slots),
        ring.statistics,
        ring.samples,
    )


def _change(node: str, entry: _Entry, *, bottleneck: Flags | None = None, failures: int = 0) -> Change:
    """A change that leaves the run of a node as it is."""
    return Change(
        node=node,
        heard_at=entry.heard_at,
        beacon_seconds=entry.beacon_seconds,
        bottleneck=bottleneck,
        failures=failures,
    )


def _by_name(entries: Iterable[tuple[str, _Entry]], since: str) -> list[tuple[str, _Entry]]:
    return sorted((each for each in entries if each[0] >= since), key=lambda each: each[0])


def _open(entry: _Entry) -> Flags:
    """Which resources the node is short of."""
    short = entry.alerts.open_resources(entry.run.boot, entry.run.complete_until)
    cpu, memory, disk, network = (resource in short for resource in RESOURCES)
    return cpu, memory, disk, network
