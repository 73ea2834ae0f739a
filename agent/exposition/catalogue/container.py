"""Metrics of each container: some thirty series, so that thousands of hosts can be scraped."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.exposition.catalogue.node import ResourcePressure, resource_pressures
from agent.sampling.node_sample import ContainerSample
from wire.metrics import MetricSpec

_IDENTITY: dict[str, Callable[[ContainerSample], str]] = {
    "id": lambda container: container.id,
    "name": lambda container: container.info.name,
    "service": lambda container: container.info.service or "",
}
"""The service is a label of every series, so that sums by service need no join."""


def _metric(
    name: str, text: str, value: Callable[[ContainerSample], float | None]
) -> MetricSpec[ContainerSample]:
    """A metric of a container; the name of a counter ends in `_total`."""
    return MetricSpec(
        name=f"wattpack_container_{name}",
        kind="counter" if name.endswith("_total") else "gauge",
        help=text,
        labels=_IDENTITY,
        value=value,
    )


CONTAINER_METRICS: tuple[MetricSpec[ContainerSample], ...] = (
    MetricSpec(
        name="wattpack_container_info",
        kind="gauge",
        help="Runtime, image, service and pod of the container, as labels. Always 1.",
        labels={
            **_IDENTITY,
            "runtime": lambda container: container.rates.runtime,
            "image": lambda container: container.info.image or "",
            "pod": lambda container: container.rates.pod or "",
        },
        value=lambda _: 1,
    ),
    _metric(
        "restarts_total",
        "Restarts of the container since the agent first listed it.",
        lambda each: each.info.restarts,
    ),
    _metric(
        "cpu_seconds_total",
        "CPU time used by the container, in seconds.",
        lambda each: each.rates.cpu_seconds_total,
    ),
    _metric(
        "cpu_user_seconds_total",
        "CPU time used by the container in user mode, in seconds.",
        lambda each: each.rates.cpu_user_seconds_total,
    ),
    _metric(
        "cpu_system_seconds_total",
        "CPU time used by the container in kernel mode, in seconds.",
        lambda each: each.rates.cpu_system_seconds_total,
    ),
    _metric(
        "cpu_throttled_seconds_total",
        "Time that the container was throttled by its CPU quota, in seconds, over all threads.",
        lambda each: each.rates.cpu_throttled_seconds_total,
    ),
    _metric(
        "cpu_cores",
        "CPU usage of the container, in cores, over the last sample.",
        lambda each: each.rates.used.cpu_cores,
    ),
    _metric(
        "cpu_limit_cores",
        "CPU limit of the container, in cores, by quota and cpuset. Absent without a limit.",
        lambda each: each.rates.limit.cpu_cores,
    ),
    _metric(
        "cpu_weight",
        "CPU weight of the container relative to the default of 1.",
        lambda each: each.rates.cpu_weight,
    ),
    _metric(
        "memory_usage_bytes",
        "Memory in use by the container, in bytes, including all page cache.",
        lambda each: each.rates.memory_usage_bytes,
    ),
    _metric(
        "memory_working_set_bytes",
        "Memory in use by the container, in bytes, without inactive page cache.",
        lambda each: each.rates.used.memory_bytes,
    ),
    _metric(
        "memory_anon_bytes",
        "Anonymous memory of the container, in bytes.",
        lambda each: each.rates.memory_anon_bytes,
    ),
    _metric(
        "memory_file_bytes",
        "Page cache of the container, in bytes.",
        lambda each: each.rates.memory_file_bytes,
    ),
    _metric(
        "memory_limit_bytes",
        "Memory limit of the container, in bytes. Absent without a limit.",
        lambda each: each.rates.limit.memory_bytes,
    ),
    _metric(
        "oom_kills_total",
        "Processes of the container that the kernel killed because memory ran out.",
        lambda each: each.rates.oom_kills_total,
    ),
    _metric(
        "disk_bytes_per_second",
        "Disk throughput of the container, read and written bytes per second, over the last sample.",
        lambda each: each.rates.used.disk_bytes_per_second,
    ),
    _metric(
        "disk_operations_per_second",
        "Disk reads and writes of the container, per second, over the last sample.",
        lambda each: each.rates.disk_operations_per_second,
    ),
    _metric(
        "network_bytes_per_second",
        "Network traffic of the container, in bytes per second. Absent with host networking.",
        lambda each: each.rates.used.network_bytes_per_second,
    ),
    _metric(
        "disk_read_bytes_total",
        "Bytes that the container read from disks.",
        lambda each: each.rates.disk_read_bytes_total,
    ),
    _metric(
        "disk_written_bytes_total",
        "Bytes that the container wrote to disks.",
        lambda each: each.rates.disk_written_bytes_total,
    ),
    _metric(
        "network_receive_bytes_total",
        "Bytes that the container received. Absent with host networking.",
        lambda each: each.rates.network_receive_bytes_total,
    ),
    _metric(
        "network_transmit_bytes_total",
        "Bytes that the container sent. Absent with host networking.",
        lambda each: each.rates.network_transmit_bytes_total,
    ),
    _metric("threads", "Threads of the container, over all processes.", lambda each: each.rates.pids),
    MetricSpec(
        name="wattpack_container_power_watts",
        kind="gauge",
        help="Power that the container adds to the idle power of its node, in watts.",
        labels={**_IDENTITY, "source": lambda container: container.power.source if container.power else ""},
        value=lambda container: container.power.watts if container.power else None,
    ),
    _metric(
        "power_idle_share_watts",
        "Container's share of the node's idle power, in watts. Not part of the container's power.",
        lambda each: (each.power.idle_watts or None) if each.power else None,
    ),
    _metric(
        "power_error_ratio",
        "Expected relative error of the container's power.",
        lambda each: each.power.error_ratio if each.power else None,
    ),
    _metric(
        "energy_joules_total",
        "Energy that the container added to its node, in joules, since the agent first measured it.",
        lambda each: each.power.joules_total if each.power else None,
    ),
)


@dataclass(frozen=True, slots=True)
class ContainerPressure:
    """Pressure of one resource in one container."""

    container: ContainerSample
    pressure: ResourcePressure


def container_pressures(container: ContainerSample) -> list[ContainerPressure]:
    """One entry per resource that the kernel measures pressure of."""
    return [ContainerPressure(container, each) for each in resource_pressures(container.rates.pressure)]


CONTAINER_PRESSURE_METRICS: tuple[MetricSpec[ContainerPressure], ...] = (
    MetricSpec(
        name="wattpack_container_pressure_ratio",
        kind="gauge",
        help="Share of time that at least one task of the container waited for the resource (PSI some).",
        labels={
            "id": lambda each: each.container.id,
            "name": lambda each: each.container.info.name,
            "service": lambda each: each.container.info.service or "",
            "resource": lambda each: each.pressure.resource,
        },
        value=lambda each: each.pressure.ratio,
    ),
)
