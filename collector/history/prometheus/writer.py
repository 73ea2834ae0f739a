"""What a report adds to the store.

Agents speak sparingly, but a store takes a series that is silent for five minutes for gone. So the last word
of every node is held here, and repeated when the node is heard of and a minute has passed: a beacon says that
all still holds. A series that has ended (a container is gone, a limit was lifted, a meter took over) is ended
in the store as well, by the mark that Prometheus has for it.

A heartbeat's histograms are written as the samples that they were made of: in the middle of their bins, which
is within one percent, and as far apart as the agent took them; only their order within the heartbeat is not
known, and they are written the smallest first. So `quantile_over_time` is right, and a container needs four
series instead of one per bin, of which a day has a hundred or more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from collector.history.prometheus.encoding import STALE, Floats, labels, sample, series, time_bytes
from collector.history.prometheus.schema import (
    ALERT,
    BUILD_INFO,
    CONTAINER_FIELDS,
    COUNTED_UNTIL,
    GAP,
    INFO,
    INSTANCE,
    JOB,
    NODE_FIELDS,
    SAMPLED_AT,
    SAMPLED_METRICS,
    Labels,
    MetricField,
    identity_labels,
    info_labels,
)
from collector.reports.run import AgentRun
from wire.messages import ContainerState, ContainerUsage, Report
from wire.resources import RESOURCES, Resource
from wire.sketch import Sketch, middle_of

REPEAT_SECONDS: Final = 60.0
MAX_SAMPLES: Final = 1000
"""Of one container's resource per heartbeat; what is more is thinned evenly, from rank to rank."""
_MAX_AGE_SECONDS: Final = 48 * 3600.0
"""As long as a spool keeps reports."""
_ROUNDING_SECONDS: Final = 1.0


@dataclass(slots=True)
class _NodeCache:
    """The last word of a node."""

    picture: AgentRun
    repeated_at: float = 0.0
    counted_until: float = 0.0
    """The time of its last heartbeat."""
    short_of: set[Resource] = field(default_factory=set)


class SampleWriter:
    """Turns reports into requests of remote write. Not for several threads at once."""

    def __init__(self) -> None:
        self._held: dict[str, _NodeCache] = {}

    def hold(self, report: Report, received_at: float) -> None:
        """Know a report that the store has already."""
        self._merge(report, received_at)

    def write(self, report: Report, received_at: float) -> bytes:
        """The request that tells the store of a report; one that comes twice gives the same samples."""
        at = report_time(report.at, received_at)
        held = self._held.get(report.node)
        before = {} if held is None else dict(held.picture.containers)
        state_before = None if held is None or held.picture.state is None else held.picture.state.what
        held = self._merge(report, received_at)
        picture = held.picture
        node = _NodeEncoder(report.node, at)
        whole = report.heartbeat is not None or at - held.repeated_at >= REPEAT_SECONDS
        if whole:
            held.repeated_at = at
        parts = list(_about_agent(node, report, held, whole=whole))
        state = picture.state.what if whole and picture.state is not None else report.state
        if state is not None:
            parts += node.levels(NODE_FIELDS, {}, state_before, state)
            parts += (node.sample(GAP, {"what": gap.what, "why": gap.why}, 1.0) for gap in state.gaps)
        said = [each.what for each in picture.containers.values()] if whole else report.containers
        for container in said:
            earlier = before.get(container.id)
            parts += _container(node, None if earlier is None else earlier.what, container)
        for name in before.keys() - picture.containers.keys():
            parts += _container(node, before[name].what, None)
        if report.heartbeat is not None:
            period_seconds = report.heartbeat.sample_seconds
            names = {each.id: each.name for each in report.containers}
            for usage in report.heartbeat.usage:
                parts += _sampled(node, names.get(usage.id, ""), usage, period_seconds)
        return b"".join(parts)

    def forget(self, before: float) -> None:
        """Drop the nodes that were not heard of since."""
        self._held = {name: held for name, held in self._held.items() if held.picture.heard_at >= before}

    def _merge(self, report: Report, received_at: float) -> _NodeCache:
        held = self._held.get(report.node)
        if held is None or report.boot != held.picture.boot:
            # A word of an earlier run that comes late ends nothing for long: the next one mends it.
            held = self._held[report.node] = _NodeCache(AgentRun(report.boot, received_at))
        held.picture.merge(report, received_at)
        if report.heartbeat is not None:
            held.counted_until = max(held.counted_until, report_time(report.at, received_at))
            # It names all that last, so that one whose end was lost ends here.
            held.short_of.clear()
        for alert in report.alerts:
            (held.short_of.add if alert.closed_at is None else held.short_of.discard)(alert.resource)
        return held


