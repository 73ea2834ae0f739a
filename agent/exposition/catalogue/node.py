"""Metrics of the node."""

from dataclasses import dataclass

from agent.sampling.node_sample import NodeSample
from agent.sampling.rates import DeviceTotals, Direction
from powermodels.common.interface import MeterState
from wire.messages import Pressure
from wire.metrics import MetricSpec
from wire.resources import Resource


def _source(node: NodeSample, resource: Resource) -> str:
    """Whether a capacity is declared by hardware or settings, or learned from the highest usage."""
    return "learned" if resource in node.rates.learned_capacities else "declared"


def _device_metric(direction: Direction, text: str) -> MetricSpec[DeviceTotals]:
    return MetricSpec(
        name=f"wattpack_node_{direction}_bytes_total",
        kind="counter",
        help=text,
        labels={"device": lambda each: each.device},
        value=lambda each: each.total_bytes if each.direction is direction else None,
    )


DEVICE_METRICS: tuple[MetricSpec[DeviceTotals], ...] = (
    _device_metric(Direction.READ, "Bytes read from the disk."),
    _device_metric(Direction.WRITTEN, "Bytes written to the disk."),
    _device_metric(Direction.RECEIVE, "Bytes received on the external network link."),
    _device_metric(Direction.TRANSMIT, "Bytes sent on the external network link."),
)

NODE_METRICS: tuple[MetricSpec[NodeSample], ...] = (
    MetricSpec(
        name="wattpack_node_power_watts",
        kind="gauge",
        help="Power of the whole machine, in watts, from the most direct source available. If source_scope is"
        " less than the machine, the rest is estimated.",
        labels={
            "source": lambda node: node.power.source if node.power else "",
            "source_scope": lambda node: node.power.source_scope if node.power else "",
        },
        value=lambda node: node.power.watts if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_power_error_ratio",
        kind="gauge",
        help="Expected relative error of the node's power: 0.25 means plus or minus 25%.",
        value=lambda node: node.power.error_ratio if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_power_idle_watts",
        kind="gauge",
        help="Power of the node without any load, in watts.",
        value=lambda node: node.power.idle_watts if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_power_system_watts",
        kind="gauge",
        help="Power of processes outside containers, in watts.",
        value=lambda node: node.power.system_watts if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_energy_joules_total",
        kind="counter",
        help="Energy used by the node, in joules. Continues after a restart of the agent.",
        value=lambda node: node.power.joules_total if node.power else None,
    ),
    MetricSpec(
        name="wattpack_node_cpu_cores",
        kind="gauge",
        help="CPU usage of the node, in cores, over the last sample.",
        value=lambda node: node.rates.used.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_node_cpu_capacity_cores",
        kind="gauge",
        help="CPU capacity of the node, in cores.",
        value=lambda node: node.rates.capacity.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_node_cpu_iowait_ratio",
        kind="gauge",
        help="Share of CPU time that was idle while tasks waited for disks.",
        value=lambda node: node.rates.iowait_ratio,
    ),
    MetricSpec(
        name="wattpack_node_cpu_steal_ratio",
        kind="gauge",
        help="Share of CPU time that the hypervisor gave to other virtual machines.",
        value=lambda node: node.rates.steal_ratio,
    ),
    MetricSpec(
        name="wattpack_node_cpu_frequency_hertz",
        kind="gauge",
        help="CPU clock rate, in hertz, averaged over cores.",
        value=lambda node: node.rates.frequency_hertz,
    ),
    MetricSpec(
        name="wattpack_node_load_1m",
        kind="gauge",
        help="Load average over 1 minute: tasks that run or wait.",
        value=lambda node: node.rates.load_1m,
    ),
    MetricSpec(
        name="wattpack_node_memory_used_bytes",
        kind="gauge",
        help="Memory in use on the node, in bytes, without reclaimable page cache.",
        value=lambda node: node.rates.used.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_node_memory_capacity_bytes",
        kind="gauge",
        help="Memory capacity of the node, in bytes.",
        value=lambda node: node.rates.capacity.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_node_memory_cache_bytes",
        kind="gauge",
        help="Page cache of the node, in bytes; most of it is reclaimable.",
        value=lambda node: node.rates.memory_cache_bytes,
    ),
    MetricSpec(
        name="wattpack_node_swap_used_bytes",
        kind="gauge",
        help="Swap in use on the node, in bytes.",
        value=lambda node: node.rates.swap_used_bytes,
    ),
    MetricSpec(
        name="wattpack_node_oom_kills_total",
        kind="counter",
        help="Processes that the kernel killed because memory ran out.",
        value=lambda node: node.rates.oom_kills_total,
    ),
    MetricSpec(
        name="wattpack_node_disk_bytes_per_second",
        kind="gauge",
        help="Disk throughput of the node, read and written bytes per second, over the last sample.",
        value=lambda node: node.rates.used.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_disk_capacity_bytes_per_second",
        kind="gauge",
        help="Disk throughput that all disks can reach together, in bytes per second.",
        labels={"source": lambda node: _source(node, Resource.DISK)},
        value=lambda node: node.rates.capacity.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_disk_operations_per_second",
        kind="gauge",
        help="Disk reads and writes of the node, per second, over the last sample.",
        value=lambda node: node.rates.disk_operations_per_second,
    ),
    MetricSpec(
        name="wattpack_node_disk_busy_ratio",
        kind="gauge",
        help="Share of time that the busiest disk was active.",
        value=lambda node: node.rates.disk_busy_ratio,
    ),
    MetricSpec(
        name="wattpack_node_network_bytes_per_second",
        kind="gauge",
        help="Network traffic of the node, received and sent bytes per second, over the last sample.",
        value=lambda node: node.rates.used.network_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_network_capacity_bytes_per_second",
        kind="gauge",
        help="Network traffic that all physical links can carry together, in bytes per second.",
        labels={"source": lambda node: _source(node, Resource.NETWORK)},
        value=lambda node: node.rates.capacity.network_bytes_per_second,
    ),
)


@dataclass(frozen=True, slots=True)
class ResourcePressure:
    """Share of time that tasks waited for a resource."""

    resource: Resource
    ratio: float | None


def resource_pressures(pressure: Pressure) -> tuple[ResourcePressure, ...]:
    """One entry per resource that the kernel measures pressure of."""
    return (
        ResourcePressure(Resource.CPU, pressure.cpu_ratio),
        ResourcePressure(Resource.MEMORY, pressure.memory_ratio),
        ResourcePressure(Resource.DISK, pressure.disk_ratio),
    )


NODE_PRESSURE_METRICS: tuple[MetricSpec[ResourcePressure], ...] = (
    MetricSpec(
        name="wattpack_node_pressure_ratio",
        kind="gauge",
        help="Share of time that at least one task on the node waited for the resource (PSI some).",
        labels={"resource": lambda pressure: pressure.resource},
        value=lambda pressure: pressure.ratio,
    ),
)

METER_METRICS: tuple[MetricSpec[MeterState], ...] = (
    MetricSpec(
        name="wattpack_node_meter_watts",
        kind="gauge",
        help="Power measured by each meter of the node, in watts; the node's power is estimated"
        " from the one with used=true.",
        labels={
            "meter": lambda meter: meter.name,
            "scope": lambda meter: meter.scope.value,
            "used": lambda meter: "true" if meter.used else "false",
        },
        value=lambda meter: meter.watts,
    ),
)
