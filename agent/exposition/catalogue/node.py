"""Metrics of the node."""

from dataclasses import dataclass

from agent.sampling.node_sample import NodeSample
from powermodels.common.interface import MeterState
from wire.messages import Pressure
from wire.metrics import MetricSpec
from wire.resources import Resource


def _source(node: NodeSample, resource: Resource) -> str:
    """Where a capacity comes from."""
    return "learned" if resource in node.rates.learned_capacities else "told"


NODE_METRICS: tuple[MetricSpec[NodeSample], ...] = (
    MetricSpec(
        name="wattpack_node_power_watts",
        kind="gauge",
        help="Power that the node draws, by the best source there is.",
        labels={"source": lambda node: node.power.source if node.power else ""},
        value=lambda node: node.power.watts if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_power_error_ratio",
        kind="gauge",
        help="Expected relative error of the node's power: 0.25 means a quarter more or less.",
        value=lambda node: node.power.error_ratio if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_power_idle_watts",
        kind="gauge",
        help="The part of the node's power that it would draw with nothing to do.",
        value=lambda node: node.power.idle_watts if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_power_system_watts",
        kind="gauge",
        help="The part of the node's power due to work outside of any container.",
        value=lambda node: node.power.system_watts if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_energy_joules_total",
        kind="counter",
        help="Energy that the node used since the agent started.",
        value=lambda node: node.power.joules_total if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_cpu_cores",
        kind="gauge",
        help="CPU in use, in cores, over the last sample.",
        value=lambda node: node.rates.used.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_node_cpu_capacity_cores",
        kind="gauge",
        help="CPU there is, in cores.",
        value=lambda node: node.rates.capacity.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_node_cpu_iowait_ratio",
        kind="gauge",
        help="Share of the CPU time that was idle while something waited for a disk.",
        value=lambda node: node.rates.iowait_ratio,
    ),
    MetricSpec(
        name="wattpack_node_cpu_steal_ratio",
        kind="gauge",
        help="Share of the CPU time that the hypervisor gave to another machine.",
        value=lambda node: node.rates.steal_ratio,
    ),
    MetricSpec(
        name="wattpack_node_cpu_frequency_hertz",
        kind="gauge",
        help="Clock rate of the processors, the mean over cores.",
        value=lambda node: node.rates.frequency_hertz,
    ),
    MetricSpec(
        name="wattpack_node_load_1m",
        kind="gauge",
        help="Tasks that ran or waited to, the mean over a minute.",
        value=lambda node: node.rates.load_1m,
    ),
    MetricSpec(
        name="wattpack_node_memory_used_bytes",
        kind="gauge",
        help="Memory that is not available to a new process.",
        value=lambda node: node.rates.used.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_node_memory_capacity_bytes",
        kind="gauge",
        help="Memory there is.",
        value=lambda node: node.rates.capacity.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_node_memory_cache_bytes",
        kind="gauge",
        help="Memory that holds files, most of which can be dropped at need.",
        value=lambda node: node.rates.memory_cache_bytes,
    ),
    MetricSpec(
        name="wattpack_node_swap_used_bytes",
        kind="gauge",
        help="Swap in use.",
        value=lambda node: node.rates.swap_used_bytes,
    ),
    MetricSpec(
        name="wattpack_node_oom_kills_total",
        kind="counter",
        help="Processes killed for want of memory.",
        value=lambda node: node.rates.oom_kills_total,
    ),
    MetricSpec(
        name="wattpack_node_disk_bytes_per_second",
        kind="gauge",
        help="Bytes read from and written to whole disks, per second, over the last sample.",
        value=lambda node: node.rates.used.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_disk_capacity_bytes_per_second",
        kind="gauge",
        help="What the disks can do together.",
        labels={"source": lambda node: _source(node, Resource.DISK)},
        value=lambda node: node.rates.capacity.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_disk_operations_per_second",
        kind="gauge",
        help="Reads and writes of whole disks, per second, over the last sample.",
        value=lambda node: node.rates.disk_operations_per_second,
    ),
    MetricSpec(
        name="wattpack_node_disk_busy_ratio",
        kind="gauge",
        help="Share of the time in which the busiest disk had something to do.",
        value=lambda node: node.rates.disk_busy_ratio,
    ),
    MetricSpec(
        name="wattpack_node_network_bytes_per_second",
        kind="gauge",
        help="Bytes received and sent over physical links, per second, over the last sample.",
        value=lambda node: node.rates.used.network_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_network_capacity_bytes_per_second",
        kind="gauge",
        help="What the physical links can carry.",
        labels={"source": lambda node: _source(node, Resource.NETWORK)},
        value=lambda node: node.rates.capacity.network_bytes_per_second,
    ),
)


@dataclass(frozen=True, slots=True)
class ResourcePressure:
    """For what was waited, and for which share of the time."""

    resource: Resource
    ratio: float | None


def resource_pressures(pressure: Pressure) -> tuple[ResourcePressure, ...]:
    """One entry per resource that can be waited for."""
    return (
        ResourcePressure(Resource.CPU, pressure.cpu_ratio),
        ResourcePressure(Resource.MEMORY, pressure.memory_ratio),
        ResourcePressure(Resource.DISK, pressure.disk_ratio),
    )


NODE_PRESSURE_METRICS: tuple[MetricSpec[ResourcePressure], ...] = (
    MetricSpec(
        name="wattpack_node_pressure_ratio",
        kind="gauge",
        help="Share of the time in which something on the node waited for the resource (PSI some).",
        labels={"resource": lambda pressure: pressure.resource},
        value=lambda pressure: pressure.ratio,
    ),
)

METER_METRICS: tuple[MetricSpec[MeterState], ...] = (
    MetricSpec(
        name="wattpack_node_meter_watts",
        kind="gauge",
        help="Power by each meter that the node has, whether it is the one that is believed or not.",
        labels={
            "meter": lambda meter: meter.name,
            "scope": lambda meter: meter.scope.value,
            "used": lambda meter: "true" if meter.used else "false",
        },
        value=lambda meter: meter.watts,
    ),
)
