"""Turn reports into samples for the store.

Agents report only what changed, but a store considers a series gone after five minutes without a sample. So
the last state of every node is kept here and repeated when the node reports and a minute has passed: a beacon
confirms that nothing changed. A series that has ended (a container is gone, a limit was lifted, a meter took
over) gets a staleness marker.

The histograms of a heartbeat are written as the samples that they were made of: at the middle of their bins,
which is within one percent, and in the agent's interval. Only their order within the heartbeat is unknown;
they are written in ascending order. So `quantile_over_time` is right, and a container needs four series
instead of one per bin, of which a day has a hundred or more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np

from collector.common.arrays import Floats
from collector.features.prometheus.encoding import STALE, labels, sample, series, time_bytes
from collector.features.prometheus.schema import (
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
from collector.history.timeline import report_time
from collector.observe.agent_run import AgentRun
from wire.messages import ContainerState, ContainerUsage, Report
from wire.resources import RESOURCES, Resource
from wire.sketch import Sketch, middle_of

REPEAT_SECONDS: Final = 60.0
MAX_SAMPLES: Final = 1000
"""Per heartbeat, container and resource; more samples are thinned evenly, by rank."""
_MAX_AGE_SECONDS: Final = 48 * 3600.0
"""How long a spool keeps reports."""
_ROUNDING_SECONDS: Final = 1.0


@dataclass(slots=True)
class _NodeCache:
    run: AgentRun
    repeated_at: float = 0.0
    counted_until: float = 0.0
    """Time of its last heartbeat."""
    short_of: set[Resource] = field(default_factory=set)


class SampleWriter:
    """Turns reports into remote write requests. Not thread-safe."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeCache] = {}

    def write(self, report: Report, received_at: float) -> bytes:
        """The request for a report; a repeated report gives the same samples."""
        at = _time(report, received_at)
        cached = self._nodes.get(report.node)
        before = {} if cached is None else dict(cached.run.containers)
        state_before = None if cached is None or cached.run.state is None else cached.run.state.value
        cached = self.merge(report, received_at)
        run = cached.run
        node = _NodeEncoder(report.node, at)
        is_full = report.heartbeat is not None or at - cached.repeated_at >= REPEAT_SECONDS
        if is_full:
            cached.repeated_at = at
        parts = list(_agent_samples(node, report, cached, is_full=is_full))
        state = run.state.value if is_full and run.state is not None else report.state
        if state is not None:
            parts += node.fields(NODE_FIELDS, {}, state_before, state)
            parts += (node.sample(GAP, {"what": gap.what, "why": gap.why}, 1.0) for gap in state.gaps)
        containers = [each.value for each in run.containers.values()] if is_full else report.containers
        for container in containers:
            earlier = before.get(container.id)
            parts += _container_samples(node, None if earlier is None else earlier.value, container)
        for name in before.keys() - run.containers.keys():
            parts += _container_samples(node, before[name].value, None)
        if report.heartbeat is not None:
            period_seconds = report.heartbeat.sample_seconds
            names = {each.id: each.name for each in report.containers}
            for usage in report.heartbeat.usage:
                parts += _usage_samples(node, names.get(usage.id, ""), usage, period_seconds)
        return b"".join(parts)

    def expire(self, before: float) -> None:
        """Drop the nodes whose last report is older."""
        self._nodes = {name: each for name, each in self._nodes.items() if each.run.last_report_at >= before}

    def merge(self, report: Report, received_at: float) -> _NodeCache:
        """Add a report to the state."""
        cached = self._nodes.get(report.node)
        if cached is None or report.boot != cached.run.boot:
            # A late report of an earlier boot ends series only until the next report.
            cached = self._nodes[report.node] = _NodeCache(AgentRun(report.boot, received_at))
        cached.run.merge(report, received_at)
        if report.heartbeat is not None:
            cached.counted_until = max(cached.counted_until, _time(report, received_at))
            # A heartbeat lists all open alerts, so one whose end was lost ends here.
            cached.short_of.clear()
        for alert in report.alerts:
            (cached.short_of.add if alert.closed_at is None else cached.short_of.discard)(alert.resource)
        return cached


def _time(report: Report, received_at: float) -> float:
    return report_time(report.at, received_at, _MAX_AGE_SECONDS, _ROUNDING_SECONDS)


