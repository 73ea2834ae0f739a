"""Metrics of each container: some twenty-five series, so that thousands of hosts can be scraped."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.exposition.catalogue.node import ResourcePressure, resource_pressures
from agent.sampling.node_sample import ContainerSample
from wire.metrics import MetricSpec

_IDENTITY: dict[str, Callable[[ContainerSample], str]] = {
    "id": lambda container: container.id,
    "name": lambda container: container.info.name,
}

CONTAINER_METRICS: tuple[MetricSpec[ContainerSample], ...] = (
    MetricSpec(
        name="wattpack_container_info",
        kind="gauge",
        help="What the container is; always 1.",
        labels={
            **_IDENTITY,
            "runtime": lambda container: container.rates.runtime,
            "image": lambda container: container.info.image or "",
            "service": lambda container: container.info.service or "",
            "pod": lambda container: container.rates.pod or "",
        },
        value=lambda _: 1,
    ),
    MetricSpec(
        name="wattpack_container_restarts_total",
        kind="counter",
        help="How often the container was started again since the agent has known it.",
        labels=_IDENTITY,
        value=lambda container: container.info.restarts,
    ),
    MetricSpec(
        name="wattpack_container_cpu_seconds_total",
        kind="counter",
        help="CPU time that the container used.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_user_seconds_total",
        kind="counter",
        help="CPU time that the container's programs used.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_user_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_system_seconds_total",
        kind="counter",
        help="CPU time that the kernel used on behalf of the container.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_system_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_throttled_seconds_total",
        kind="counter",
        help="Time in which the container would have run but for its quota, over all its threads.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_throttled_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_cores",
        kind="gauge",
        help="CPU in use, in cores, over the last sample.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_container_cpu_limit_cores",
        kind="gauge",
        help="CPU that the container may use at most, by quota and by cores; absent where there is no limit.",
        labels=_IDENTITY,
        value=lambda container: container.rates.limit.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_container_cpu_weight",
        kind="gauge",
        help="The container's part where containers compete for the CPU; 1 is what each has by default.",
        labels=_IDENTITY,
        value=lambda container: container.rates.cpu_weight,
    ),
    MetricSpec(
        name="wattpack_container_memory_usage_bytes",
        kind="gauge",
        help="Memory in use, with all of the page cache.",
        labels=_IDENTITY,
        value=lambda container: container.rates.memory_usage_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_working_set_bytes",
        kind="gauge",
        help="Memory in use without the inactive page cache.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_anon_bytes",
        kind="gauge",
        help="Memory that the container's programs have asked for.",
        labels=_IDENTITY,
        value=lambda container: container.rates.memory_anon_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_file_bytes",
        kind="gauge",
        help="Memory that holds files for the container.",
        labels=_IDENTITY,
        value=lambda container: container.rates.memory_file_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_limit_bytes",
        kind="gauge",
        help="Memory that the container may use at most; absent where there is no limit.",
        labels=_IDENTITY,
        value=lambda container: container.rates.limit.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_container_oom_kills_total",
        kind="counter",
        help="Processes of the container killed for want of memory.",
        labels=_IDENTITY,
        value=lambda container: container.rates.oom_kills_total,
    ),
    MetricSpec(
        name="wattpack_container_disk_bytes_per_second",
        kind="gauge",
        help="Bytes read from and written to block devices, per second, over the last sample.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_container_disk_operations_per_second",
        kind="gauge",
        help="Reads and writes of block devices, per second, over the last sample.",
        labels=_IDENTITY,
        value=lambda container: container.rates.disk_operations_per_second,
    ),
    MetricSpec(
        name="wattpack_container_network_bytes_per_second",
        kind="gauge",
        help="Bytes received and sent, per second, over the last sample; absent on the host's network.",
        labels=_IDENTITY,
        value=lambda container: container.rates.used.network_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_container_threads",
        kind="gauge",
        help="Processes of the container, and their threads.",
        labels=_IDENTITY,
        value=lambda container: container.rates.pids,
    ),
    MetricSpec(
        name="wattpack_container_power_watts",
        kind="gauge",
        help="Power that the container adds to what its node draws idle.",
        labels={**_IDENTITY, "source": lambda container: container.power.source if container.power else ""},
        value=lambda container: container.power.watts if container.power else None,
    ),
    MetricSpec(
        name="wattpack_container_power_idle_share_watts",
        kind="gauge",
        help="What the chosen policy puts on the container of its node's idle power; not in its own power.",
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
        help="Energy that the container added since the agent saw it first.",
        labels=_IDENTITY,
        value=lambda container: container.power.joules_total if container.power else None,
    ),
)


@dataclass(frozen=True, slots=True)
class ContainerPressure:
    """Who waited, for what, and for how long."""

    container: ContainerSample
    pressure: ResourcePressure


def container_pressures(container: ContainerSample) -> list[ContainerPressure]:
    """One entry per resource that can be waited for."""
    return [ContainerPressure(container, each) for each in resource_pressures(container.rates.pressure)]


CONTAINER_PRESSURE_METRICS: tuple[MetricSpec[ContainerPressure], ...] = (
    MetricSpec(
        name="wattpack_container_pressure_ratio",
        kind="gauge",
        help="Share of the time in which something in the container waited for the resource (PSI some).",
        labels={
            "id": lambda each: each.container.id,
            "name": lambda each: each.container.info.name,
            "resource": lambda each: each.pressure.resource,
        },
        value=lambda each: each.pressure.ratio,
    ),
)
