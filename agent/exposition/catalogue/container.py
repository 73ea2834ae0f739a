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
    MetricSpec(
        name="wattpack_container_restarts_total",
        kind="counter",
        help="Restarts of the container since the agent first listed it.",
        labels=_IDENTITY,
        value=lambda container: container.info.restarts,
    ),
    MetricSpec(
        name="wattpack_container_cpu_seconds_total",
        kind="counter",
        help="CPU time used by the container, in seconds.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_user_seconds_total",
        kind="counter",
        help="CPU time used by the container in user mode, in seconds.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_user_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_system_seconds_total",
        kind="counter",
        help="CPU time used by the container in kernel mode, in seconds.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_system_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_throttled_seconds_total",
        kind="counter",
        help="Time that the container was throttled by its CPU quota, in seconds, over all threads.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_throttled_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_cores",
        kind="gauge",
        help="CPU usage of the container, in cores, over the last sample.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_container_cpu_limit_cores",
        kind="gauge",
        help="CPU limit of the container, in cores, by quota and cpuset. Absent without a limit.",
        labels=_IDENTITY,
        value=lambda container: container.rates.limit.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_container_cpu_weight",
        kind="gauge",
        help="CPU weight of the container relative to the default of 1.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_weight,
    ),
    MetricSpec(
        name="wattpack_container_memory_usage_bytes",
        kind="gauge",
        help="Memory in use by the container, in bytes, including all page cache.",
        labels=_IDENTITY,
        value=lambda container: container.rates.memory_usage_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_working_set_bytes",
        kind="gauge",
        help="Memory in use by the container, in bytes, without inactive page cache.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_anon_bytes",
        kind="gauge",
        help="Anonymous memory of the container, in bytes.",
        labels=_IDENTITY,
        value=lambda container: container.rates.memory_anon_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_file_bytes",
        kind="gauge",
        help="Page cache of the container, in bytes.",
        labels=_IDENTITY,
        value=lambda container: container.rates.memory_file_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_limit_bytes",
        kind="gauge",
        help="Memory limit of the container, in bytes. Absent without a limit.",
        labels=_IDENTITY,
        value=lambda container: container.rates.limit.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_container_oom_kills_total",
        kind="counter",
        help="Processes of the container that the kernel killed because memory ran out.",
        labels=_IDENTITY,
        value=lambda container: container.rates.oom_kills_total,
    ),
    MetricSpec(
        name="wattpack_container_disk_bytes_per_second",
        kind="gauge",
        help="Disk throughput of the container, read and written bytes per second, over the last sample.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_container_disk_operations_per_second",
        kind="gauge",
        help="Disk reads and writes of the container, per second, over the last sample.",
        labels=_IDENTITY,
        value=lambda container: container.rates.disk_operations_per_second,
    ),
    MetricSpec(
        name="wattpack_container_network_bytes_per_second",
        kind="gauge",
        help="Network traffic of the container, in bytes per second. Absent with host networking.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.network_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_container_disk_read_bytes_total",
        kind="counter",
        help="Bytes that the container read from disks.",
        labels=_IDENTITY,
        value=lambda container: container.rates.disk_read_bytes_total,
    ),
    MetricSpec(
        name="wattpack_container_disk_written_bytes_total",
        kind="counter",
        help="Bytes that the container wrote to disks.",
        labels=_IDENTITY,
        value=lambda container: container.rates.disk_written_bytes_total,
    ),
    MetricSpec(
        name="wattpack_container_network_receive_bytes_total",
        kind="counter",
        help="Bytes that the container received. Absent with host networking.",
        labels=_IDENTITY,
        value=lambda container: container.rates.network_receive_bytes_total,
    ),
    MetricSpec(
        name="wattpack_container_network_transmit_bytes_total",
        kind="counter",
        help="Bytes that the container sent. Absent with host networking.",
        labels=_IDENTITY,
        value=lambda container: container.rates.network_transmit_bytes_total,
    ),
    MetricSpec(
        name="wattpack_container_threads",
        kind="gauge",
        help="Threads of the container, over all processes.",
        labels=_IDENTITY,
        value=lambda container: container.rates.pids,
    ),
    MetricSpec(
        name="wattpack_container_power_watts",
        kind="gauge",
        help="Power that the container adds to the idle power of its node, in watts.",
        labels={**_IDENTITY, "source": lambda container: container.power.source if container.power else ""},
        value=lambda container: container.power.watts if container.power else None,
    ),
    MetricSpec(
        name="wattpack_container_power_idle_share_watts",
        kind="gauge",
        help="Container's share of the node's idle power, in watts. Not part of the container's power.",
        labels=_IDENTITY,
        value=lambda container: (container.power.idle_watts or None) if container.power else None,
    ),
    MetricSpec(
        name="wattpack_container_power_error_ratio",
        kind="gauge",
        help="Expected relative error of the container's power.",
        labels=_IDENTITY,
        value=lambda container: container.power.error_ratio if container.power else None,
    ),
    MetricSpec(
        name="wattpack_container_energy_joules_total",
        kind="counter",
        help="Energy that the container added to its node, in joules, since the agent first measured it.",
        labels=_IDENTITY,
        value=lambda container: container.power.joules_total if container.power else None,
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
