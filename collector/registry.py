"""Who is there now: the last words of every node, in memory.

Pure: no clock, no I/O. Reports may come twice, late and in any order. Within one run of an agent they are
put together by `picture`; of two runs the later one counts, by the times that the node gave them. Clocks
may lie, so a run that has gone silent yields to any other: a node that comes back with its clock reset is
not shut out.

A new run starts with an empty picture: what an earlier one said of the node's containers is not believed,
since nobody watched them in between. The first word of a run is a heartbeat, so this lasts for a moment;
should that word be lost, the node is listed as not complete until the next. Usage outlives the runs: it is
about the containers, and adds up whoever counted it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from collector.alerts import Alerts, AlertSaid
from collector.answers import AlertState, Container, Node, NodeAlert, Ratios, State
from collector.config import Liveness
from collector.history.interface import Standing, Used
from collector.picture import Picture, Said
from collector.usage import PLAIN_RECKONING, Reckoning, Ring, count, settle, slot_at
from wire.messages import ContainerState, ContainerUsage, NodeState, PowerCurve, Report
from wire.resources import RESOURCES, Quantities, ratio

_MISSED_BEACONS = 3
_NOTHING_SAID = NodeState(used=Quantities(), capacity=Quantities())
_NOTHING_COUNTED = Ring()


@dataclass(slots=True)
class _Entry:
    """What is known of one node."""

    picture: Picture
    heard_at: float
    """When any report of this node last came in."""
    beacon_seconds: float = 0.0
    """As the last heartbeat of any run said."""
    alerts: Alerts = field(default_factory=Alerts)
    usage: dict[str, Ring] = field(default_factory=dict)


class Registry:
    """Nodes, their containers and their alerts."""

    def __init__(self, liveness: Liveness, reckoning: Reckoning = PLAIN_RECKONING) -> None:
        self._silent_after_seconds = liveness.silent_after_seconds
        self._forget_after_seconds = liveness.forget_after_hours * 3600
        self._reckoning = reckoning
        self._entries: dict[str, _Entry] = {}

    def apply(self, report: Report, received_at: float) -> bool:
        """Take in a report that is new; says whether it is ahead of one of its run that has not come yet.

        The usage in its heartbeat is left to `count_usage`, as it may be much.
        """
        entry = self._entries.get(report.node)
        if entry is None:
            entry = _Entry(Picture(report.boot, received_at), received_at)
            self._entries[report.node] = entry
        entry.heard_at = max(entry.heard_at, received_at)
        for alert in report.alerts:
            entry.alerts.take(AlertSaid(report.node, report.boot, report.sequence, alert))
        if report.boot != entry.picture.boot:
            if not self._replaces(report, received_at, entry):
                return False
            entry.picture = Picture(report.boot, received_at)
        ahead = entry.picture.merge(report, received_at)
        if entry.picture.heartbeat is not None:
            entry.beacon_seconds = entry.picture.heartbeat.what.beacon_seconds
        return ahead

    def count_usage(self, node: str, slot: int, usage: Sequence[ContainerUsage]) -> None:
        """Add up what containers of a node that is already here used."""
        count(self._entries[node].usage, slot, usage, self._reckoning)

    def restore(self, alerts: Iterable[AlertSaid], usage: Iterable[Used]) -> None:
        """Know again what the nodes that are already here said before."""
        for said in alerts:
            if entry := self._entries.get(said.node):
                entry.alerts.take(said)
        rings: dict[tuple[str, str], Ring] = {}
        for used in usage:
            if entry := self._entries.get(used.node):
                ring = entry.usage.setdefault(used.container, Ring())
                ring.slots[used.slot] = used.packed
                rings[used.node, used.container] = ring
        settle(list(rings.values()), self._reckoning)

    def _replaces(self, report: Report, received_at: float, entry: _Entry) -> bool:
        current = entry.picture
        if received_at - current.heard_at > self._patience_seconds(entry):
            return True
        # Two runs at the very same time: any order will do, as long as it is always the same.
        return (report.at, report.boot) > (current.newest.at, current.boot)

    def tidy(self, now: float) -> None:
        """Drop the nodes silent for too long to be listed, and the usage of containers long gone."""
        self._entries = {
            name: entry
            for name, entry in self._entries.items()
            if now - entry.heard_at <= self._forget_after_seconds
        }
        slot = slot_at(now)
        for entry in self._entries.values():
            running = entry.picture.containers
            entry.usage = {
                name: ring for name, ring in entry.usage.items() if name in running or ring.newest >= slot
            }

    def nodes(self, now: float, *, node: str | None = None) -> list[Node]:
        """Nodes by name; all, or one."""
        return [self._node(name, entry, now) for name, entry in sorted(self._asked(node))]

    def power_curve(self, node: str) -> PowerCurve | None:
        """How a node that is here answers to load, as its last heartbeat said; None if it did not."""
        heartbeat = self._entries[node].picture.heartbeat
        return None if heartbeat is None else heartbeat.what.power_curve

    def containers(self, now: float, *, node: str | None = None, name: str | None = None) -> list[Container]:
        """Containers by name, then by node and id; all, or those of one node or of one name."""
        found = [
            _container(said, host, self._state(entry, now), entry.usage.get(said.what.id, _NOTHING_COUNTED))
            for host, entry in self._asked(node)
            for said in entry.picture.containers.values()
            if name is None or said.what.name == name
        ]
        return sorted(found, key=lambda container: (container.name, container.node, container.id))

    def alerts(self, now: float, *, state: AlertState | None = None) -> list[NodeAlert]:
        """Alerts in one state, or all: the open ones first, then the latest first."""
        found = [
            _alert(said, AlertState.OPEN if is_open else AlertState.CLOSED, self._state(entry, now))
            for entry in self._entries.values()
            for said, is_open in entry.alerts.listed(entry.picture.boot)
        ]
        listed = [alert for alert in found if state in (None, alert.state)]
        listed.sort(
            key=lambda alert: (alert.state is AlertState.CLOSED, -alert.opened_at, alert.node, alert.resource)
        )
        return listed

    def standings(self, now: float, *, node: str | None = None) -> list[Standing]:
        """Where the nodes that are up stand; all, or one."""
        return [
            Standing(name, entry.picture.boot, entry.picture.newest.at)
            for name, entry in self._asked(node)
            if self._state(entry, now) is State.UP
        ]

    def count(self, now: float) -> dict[State, int]:
        """How many nodes there are in each state."""
        states = [self._state(entry, now) for entry in self._entries.values()]
        return {state: states.count(state) for state in State}

    def container_count(self) -> int:
        return sum(len(entry.picture.containers) for entry in self._entries.values())

    def alert_count(self) -> dict[AlertState, int]:
        """How many alerts are listed in each state."""
        are_open = [
            is_open
            for entry in self._entries.values()
            for _, is_open in entry.alerts.listed(entry.picture.boot)
        ]
        return {AlertState.OPEN: are_open.count(True), AlertState.CLOSED: are_open.count(False)}

    def _asked(self, node: str | None) -> Iterator[tuple[str, _Entry]]:
        if node is None:
            yield from self._entries.items()
        elif entry := self._entries.get(node):
            yield node, entry

    def _state(self, entry: _Entry, now: float) -> State:
        return State.SILENT if now - entry.heard_at > self._patience_seconds(entry) else State.UP

    def _patience_seconds(self, entry: _Entry) -> float:
        """A node that was told to speak seldom is not silent between two of its words."""
        return max(self._silent_after_seconds, _MISSED_BEACONS * entry.beacon_seconds)

    def _node(self, name: str, entry: _Entry, now: float) -> Node:
        picture = entry.picture
        state = _NOTHING_SAID if picture.state is None else picture.state.what
        heartbeat = None if picture.heartbeat is None else picture.heartbeat.what
        return Node(
            name=name,
            state=self._state(entry, now),
            boot=picture.boot,
            complete=picture.is_complete,
            sampled_at=None if picture.state is None else picture.state.at,
            window_seconds=None if picture.state is None else state.window_seconds,
            last_seen_seconds_ago=max(0.0, now - entry.heard_at),
            agent_version=None if heartbeat is None else heartbeat.agent_version,
            sample_seconds=None if heartbeat is None else heartbeat.sample_seconds,
            beacon_seconds=None if heartbeat is None else heartbeat.beacon_seconds,
            used=state.used,
            capacity=state.capacity,
            learned_capacities=state.learned_capacities,
            used_ratio=Ratios(*(ratio(state.used, state.capacity, resource) for resource in RESOURCES)),
            pressure=state.pressure,
            power=state.power,
            load_1m=state.load_1m,
            frequency_hertz=state.frequency_hertz,
            iowait_ratio=state.iowait_ratio,
            steal_ratio=state.steal_ratio,
            swap_used_bytes=state.swap_used_bytes,
            disk_busy_ratio=state.disk_busy_ratio,
            oom_kills_total=state.oom_kills_total,
            gaps=state.gaps,
            top={} if heartbeat is None else heartbeat.top,
            containers=len(picture.containers),
            mean=None,
        )


def _container(said: Said[ContainerState], node: str, node_state: State, ring: Ring) -> Container:
    container = said.what
    return Container(
        node=node,
        node_state=node_state,
        id=container.id,
        name=container.name,
        runtime=container.runtime,
        image=container.image,
        service=container.service,
        labels=container.labels,
        cpu_seconds_total=container.cpu_seconds_total,
        cpu_throttled_seconds_total=container.cpu_throttled_seconds_total,
        oom_kills_total=container.oom_kills_total,
        restarts=container.restarts,
        used=container.used,
        limit=container.limit,
        pressure=container.pressure,
        power=container.power,
        started_at=container.started_at,
        sampled_at=said.at,
        window_seconds=container.window_seconds,
        p90=ring.p90,
        p90_samples=ring.samples,
        mean=None,
    )


def _alert(said: AlertSaid, state: AlertState, node_state: State) -> NodeAlert:
    alert = said.alert
    return NodeAlert(
        node=said.node,
        node_state=node_state,
        state=state,
        resource=alert.resource,
        opened_at=alert.opened_at,
        closed_at=alert.closed_at,
        evidence=alert.evidence,
        ratio=alert.ratio,
        pressure_ratio=alert.pressure_ratio,
        container=alert.container,
        name=alert.name,
    )