class _NodeEncoder:
    """Encodes the samples of one node at one time."""

    def __init__(self, node: str, at: float) -> None:
        self.at = at
        self._time = time_bytes(at)
        self._node = {INSTANCE: node, **JOB}

    def sample(self, metric: str, more: Labels, value: float) -> bytes:
        return sample(labels({"__name__": metric, **self._node, **more}), self._time, value)

    def samples(self, metric: str, more: Labels, at: Floats, values: Floats) -> bytes:
        return series(labels({"__name__": metric, **self._node, **more}), at, values)

    def fields(
        self, fields: Iterable[MetricField], subject: Labels, before: object | None, now: object | None
    ) -> Iterator[bytes]:
        """A sample of each field that has a value, and a staleness marker for each series that ended."""
        # These sort between the metric name and the labels of a field, so they are encoded only once.
        middle = labels({**self._node, **subject})
        for each in fields:
            value = None if now is None else each.value(now)
            tail = None if value is None else _tail(each, now)
            if value is not None and tail is not None:
                yield sample(_NAMES[each.metric] + middle + tail, self._time, value)
            if before is not None and each.value(before) is not None:
                ended = _tail(each, before)
                if ended != tail:
                    yield sample(_NAMES[each.metric] + middle + ended, self._time, STALE)


_NAMES: Final = {each.metric: labels({"__name__": each.metric}) for each in NODE_FIELDS + CONTAINER_FIELDS}


def _tail(metric_field: MetricField, message: object) -> bytes:
    """Labels such as `resource` and `source`."""
    if metric_field.source is None and not metric_field.labels:
        return b""
    source = {} if metric_field.source is None else metric_field.source(message)
    return _encoded(*metric_field.labels.items(), *source.items())


@cache
def _encoded(*pairs: tuple[str, str]) -> bytes:
    """Encode labels of which there are few, once."""
    return labels(dict(pairs))


def _agent_samples(
    node: _NodeEncoder, report: Report, cached: _NodeCache, *, is_full: bool
) -> Iterator[bytes]:
    yield node.sample(SAMPLED_AT, {}, report.at)
    if is_full and cached.run.heartbeat is not None:
        # Rounded like the times of samples, so that the last sample is not after it.
        yield node.sample(COUNTED_UNTIL, {}, round(cached.counted_until, 3))
        yield node.sample(BUILD_INFO, {"version": cached.run.heartbeat.value.agent_version}, 1.0)
    if is_full or report.alerts:
        for resource in RESOURCES:
            yield node.sample(ALERT, {"resource": resource.value}, float(resource in cached.short_of))


def _container_samples(
    node: _NodeEncoder, before: ContainerState | None, now: ContainerState | None
) -> Iterator[bytes]:
    container = now or before
    assert container is not None
    yield from node.fields(CONTAINER_FIELDS, identity_labels(container), before, now)
    if now is not None:
        yield node.sample(INFO, info_labels(now), 1.0)
    if before is not None and (now is None or info_labels(now) != info_labels(before)):
        yield node.sample(INFO, info_labels(before), STALE)


def _usage_samples(
    node: _NodeEncoder, name: str, usage: ContainerUsage, period_seconds: float
) -> Iterator[bytes]:
    container: Mapping[str, str] = {"id": usage.id, "name": name}
    sketches = (usage.cpu, usage.memory, usage.disk, usage.network)
    for resource, sketch in zip(RESOURCES, sketches, strict=True):
        if sketch is not None and (values := expand_samples(sketch)).size:
            step = min(
                max(period_seconds * sketch.count / values.size, 0.001), _MAX_AGE_SECONDS / values.size
            )
            at = node.at - step * np.arange(values.size - 1.0, -1.0, -1.0)
            yield node.samples(SAMPLED_METRICS[resource], container, at, values)


def expand_samples(sketch: Sketch) -> Floats:
    """The samples that a sketch was made of, in ascending order; thinned evenly if there are too many."""
    bins = sorted(sketch.bins)
    middles = np.array([0.0, *map(middle_of, bins)])
    below = np.cumsum(np.array([sketch.zeros, *(sketch.bins[index] for index in bins)], dtype=np.float64))
    size = min(sketch.count, MAX_SAMPLES)
    ranks = (np.arange(size) + 0.5) * (below[-1] / size if size else 0.0)
    return middles[np.searchsorted(below, ranks)]
