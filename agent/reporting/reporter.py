"""What a node says, and when: little, but never so little that the collector is far from the truth. Pure.

At every tick it is given the whole picture and decides what of it is news: a window in which something moved,
a container that came, went or has another limit, an alert; now and then everything, and after a long silence
that the node lives. No clock, no I/O: times come with the picture.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from agent.config import ReportingConfig
from agent.reporting.lifecycle import ContainerChanges, ContainerTracker
from agent.reporting.messages import (
    CONTAINER_WIDTH,
    NODE_WIDTH,
    container_state,
    container_values,
    node_state,
    node_values,
)
from agent.reporting.usage import UsageTally, top_containers
from agent.reporting.windows import TumblingWindows, Values, WindowTracker
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sources.docker import RuntimeEvent
from wire.messages import (
    MAX_NAME_LENGTH,
    Alert,
    ContainerState,
    Event,
    EventKind,
    Heartbeat,
    NodeState,
    Report,
)
from wire.resources import RESOURCES, Quantities, Resource
from wire.version import __version__

_EARLY_RATIO = 0.1
"""No tick falls to the millisecond: what is due this part of a sample's time later is due now."""
_MAX_ENDED = 1000
"""When so many containers have ended since the last heartbeat, the next one does not wait for its time."""
_CPU = 0


class Reporter:
    """Speaks for one node during one run of its agent, and counts what it says."""

    def __init__(self, node: str, boot: str, push: ReportingConfig, sample_seconds: float) -> None:
        self._node = node[:MAX_NAME_LENGTH]
        self._boot = boot
        self._push = push
        self._sample_seconds = sample_seconds
        self._sequence = 0
        self._schedule: _Schedule | None = None
        self._tracker = ContainerTracker()
        self._host = WindowTracker(NODE_WIDTH, from_start=True)
        self._containers: dict[str, _Container] = {}
        self._ended: dict[str, UsageTally] = {}
        """What was used by containers that ended since the last heartbeat."""
        self._open_alerts: dict[Resource, Alert] = {}

    def report(
        self, sample: NodeSample, runtime_events: Sequence[RuntimeEvent], alerts: Sequence[Alert]
    ) -> Report | None:
        """What is to be said at this tick; None if there is nothing."""
        events: tuple[Event, ...] = ()
        is_first = self._schedule is None
        if self._schedule is None:
            self._schedule = _Schedule(self._node, self._push, self._sample_seconds, sample)
            events = (Event(EventKind.JOINED, sample.rates.unix_seconds),)
        due = self._schedule.due(sample.monotonic_seconds)
        changes = self._tracker.update(sample, runtime_events)
        self._track_containers(changes, is_first=is_first)
        full = is_first or due.heartbeat or len(self._ended) >= _MAX_ENDED
        state = self._state(sample, closes=due.host, full=full)
        containers = self._states(sample, set(changes.started), closes=due.containers, full=full)
        events += changes.events
        heartbeat = self._heartbeat(sample) if full else None
        reported_alerts = self._alerts(alerts, full=full)
        is_due = state or containers or changes.gone or events or reported_alerts or heartbeat
        if not is_due and not due.beacon:
            return None
        self._schedule.mark_sent(sample.monotonic_seconds)
        self._sequence += 1
        return Report(
            node=self._node,
            boot=self._boot,
            sequence=self._sequence,
            at=sample.rates.unix_seconds,
            state=state,
            containers=containers,
            gone=tuple(container_id[:MAX_NAME_LENGTH] for container_id in changes.gone),
            events=events,
            alerts=reported_alerts,
            heartbeat=heartbeat,
        )

    def final_report(self, sample: NodeSample) -> Report | None:
        """What is left to say when the agent stops: every sample that no heartbeat has told of yet."""
        if self._schedule is None:
            return None
        states = (
            container_state(container, *followed.track.latest())
            for container in sample.containers
            if (followed := self._containers.get(container.id))
        )
        self._sequence += 1
        return Report(
            node=self._node,
            boot=self._boot,
            sequence=self._sequence,
            at=sample.rates.unix_seconds,
            state=node_state(sample, *self._host.latest()),
            containers=tuple(states),
            alerts=self._alerts((), full=True),
            heartbeat=self._heartbeat(sample),
        )

    def _track_containers(self, changes: ContainerChanges, *, is_first: bool) -> None:
        """Begin to follow those that began, and stop with those that ended."""
        for container_id in changes.gone:
            self._ended[container_id] = self._containers.pop(container_id).tally
        for container_id in changes.started:
            # What was used under an id stays with it, through all its lives.
            before = self._containers.get(container_id)
            tally = before.tally if before else self._ended.pop(container_id, UsageTally())
            self._containers[container_id] = _Container(tally, from_start=is_first)

    def _state(self, sample: NodeSample, *, closes: bool, full: bool) -> NodeState | None:
        self._host.add(node_values(sample), sample.rates.interval_seconds)
        capacities = _capacities(sample.rates.capacity)
        is_due = closes and self._host.close(capacities, self._push.threshold_points)
        if not (is_due or full):
            return None
        state = node_state(sample, *self._host.latest())
        self._host.mark_reported(state.used, capacities)
        return state

    def _states(
        self, sample: NodeSample, started: set[str], *, closes: bool, full: bool
    ) -> tuple[ContainerState, ...]:
        capacity, seconds = sample.rates.capacity, sample.rates.interval_seconds
        states = []
        for container in sample.containers:
            followed = self._containers.get(container.id)
            if followed is None:
                continue  # it has ended; this is what it left
            track = followed.track
            limit, values = container.rates.limit, container_values(container)
            track.add(values, seconds)
            followed.tally.add(values, seconds)
            is_due = closes and track.close(_limits_or(container, capacity), self._push.threshold_points)
            # Who lowered or raised a limit waits to see that it holds.
            if is_due or full or followed.reported_limit not in {None, limit}:
                mean, window_seconds = track.latest()
            elif container.id in started or (values[_CPU] is not None and track.is_unreported(_CPU)):
                # Something is better than nothing until there is a window.
                mean, window_seconds = values, seconds
            else:
                continue
            state = container_state(container, mean, window_seconds)
            track.mark_reported(state.used, _limits_or(container, capacity))
            followed.reported_limit = limit
            states.append(state)
        return tuple(states)

    def _alerts(self, news: Sequence[Alert], *, full: bool) -> tuple[Alert, ...]:
        """Those that are news, or all that are open: the next heartbeat makes up for a word that was lost."""
        for alert in news:
            if alert.closed_at is None:
                self._open_alerts[alert.resource] = alert
            else:
                self._open_alerts.pop(alert.resource, None)
        if not full:
            return tuple(news)
        closed = (alert for alert in news if alert.closed_at is not None)
        return (*closed, *self._open_alerts.values())

    def _heartbeat(self, sample: NodeSample) -> Heartbeat:
        tallies = {container_id: followed.tally for container_id, followed in self._containers.items()}
        usage = [tally.usage(container_id) for container_id, tally in (tallies | self._ended).items()]
        heartbeat = Heartbeat(
            agent_version=__version__,
            sample_seconds=self._sample_seconds,
            beacon_seconds=max(self._push.beacon_seconds, self._sample_seconds),
            usage=tuple(each for each in usage if each is not None),
            # Of those that run: the others cannot be asked to use less.
            top=top_containers(tallies, self._push.top_containers),
            power_curve=sample.power_curve,
        )
        self._ended = {}
        for followed in self._containers.values():
            followed.tally = UsageTally()
        return heartbeat