def report_time(at: float, received_at: float) -> float:
    """The time under which a report is written: its own, unless that cannot be."""
    is_believable = received_at - _MAX_AGE_SECONDS < at <= received_at + _ROUNDING_SECONDS
    return at if is_believable else received_at


class _NodeEncoder:
    """Writes samples of one node at one time."""

    def __init__(self, node: str, at: float) -> None:
        self.at = at
        self._time = time_bytes(at)
        self._node = {INSTANCE: node, **JOB}

    def sample(self, metric: str, more: Labels, value: float) -> bytes:
        return sample(labels({"__name__": metric, **self._node, **more}), self._time, value)

    def samples(self, metric: str, more: Labels, at: Floats, values: Floats) -> bytes:
        return series(labels({"__name__": metric, **self._node, **more}), at, values)

    def levels(
        self, table: Iterable[MetricField], about: Labels, before: object | None, now: object | None
    ) -> Iterator[bytes]:
        """A sample of each level that there is, and an end for each that there was."""
        # These sort between the metric's name and what a level adds, so they are written only once.
        middle = labels({**self._node, **about})
        for level in table:
            value = None if now is None else level.of(now)
            tail = None if value is None else _tail(level, now)
            if value is not None and tail is not None:
                yield sample(_NAMES[level.metric] + middle + tail, self._time, value)
            if before is not None and level.of(before) is not None:
                ended = _tail(level, before)
                if ended != tail:
                    yield sample(_NAMES[level.metric] + middle + ended, self._time, STALE)


_NAMES: Final = {level.metric: labels({"__name__": level.metric}) for level in NODE_FIELDS + CONTAINER_FIELDS}
_TAILS: Final[dict[tuple[tuple[str, str], ...], bytes]] = {}


def _tail(level: MetricField, message: object) -> bytes:
    """The labels `resource` and `source`: there are few of them, so they are written once and kept."""
    if level.source is None and not level.labels:
        return b""
    source = {} if level.source is None else {"source": level.source(message)}
    pairs = tuple({**level.labels, **source}.items())
    if pairs not in _TAILS:
        _TAILS[pairs] = labels(dict(pairs))
    return _TAILS[pairs]


def _about_agent(node: _NodeEncoder, report: Report, held: _NodeCache, *, whole: bool) -> Iterator[bytes]:
    yield node.sample(SAMPLED_AT, {}, report.at)
    if whole and held.picture.heartbeat is not None:
        # As the times of samples are rounded, so that the last of them is not after it.
        yield node.sample(COUNTED_UNTIL, {}, round(held.counted_until, 3))
        yield node.sample(BUILD_INFO, {"version": held.picture.heartbeat.what.agent_version}, 1.0)
    if whole or report.alerts:
        for resource in RESOURCES:
            yield node.sample(ALERT, {"resource": resource.value}, float(resource in held.short_of))


def _container(
    node: _NodeEncoder, before: ContainerState | None, now: ContainerState | None
) -> Iterator[bytes]:
    known = now or before
    assert known is not None
    yield from node.levels(CONTAINER_FIELDS, identity_labels(known), before, now)
    if now is not None:
        yield node.sample(INFO, info_labels(now), 1.0)
    if before is not None and (now is None or info_labels(now) != info_labels(before)):
        yield node.sample(INFO, info_labels(before), STALE)


def _sampled(node: _NodeEncoder, name: str, usage: ContainerUsage, period_seconds: float) -> Iterator[bytes]:
    about: Mapping[str, str] = {"id": usage.id, "name": name}
    sketches = (usage.cpu, usage.memory, usage.disk, usage.network)
    for resource, sketch in zip(RESOURCES, sketches, strict=True):
        if sketch is not None and (values := expand_samples(sketch)).size:
            step = min(
                max(period_seconds * sketch.count / values.size, 0.001), _MAX_AGE_SECONDS / values.size
            )
            at = node.at - step * np.arange(values.size - 1.0, -1.0, -1.0)
            yield node.samples(SAMPLED_METRICS[resource], about, at, values)


def expand_samples(sketch: Sketch) -> Floats:
    """The samples that a sketch was made of, the smallest first; evenly thinned where there are too many."""
    bins = sorted(sketch.bins)
    middles = np.array([0.0, *map(middle_of, bins)])
    below = np.cumsum(np.array([sketch.zeros, *(sketch.bins[index] for index in bins)], dtype=np.float64))
    size = min(sketch.count, MAX_SAMPLES)
    ranks = (np.arange(size) + 0.5) * (below[-1] / size if size else 0.0)
    return middles[np.searchsorted(below, ranks)]
