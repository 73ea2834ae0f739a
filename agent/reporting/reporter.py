"""Decides what a node reports, and when. Pure.

Each sample is checked for changes: a closed window with a large enough change, a container that started,
ended or has another limit, an event, an alert. A heartbeat reports everything; a beacon shows that the node
is up.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from agent.sampling.node_sample import NodeSample
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
from wire.resources import Quantities, Resource
from wire.version import __version__

_EARLY_RATIO = 0.1
"""Share of the sample interval by which something may be due early, since ticks are not exact."""
_MAX_ENDED = 1000
"""Number of containers ended since the last heartbeat that causes the next one early."""
_CPU = 0
_IMAGES_SECONDS = 3600.0
"""Images that did not change are reported again after this time, in case a report was lost."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What a feature adds to a report, which is then due."""

    fields: Mapping[str, Any]
    """Fields of the `Report`."""
    containers: frozenset[str]
    """The state of these containers, by id, is reported with them."""


class Reporter:
    """Creates the reports of one node during one run of its agent, and numbers them."""

    def __init__(
        self,
        node: str,
        boot: str,
        config: ReportingConfig,
        sample_seconds: float,
        machine: str | None = None,
    ) -> None:
        self._node = node[:MAX_NAME_LENGTH]
        self._boot = boot
        self._config = config
        self._sample_seconds = sample_seconds
        self._machine = machine
        self._sequence = 0
        self._schedule: _Schedule | None = None
        self._tracker = ContainerTracker()
        self._host = WindowTracker(NODE_WIDTH, from_start=True)
        self._containers: dict[str, _Container] = {}
        self._ended: dict[str, UsageTally] = {}
        """Usage of containers that ended since the last heartbeat."""
        self._open_alerts: dict[Resource, Alert] = {}
        self._images: tuple[str, ...] | None = None
        self._images_seconds = 0.0
        """When images were last reported."""

    def report(
        self,
        sample: NodeSample,
        runtime_events: Sequence[RuntimeEvent],
        alerts: Sequence[Alert],
        images: tuple[str, ...] | None = None,
        additions: Sequence[Addition] = (),
    ) -> Report | None:
        """The report for this sample; None if nothing changed."""
        events: tuple[Event, ...] = ()
        is_first = self._schedule is None
        if self._schedule is None:
            self._schedule = _Schedule(self._node, self._config, self._sample_seconds, sample)
            events = (Event(EventKind.JOINED, sample.rates.unix_seconds),)
        schedule, now_seconds = self._schedule, sample.monotonic_seconds
        changes = self._tracker.update(sample, runtime_events)
        self._track_containers(changes, is_first=is_first)
        full = schedule.heartbeat.closes(now_seconds) or is_first or len(self._ended) >= _MAX_ENDED
        state = self._state(sample, closes=schedule.host.closes(now_seconds), full=full, fresh=bool(alerts))
        named = {alert.container for alert in alerts if alert.closed_at is None}
        added = {container for each in additions for container in each.containers}
        containers = self._states(
            sample,
            set(changes.started),
            named,
            added,
            closes=schedule.containers.closes(now_seconds),
            full=full,
        )
        events += changes.events
        heartbeat = self._heartbeat(sample) if full else None
        reported_alerts = self._alerts(alerts, full=full)
        new_images = self._new_images(images, now_seconds)
        is_due = state or containers or changes.gone or events or reported_alerts or heartbeat or additions
        if not is_due and not schedule.beacon_is_due(now_seconds) and new_images is None:
            return None
        schedule.sent_seconds = now_seconds
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
            images=new_images,
            **{name: value for each in additions for name, value in each.fields.items()},
        )

    def _new_images(self, images: tuple[str, ...] | None, now_seconds: float) -> tuple[str, ...] | None:
        """The images, if they changed or were not reported for long."""
        is_old = now_seconds - self._images_seconds >= _IMAGES_SECONDS
        if images is None or (images == self._images and not is_old):
            return None
        self._images, self._images_seconds = images, now_seconds
        return images

    def all_due(self, after_seconds: float, now_seconds: float) -> bool:
        """Whether a heartbeat is due and all windows close at a sample that follows one `after_seconds`."""
        return self._schedule is not None and self._schedule.all_due(after_seconds, now_seconds)

    def skip(self, reports: int) -> None:
        """Skip sequence numbers, for reports that were created elsewhere."""
        self._sequence += reports

    @property
    def sequence(self) -> int:
        return self._sequence

    def final_report(self, sample: NodeSample) -> Report | None:
        """The last report before the agent stops: all samples since the last heartbeat."""
        if self._schedule is None:
            return None
        states = (
            container_state(container, *tracked.track.latest())
            for container in sample.containers
            if (tracked := self._containers.get(container.id))
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
        """Add containers that started, and remove those that ended."""
        for container_id in changes.gone:
            self._ended[container_id] = self._containers.pop(container_id).tally
        for container_id in changes.started:
            # Usage belongs to the ID, across restarts.
            before = self._containers.get(container_id)
            tally = before.tally if before else self._ended.pop(container_id, UsageTally())
            track = WindowTracker(CONTAINER_WIDTH, from_start=is_first)
            self._containers[container_id] = _Container(track, tally)

    def _state(self, sample: NodeSample, *, closes: bool, full: bool, fresh: bool) -> NodeState | None:
        values, seconds = node_values(sample), sample.rates.interval_seconds
        self._host.add(values, seconds)
        capacities = sample.rates.capacity.values
        is_due = closes and self._host.close(capacities, self._config.threshold_points)
        if fresh:
            # Decisions about an alert need the load that caused it; the last window may have ended before.
            self._host.replace_latest(values, seconds)
        if not (is_due or full or fresh):
            return None
        state = node_state(sample, *self._host.latest())
        self._host.mark_reported(state.used, capacities)
        return state

    def _states(  # noqa: PLR0913 - what is due for different reasons
        self,
        sample: NodeSample,
        started: set[str],
        named: set[str | None],
        added: set[str],
        *,
        closes: bool,
        full: bool,
    ) -> tuple[ContainerState, ...]:
        """States that are due: of containers in an open alert, with their last sample, before windows close.

        `added` are containers that a feature reports about.
        """
        capacity, seconds = sample.rates.capacity, sample.rates.interval_seconds
        states = []
        # All that is not reported of all containers together is less than the threshold of the host.
        part = self._config.threshold_points / 100 / max(1, len(sample.containers))
        shares: Values = tuple([part * (whole or 0.0) for whole in capacity.values])
        for container in sample.containers:
            tracked = self._containers.get(container.id)
            if tracked is None:
                continue  # it has ended, and its cgroup still exists
            track = tracked.track
            limit, values = container.rates.limit, container_values(container)
            track.add(values, seconds)
            tracked.tally.add(values, seconds)
            # In a full report all windows are due, and need not be compared.
            points = 0.0 if full else self._config.threshold_points
            is_due = closes and track.close(
                _limits_or(limit, capacity), points, _without_limit(shares, limit)
            )
            if full:
                track.begin_period()
            is_named = container.id in named
            if is_named:
                track.replace_latest(values, seconds)
            # A limit that the collector changed is confirmed at once.
            is_changed = tracked.reported_limit is not None and tracked.reported_limit != limit
            is_added = container.id in added
            if is_due or full or is_named or is_changed or is_added:
                mean, window_seconds = track.latest()
            elif container.id in started or (values[_CPU] is not None and track.is_unreported(_CPU)):
                # One sample is better than none until a window closes.
                mean, window_seconds = values, seconds
            else:
                continue
            state = container_state(container, mean, window_seconds)
            track.mark_reported(state.used, _limits_or(limit, capacity))
            tracked.reported_limit = limit
            states.append(state)
        return tuple(states)

    def _alerts(self, changed: Sequence[Alert], *, full: bool) -> tuple[Alert, ...]:
        """Changed alerts; in a full report also all open ones, in case an earlier report was lost."""
        for alert in changed:
            if alert.closed_at is None:
                self._open_alerts[alert.resource] = alert
            else:
                self._open_alerts.pop(alert.resource, None)
        if not full:
            return tuple(changed)
        closed = (alert for alert in changed if alert.closed_at is not None)
        return (*closed, *self._open_alerts.values())

    def _heartbeat(self, sample: NodeSample) -> Heartbeat:
        tallies = {container_id: tracked.tally for container_id, tracked in self._containers.items()}
        usage = [tally.usage(container_id) for container_id, tally in (tallies | self._ended).items()]
        heartbeat = Heartbeat(
            agent_version=__version__,
            sample_seconds=self._sample_seconds,
            beacon_seconds=max(self._config.beacon_seconds, self._sample_seconds),
            usage=tuple(each for each in usage if each is not None),
            # Only running containers: nothing can be done about the others.
            top=top_containers(tallies),
            power_curve=sample.power_curve,
            machine=self._machine,
        )
        self._ended = {}
        for tracked in self._containers.values():
            tracked.tally = UsageTally()
        return heartbeat


@dataclass(slots=True)
class _Container:
    """State of a container between two samples."""

    track: WindowTracker
    tally: UsageTally
    reported_limit: Quantities | None = None
    """The limit that was last reported; None before the first report."""


def _limits_or(limit: Quantities, capacity: Quantities) -> Values:
    """Per resource, the limit of a container or, without one, the capacity of the host."""
    return tuple([own or whole for own, whole in zip(limit.values, capacity.values, strict=True)])


def _without_limit(shares: Values, limit: Quantities) -> Values:
    """The shares of the resources that a container may use without a limit; None for the others."""
    return tuple([None if own else share for own, share in zip(limit.values, shares, strict=True)])


# --- When -----------------------------------------------------------------------------------


class _Schedule:
    """When windows close, and when heartbeats and beacons are due; starts with the first sample."""

    def __init__(self, node: str, config: ReportingConfig, sample_seconds: float, first: NodeSample) -> None:
        early_seconds = _EARLY_RATIO * sample_seconds
        begin_seconds = first.monotonic_seconds - first.rates.interval_seconds - early_seconds
        # Derived from the name, so that nodes started together do not send heartbeats at the same time.
        phase = zlib.crc32(node.encode()) / (1 << 32) - 1
        heartbeat_seconds = config.heartbeat_seconds
        self.host = TumblingWindows(begin_seconds, max(config.window_seconds, sample_seconds))
        self.containers = TumblingWindows(begin_seconds, max(config.container_window_seconds, sample_seconds))
        self.heartbeat = TumblingWindows(
            first.monotonic_seconds + phase * heartbeat_seconds, heartbeat_seconds
        )
        self._beacon_after_seconds = config.beacon_seconds - early_seconds
        self.sent_seconds = first.monotonic_seconds

    def beacon_is_due(self, now_seconds: float) -> bool:
        return now_seconds - self.sent_seconds >= self._beacon_after_seconds

    def all_due(self, after_seconds: float, now_seconds: float) -> bool:
        return all(
            windows.ends_between(after_seconds, now_seconds)
            for windows in (self.host, self.containers, self.heartbeat)
        )