class _Container:
    """What is known of a container between two ticks."""

    __slots__ = ("reported_limit", "tally", "track")

    def __init__(self, tally: UsageTally, *, from_start: bool) -> None:
        self.track = WindowTracker(CONTAINER_WIDTH, from_start=from_start)
        self.tally = tally
        self.reported_limit: Quantities | None = None
        """The limit that the collector holds; None while it holds nothing."""


def _capacities(capacity: Quantities) -> Values:
    return tuple([capacity.of(resource) for resource in RESOURCES])


def _limits_or(container: ContainerSample, capacity: Quantities) -> Values:
    """What a container's use is a share of: its own limit, or what the host has."""
    limit = container.rates.limit
    return tuple([limit.of(resource) or capacity.of(resource) for resource in RESOURCES])


# --- When -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Due:
    """What is due at a tick."""

    host: bool
    containers: bool
    heartbeat: bool
    beacon: bool


class _Schedule:
    """When windows close, and when something is said in any case. It begins with the first picture."""

    def __init__(self, node: str, push: ReportingConfig, sample_seconds: float, first: NodeSample) -> None:
        early_seconds = _EARLY_RATIO * sample_seconds
        begin_seconds = first.monotonic_seconds - first.rates.interval_seconds - early_seconds
        # By the name, so that the nodes of a cluster that were started together do not all speak together.
        phase = zlib.crc32(node.encode()) / (1 << 32) - 1
        heartbeat_seconds = push.heartbeat_seconds
        self._host = TumblingWindows(begin_seconds, push.host_window_seconds)
        self._containers = TumblingWindows(begin_seconds, push.container_window_seconds)
        self._heartbeat = TumblingWindows(
            first.monotonic_seconds + phase * heartbeat_seconds, heartbeat_seconds
        )
        self._beacon_after_seconds = push.beacon_seconds - early_seconds
        self._sent_seconds = first.monotonic_seconds

    def due(self, now_seconds: float) -> _Due:
        return _Due(
            host=self._host.closes(now_seconds),
            containers=self._containers.closes(now_seconds),
            heartbeat=self._heartbeat.closes(now_seconds),
            beacon=now_seconds - self._sent_seconds >= self._beacon_after_seconds,
        )

    def mark_sent(self, now_seconds: float) -> None:
        self._sent_seconds = now_seconds
