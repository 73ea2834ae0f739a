"""What a node says, and when: little, but never so little that the collector is far from the truth. Pure.

At every tick it is given the whole picture and decides what of it is news: a window in which something moved,
a container that came, went or has another limit, an alert; now and then everything, and after a long silence
that the node lives. No clock, no I/O: times come with the picture.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from agent.config import PushConfig
from agent.reporting.lifecycle import Chronicle, Happenings
from agent.reporting.messages import (
    CONTAINER_WIDTH,
    NODE_WIDTH,
    container_state,
    container_values,
    node_state,
    node_values,
)
from agent.reporting.track import Track
from agent.reporting.usage import Tally, greediest
from agent.reporting.windows import Tumbling, Values
from agent.sampling.node_sample import ContainerPicture, Picture
from agent.sources.docker import RuntimeEvent
from wire.messages import (
    LONGEST_NAME,
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
_MOST_ENDED = 1000
"""When so many containers have ended since the last heartbeat, the next one does not wait for its time."""
_CPU = 0


class Speaker:
    """Speaks for one node during one run of its agent, and counts what it says."""

    def __init__(self, node: str, boot: str, push: PushConfig, sample_seconds: float) -> None:
        self._node = node[:LONGEST_NAME]
        self._boot = boot
        self._push = push
        self._sample_seconds = sample_seconds
        self._sequence = 0
        self._schedule: _Schedule | None = None
        self._chronicle = Chronicle()
        self._host = Track(NODE_WIDTH, since_the_beginning=True)
        self._containers: dict[str, _Container] = {}
        self._ended: dict[str, Tally] = {}
        """What was used by containers that ended since the last heartbeat."""
        self._open_alerts: dict[Resource, Alert] = {}

    def say(
        self, picture: Picture, runtime_events: Sequence[RuntimeEvent], alerts: Sequence[Alert]
    ) -> Report | None:
        """What is to be said at this tick; None if there is nothing."""
        events: tuple[Event, ...] = ()
        is_first = self._schedule is None
        if self._schedule is None:
            self._schedule = _Schedule(self._node, self._push, self._sample_seconds, picture)
            events = (Event(EventKind.JOINED, picture.sample.unix_seconds),)
        due = self._schedule.due(picture.monotonic_seconds)
        happened = self._chronicle.witness(picture, runtime_events)
        self._follow(happened, is_first=is_first)
        everything = is_first or due.heartbeat or len(self._ended) >= _MOST_ENDED
        state = self._state(picture, closes=due.host, everything=everything)
        containers = self._states(picture, set(happened.begun), closes=due.containers, everything=everything)
        events += happened.events
        heartbeat = self._heartbeat(picture) if everything else None
        said_alerts = self._alerts(alerts, everything=everything)
        is_news = state or containers or happened.gone or events or said_alerts or heartbeat
        if not is_news and not due.beacon:
            return None
        self._schedule.spoke(picture.monotonic_seconds)
        self._sequence += 1
        return Report(
            node=self._node,
            boot=self._boot,
            sequence=self._sequence,
            at=picture.sample.unix_seconds,
            state=state,
            containers=containers,
            gone=tuple(container_id[:LONGEST_NAME] for container_id in happened.gone),
            events=events,
            alerts=said_alerts,
            heartbeat=heartbeat,
        )

    def last_words(self, picture: Picture) -> Report | None:
        """What is left to say when the agent stops: every sample that no heartbeat has told of yet."""
        if self._schedule is None:
            return None
        states = (
            container_state(container, *followed.track.latest())
            for container in picture.containers
            if (followed := self._containers.get(container.id))
        )
        self._sequence += 1
        return Report(
            node=self._node,
            boot=self._boot,
            sequence=self._sequence,
            at=picture.sample.unix_seconds,
            state=node_state(picture, *self._host.latest()),
            containers=tuple(states),
            alerts=self._alerts((), everything=True),
            heartbeat=self._heartbeat(picture),
        )

    def _follow(self, happened: Happenings, *, is_first: bool) -> None:
        """Begin to follow those that began, and stop with those that ended."""
        for container_id in happened.gone:
            self._ended[container_id] = self._containers.pop(container_id).tally
        for container_id in happened.begun:
            # What was used under an id stays with it, through all its lives.
            before = self._containers.get(container_id)
            tally = before.tally if before else self._ended.pop(container_id, Tally())
            self._containers[container_id] = _Container(tally, since_the_beginning=is_first)

    def _state(self, picture: Picture, *, closes: bool, everything: bool) -> NodeState | None:
        self._host.add(node_values(picture), picture.sample.interval_seconds)
        capacities = _capacities(picture.sample.capacity)
        is_news = closes and self._host.close(capacities, self._push.threshold_points)
        if not (is_news or everything):
            return None
        state = node_state(picture, *self._host.latest())
        self._host.note_said(state.used, capacities)
        return state

    def _states(
        self, picture: Picture, begun: set[str], *, closes: bool, everything: bool
    ) -> tuple[ContainerState, ...]:
        capacity, seconds = picture.sample.capacity, picture.sample.interval_seconds
        states = []
        for container in picture.containers:
            followed = self._containers.get(container.id)
            if followed is None:
                continue  # it has ended; this is what it left
            track = followed.track
            limit, values = container.sample.limit, container_values(container)
            track.add(values, seconds)
            followed.tally.add(values, seconds)
            is_news = closes and track.close(_allowed(container, capacity), self._push.threshold_points)
            # Who lowered or raised a limit waits to see that it holds.
            if is_news or everything or followed.said_limit not in {None, limit}:
                mean, window_seconds = track.latest()
            elif container.id in begun or (values[_CPU] is not None and track.awaits(_CPU)):
                # Something is better than nothing until there is a window.
                mean, window_seconds = values, seconds
            else:
                continue
            state = container_state(container, mean, window_seconds)
            track.note_said(state.used, _allowed(container, capacity))
            followed.said_limit = limit
            states.append(state)
        return tuple(states)

    def _alerts(self, news: Sequence[Alert], *, everything: bool) -> tuple[Alert, ...]:
        """Those that are news, or all that are open: the next heartbeat makes up for a word that was lost."""
        for alert in news:
            if alert.closed_at is None:
                self._open_alerts[alert.resource] = alert
            else:
                self._open_alerts.pop(alert.resource, None)
        if not everything:
            return tuple(news)
        closed = (alert for alert in news if alert.closed_at is not None)
        return (*closed, *self._open_alerts.values())

    def _heartbeat(self, picture: Picture) -> Heartbeat:
        tallies = {container_id: followed.tally for container_id, followed in self._containers.items()}
        usage = [tally.usage(container_id) for container_id, tally in (tallies | self._ended).items()]
        heartbeat = Heartbeat(
            agent_version=__version__,
            sample_seconds=self._sample_seconds,
            beacon_seconds=max(self._push.beacon_seconds, self._sample_seconds),
            usage=tuple(each for each in usage if each is not None),
            # Of those that run: the others cannot be asked to use less.
            top=greediest(tallies, self._push.top_containers),
            power_curve=picture.power_curve,
        )
        self._ended = {}
        for followed in self._containers.values():
            followed.tally = Tally()
        return heartbeat


class _Container:
    """What is known of a container between two ticks."""

    __slots__ = ("said_limit", "tally", "track")

    def __init__(self, tally: Tally, *, since_the_beginning: bool) -> None:
        self.track = Track(CONTAINER_WIDTH, since_the_beginning=since_the_beginning)
        self.tally = tally
        self.said_limit: Quantities | None = None
        """The limit that the collector holds; None while it holds nothing."""


def _capacities(capacity: Quantities) -> Values:
    return tuple([capacity.of(resource) for resource in RESOURCES])


def _allowed(container: ContainerPicture, capacity: Quantities) -> Values:
    """What a container's use is a share of: its own limit, or what the host has."""
    limit = container.sample.limit
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

    def __init__(self, node: str, push: PushConfig, sample_seconds: float, first: Picture) -> None:
        early_seconds = _EARLY_RATIO * sample_seconds
        begin_seconds = first.monotonic_seconds - first.sample.interval_seconds - early_seconds
        # By the name, so that the nodes of a cluster that were started together do not all speak together.
        phase = zlib.crc32(node.encode()) / (1 << 32) - 1
        heartbeat_seconds = push.heartbeat_seconds
        self._host = Tumbling(begin_seconds, push.host_window_seconds)
        self._containers = Tumbling(begin_seconds, push.container_window_seconds)
        self._heartbeat = Tumbling(first.monotonic_seconds + phase * heartbeat_seconds, heartbeat_seconds)
        self._patience_seconds = push.beacon_seconds - early_seconds
        self._spoke_seconds = first.monotonic_seconds

    def due(self, now_seconds: float) -> _Due:
        return _Due(
            host=self._host.closes(now_seconds),
            containers=self._containers.closes(now_seconds),
            heartbeat=self._heartbeat.closes(now_seconds),
            beacon=now_seconds - self._spoke_seconds >= self._patience_seconds,
        )

    def spoke(self, now_seconds: float) -> None:
        self._spoke_seconds = now_seconds
