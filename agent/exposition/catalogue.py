"""All metrics of the agent: name, where the value comes from, and help text.

A new metric is one entry in one of these tables; `/metrics` and docs/metrics.md are generated from them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from prometheus_client.core import Metric

from agent.delivery.sender import ReportSender
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sources.readings import DiskTotals, LinkTotals
from powermodels.common.interface import MeterState
from wire.messages import Gap
from wire.metrics import MetricSpec
from wire.resources import RESOURCES, Resource
from wire.version import __version__

Labels = Mapping[str, Callable[[Any], str]]
_NO_LABELS: Labels = {}
Value = str | Callable[[Any], float | None]


def _metric(name: str, value: Value, text: str, labels: Labels = _NO_LABELS) -> MetricSpec[Any]:
    """A metric. Its value is a function of the subject, or the attribute at a path such as `rates.load_1m`.

    The name of a counter ends in `_total`.
    """
    return MetricSpec(
        name=f"wattpack_{name}",
        help=text,
        labels=labels,
        value=attrgetter(value) if isinstance(value, str) else value,
    )


def _metrics(
    subject: str, labels: Labels, *rows: tuple[str, str] | tuple[str, str, Value]
) -> tuple[MetricSpec[Any], ...]:
    """Metrics of one subject with the same labels: name, text and value of each; by default, of its rates."""
    return tuple(
        _metric(f"{subject}_{name}", value[0] if value else f"rates.{name}", text, labels)
        for name, text, *value in rows
    )


def _power(name: str) -> Callable[[NodeSample | ContainerSample], float | None]:
    """A value of the power of a node or container; None if the power is unknown."""
    read = attrgetter(name)
    return lambda each: None if each.power is None else read(each.power)


def _one(_: object) -> float:
    return 1


# --- The agent ------------------------------------------------------------------------------


@dataclass(slots=True)
class AgentState:
    """The last sample, the open alerts, and counters of the agent itself."""

    sender: ReportSender
    sample: NodeSample | None = None
    alerts: frozenset[Resource] = frozenset()
    """Resources with an open alert."""
    samples: int = 0
    missed: int = 0
    feature_metrics: list[Callable[[], Iterable[Metric]]] = field(default_factory=list)
    """Collect the metrics of the started features."""


AGENT_METRICS: tuple[MetricSpec[AgentState], ...] = (
    _metric(
        "agent_build_info",
        _one,
        "Version of the agent, as a label. Always 1.",
        {"version": lambda _: __version__},
    ),
    *_metrics(
        "agent",
        _NO_LABELS,
        ("samples_total", "Samples that the agent has taken.", "samples"),
        (
            "sample_timestamp_seconds",
            "Unix time of the last sample, in seconds.",
            lambda agent: agent.sample.rates.unix_seconds if agent.sample else None,
        ),
        ("missed_samples_total", "Samples skipped because the previous sample took too long.", "missed"),
        ("delivered_reports_total", "Reports that the collector has accepted.", "sender.delivered"),
        (
            "dropped_reports_total",
            "Reports that were lost: spool full, too old, damaged, or rejected by the collector.",
            "sender.dropped",
        ),
        ("queued_reports", "Reports waiting to be sent to the collector.", lambda agent: len(agent.sender)),
        ("spool_bytes", "Size of the reports waiting to be sent, in bytes.", "sender.stored_bytes"),
        (
            "clock_offset_seconds",
            "Clock of the collector minus clock of this node, in seconds.",
            "sender.clock_offset.seconds",
        ),
    ),
)
ALERT_METRICS: tuple[MetricSpec[tuple[Resource, bool]], ...] = (
    _metric(
        "agent_alert",
        itemgetter(1),
        "1 while the resource is a bottleneck of the node, else 0.",
        {"resource": itemgetter(0)},
    ),
)
GAP_METRICS: tuple[MetricSpec[Gap], ...] = (
    _metric(
        "agent_gap",
        _one,
        "Value that the agent cannot measure on this node (what), and the reason (why). Always 1.",
        {"what": attrgetter("what"), "why": attrgetter("why")},
    ),
)


# --- The node -------------------------------------------------------------------------------


def _source(resource: Resource) -> Labels:
    """Whether a capacity is declared by hardware or settings, or learned from the highest usage."""
    return {"source": lambda node: "learned" if resource in node.rates.learned_capacities else "declared"}


NODE_METRICS: tuple[MetricSpec[NodeSample], ...] = (
    _metric(
        "node_power_watts",
        _power("watts"),
        "Power of the whole machine, in watts, from the most direct source available. If source_scope is less"
        " than the machine, the rest is estimated.",
        {
            "source": lambda node: node.power.source if node.power else "",
            "source_scope": lambda node: node.power.source_scope if node.power else "",
        },
    ),
    *_metrics(
        "node",
        _NO_LABELS,
        (
            "power_error_ratio",
            "Expected relative error of the node's power: 0.25 means plus or minus 25%.",
            _power("error_ratio"),
        ),
        ("power_idle_watts", "Power of the node without any load, in watts.", _power("idle_watts")),
        ("power_system_watts", "Power of processes outside containers, in watts.", _power("system_watts")),
        (
            "energy_joules_total",
            "Energy used by the node, in joules. Continues after a restart of the agent.",
            _power("joules_total"),
        ),
        ("cpu_cores", "CPU usage of the node, in cores, over the last sample.", "rates.used.cpu_cores"),
        ("cpu_capacity_cores", "CPU capacity of the node, in cores.", "rates.capacity.cpu_cores"),
        (
            "cpu_iowait_ratio",
            "Share of CPU time that was idle while tasks waited for disks.",
            "rates.iowait_ratio",
        ),
        (
            "cpu_steal_ratio",
            "Share of CPU time that the hypervisor gave to other virtual machines.",
            "rates.steal_ratio",
        ),
        ("cpu_frequency_hertz", "CPU clock rate, in hertz, averaged over cores.", "rates.frequency_hertz"),
        ("load_1m", "Load average over 1 minute: tasks that run or wait."),
        (
            "memory_used_bytes",
            "Memory in use on the node, in bytes, without reclaimable page cache.",
            "rates.used.memory_bytes",
        ),
        ("memory_capacity_bytes", "Memory capacity of the node, in bytes.", "rates.capacity.memory_bytes"),
        ("memory_cache_bytes", "Page cache of the node, in bytes; most of it is reclaimable."),
        ("swap_used_bytes", "Swap in use on the node, in bytes."),
        ("oom_kills_total", "Processes that the kernel killed because memory ran out."),
        (
            "disk_bytes_per_second",
            "Disk throughput of the node, read and written bytes per second, over the last sample.",
            "rates.used.disk_bytes_per_second",
        ),
        (
            "disk_operations_per_second",
            "Disk reads and writes of the node, per second, over the last sample.",
        ),
        ("disk_busy_ratio", "Share of time that the busiest disk was active."),
        (
            "network_bytes_per_second",
            "Network traffic of the node, received and sent bytes per second, over the last sample.",
            "rates.used.network_bytes_per_second",
        ),
    ),
    _metric(
        "node_disk_capacity_bytes_per_second",
        "rates.capacity.disk_bytes_per_second",
        "Disk throughput that all disks can reach together, in bytes per second.",
        _source(Resource.DISK),
    ),
    _metric(
        "node_network_capacity_bytes_per_second",
        "rates.capacity.network_bytes_per_second",
        "Network traffic that all physical links can carry together, in bytes per second.",
        _source(Resource.NETWORK),
    ),
)


_DEVICE: Labels = {"device": itemgetter(0)}

DISK_METRICS: tuple[MetricSpec[tuple[str, DiskTotals]], ...] = _metrics(
    "node_disk",
    _DEVICE,
    ("read_bytes_total", "Bytes read from the disk.", lambda each: each[1].read_bytes),
    ("written_bytes_total", "Bytes written to the disk.", lambda each: each[1].written_bytes),
)
LINK_METRICS: tuple[MetricSpec[tuple[str, LinkTotals]], ...] = _metrics(
    "node_network",
    _DEVICE,
    (
        "receive_bytes_total",
        "Bytes received on the external network link.",
        lambda each: each[1].received_bytes,
    ),
    ("transmit_bytes_total", "Bytes sent on the external network link.", lambda each: each[1].sent_bytes),
)


Subject = TypeVar("Subject", NodeSample, ContainerSample)


def resource_pressures(subject: Subject) -> list[tuple[Subject, Resource, float | None]]:
    """The node, or a container, once per resource that the kernel measures pressure of."""
    ratios = zip(RESOURCES, subject.rates.pressure.values, strict=False)
    return [(subject, resource, ratio) for resource, ratio in ratios]


NODE_PRESSURE_METRICS: tuple[MetricSpec[tuple[NodeSample, Resource, float | None]], ...] = (
    _metric(
        "node_pressure_ratio",
        itemgetter(2),
        "Share of time that at least one task on the node waited for the resource (PSI some).",
        {"resource": itemgetter(1)},
    ),
)
METER_METRICS: tuple[MetricSpec[MeterState], ...] = (
    _metric(
        "node_meter_watts",
        "watts",
        "Power measured by each meter of the node, in watts; the node's power is estimated from the one with"
        " used=true.",
        {
            "meter": attrgetter("name"),
            "scope": attrgetter("scope.value"),
            "used": lambda meter: "true" if meter.used else "false",
        },
    ),
)


# --- Containers: some thirty series each, so that thousands of hosts can be scraped ------------

_IDENTITY: Labels = {
    "id": lambda container: container.id,
    "name": lambda container: container.info.name,
    "service": lambda container: container.info.service or "",
}
"""The service is a label of every series, so that sums by service need no join."""

CONTAINER_METRICS: tuple[MetricSpec[ContainerSample], ...] = (
    _metric(
        "container_info",
        _one,
        "Runtime, image, service and pod of the container, as labels. Always 1.",
        {
            **_IDENTITY,
            "runtime": lambda container: container.rates.runtime,
            "image": lambda container: container.info.image or "",
            "pod": lambda container: container.rates.pod or "",
        },
    ),
    _metric(
        "container_power_watts",
        _power("watts"),
        "Power that the container adds to the idle power of its node, in watts.",
        {**_IDENTITY, "source": lambda container: container.power.source if container.power else ""},
    ),
    *_metrics(
        "container",
        _IDENTITY,
        ("restarts_total", "Restarts of the container since the agent first listed it.", "info.restarts"),
        ("cpu_seconds_total", "CPU time used by the container, in seconds."),
        ("cpu_user_seconds_total", "CPU time used by the container in user mode, in seconds."),
        ("cpu_system_seconds_total", "CPU time used by the container in kernel mode, in seconds."),
        (
            "cpu_throttled_seconds_total",
            "Time that the container was throttled by its CPU quota, in seconds, over all threads.",
        ),
        ("cpu_cores", "CPU usage of the container, in cores, over the last sample.", "rates.used.cpu_cores"),
        (
            "cpu_limit_cores",
            "CPU limit of the container, in cores, by quota and cpuset. Absent without a limit.",
            "rates.limit.cpu_cores",
        ),
        ("cpu_weight", "CPU weight of the container relative to the default of 1."),
        ("memory_usage_bytes", "Memory in use by the container, in bytes, including all page cache."),
        (
            "memory_working_set_bytes",
            "Memory in use by the container, in bytes, without inactive page cache.",
            "rates.used.memory_bytes",
        ),
        ("memory_anon_bytes", "Anonymous memory of the container, in bytes."),
        ("memory_file_bytes", "Page cache of the container, in bytes."),
        (
            "memory_limit_bytes",
            "Memory limit of the container, in bytes. Absent without a limit.",
            "rates.limit.memory_bytes",
        ),
        ("oom_kills_total", "Processes of the container that the kernel killed because memory ran out."),
        (
            "disk_bytes_per_second",
            "Disk throughput of the container, read and written bytes per second, over the last sample.",
            "rates.used.disk_bytes_per_second",
        ),
        (
            "disk_operations_per_second",
            "Disk reads and writes of the container, per second, over the last sample.",
        ),
        (
            "network_bytes_per_second",
            "Network traffic of the container, in bytes per second. Absent with host networking.",
            "rates.used.network_bytes_per_second",
        ),
        ("disk_read_bytes_total", "Bytes that the container read from disks."),
        ("disk_written_bytes_total", "Bytes that the container wrote to disks."),
        ("network_receive_bytes_total", "Bytes that the container received. Absent with host networking."),
        ("network_transmit_bytes_total", "Bytes that the container sent. Absent with host networking."),
        ("threads", "Threads of the container, over all processes.", "rates.pids"),
        (
            "power_idle_share_watts",
            "Container's share of the node's idle power, in watts. Not part of the container's power.",
            lambda each: (each.power.idle_watts or None) if each.power else None,
        ),
        ("power_error_ratio", "Expected relative error of the container's power.", _power("error_ratio")),
        (
            "energy_joules_total",
            "Energy that the container added to its node, in joules, since the agent first measured it.",
            _power("joules_total"),
        ),
    ),
)
CONTAINER_PRESSURE_METRICS: tuple[MetricSpec[tuple[ContainerSample, Resource, float | None]], ...] = (
    _metric(
        "container_pressure_ratio",
        itemgetter(2),
        "Share of time that at least one task of the container waited for the resource (PSI some).",
        {
            "id": lambda each: each[0].id,
            "name": lambda each: each[0].info.name,
            "service": lambda each: each[0].info.service or "",
            "resource": itemgetter(1),
        },
    ),
)
