"""Every metric of the agent: its name, its meaning, and where in a report its value stands."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent.state import AgentState
from wire.catalogue import MetricSpec
from wire.messages import ContainerState, Gap, NodeState, Pressure
from wire.version import __version__

NODE_METRICS: tuple[MetricSpec[NodeState], ...] = (
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
        value=lambda node: node.used.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_node_cpu_capacity_cores",
        kind="gauge",
        help="CPU there is, in cores.",
        value=lambda node: node.capacity.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_node_memory_used_bytes",
        kind="gauge",
        help="Memory that is not available to a new process.",
        value=lambda node: node.used.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_node_memory_capacity_bytes",
        kind="gauge",
        help="Memory there is.",
        value=lambda node: node.capacity.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_node_disk_bytes_per_second",
        kind="gauge",
        help="Bytes read from and written to whole disks, per second, over the last sample.",
        value=lambda node: node.used.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_network_bytes_per_second",
        kind="gauge",
        help="Bytes received and sent over physical links, per second, over the last sample.",
        value=lambda node: node.used.network_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_node_network_capacity_bytes_per_second",
        kind="gauge",
        help="What the physical links can carry.",
        value=lambda node: node.capacity.network_bytes_per_second,
    ),
)

_WHO: dict[str, Callable[[ContainerState], str]] = {
    "id": lambda container: container.id,
    "name": lambda container: container.name,
}

CONTAINER_METRICS: tuple[MetricSpec[ContainerState], ...] = (
    MetricSpec(
        name="wattpack_container_info",
        kind="gauge",
        help="What the container is; always 1.",
        labels={
            **_WHO,
            "runtime": lambda container: container.runtime,
            "image": lambda container: container.image or "",
            "service": lambda container: container.service or "",
        },
        value=lambda _: 1,
    ),
    MetricSpec(
        name="wattpack_container_cpu_seconds_total",
        kind="counter",
        help="CPU time that the container used.",
        labels=_WHO,
        value=lambda container: container.cpu_seconds_total,
    ),
    MetricSpec(
        name="wattpack_container_cpu_cores",
        kind="gauge",
        help="CPU in use, in cores, over the last sample.",
        labels=_WHO,
        value=lambda container: container.used.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_container_cpu_limit_cores",
        kind="gauge",
        help="CPU that the container may use at most; absent where there is no limit.",
        labels=_WHO,
        value=lambda container: container.limit.cpu_cores,
    ),
    MetricSpec(
        name="wattpack_container_memory_working_set_bytes",
        kind="gauge",
        help="Memory in use without the inactive page cache.",
        labels=_WHO,
        value=lambda container: container.used.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_container_memory_limit_bytes",
        kind="gauge",
        help="Memory that the container may use at most; absent where there is no limit.",
        labels=_WHO,
        value=lambda container: container.limit.memory_bytes,
    ),
    MetricSpec(
        name="wattpack_container_disk_bytes_per_second",
        kind="gauge",
        help="Bytes read from and written to block devices, per second, over the last sample.",
        labels=_WHO,
        value=lambda container: container.used.disk_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_container_network_bytes_per_second",
        kind="gauge",
        help="Bytes received and sent, per second, over the last sample; absent on the host's network.",
        labels=_WHO,
        value=lambda container: container.used.network_bytes_per_second,
    ),
    MetricSpec(
        name="wattpack_container_power_watts",
        kind="gauge",
        help="Power that the container adds to what its node draws idle.",
        labels={**_WHO, "source": lambda container: container.power.source if container.power else ""},
        value=lambda container: container.power.watts if container.power else None,
    ),
    MetricSpec(
        name="wattpack_container_power_error_ratio",
        kind="gauge",
        help="Expected relative error of the container's power.",
        labels=_WHO,
        value=lambda container: container.power.error_ratio if container.power else None,
    ),
    MetricSpec(
        name="wattpack_container_energy_joules_total",
        kind="counter",
        help="Energy that the container added since the agent saw it first.",
        labels=_WHO,
        value=lambda container: container.power.joules_total if container.power else None,
    ),
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waited (None: the node), for what, and for which share of the time."""

    container: ContainerState | None
    resource: str
    ratio: float | None


def waiting(container: ContainerState | None, pressure: Pressure) -> Iterator[Waiting]:
    """One entry per resource that can be waited for."""
    yield Waiting(container, "cpu", pressure.cpu_ratio)
    yield Waiting(container, "memory", pressure.memory_ratio)
    yield Waiting(container, "disk", pressure.disk_ratio)


NODE_PRESSURE_METRICS: tuple[MetricSpec[Waiting], ...] = (
    MetricSpec(
        name="wattpack_node_pressure_ratio",
        kind="gauge",
        help="Share of the time in which something on the node waited for the resource (PSI some).",
        labels={"resource": lambda waiting: waiting.resource},
        value=lambda waiting: waiting.ratio,
    ),
)

CONTAINER_PRESSURE_METRICS: tuple[MetricSpec[Waiting], ...] = (
    MetricSpec(
        name="wattpack_container_pressure_ratio",
        kind="gauge",
        help="Share of the time in which something in the container waited for the resource (PSI some).",
        labels={
            "id": lambda waiting: waiting.container.id if waiting.container else "",
            "name": lambda waiting: waiting.container.name if waiting.container else "",
            "resource": lambda waiting: waiting.resource,
        },
        value=lambda waiting: waiting.ratio,
    ),
)

GAP_METRICS: tuple[MetricSpec[Gap], ...] = (
    MetricSpec(
        name="wattpack_agent_gap",
        kind="gauge",
        help="Something that the agent cannot see on this node; always 1.",
        labels={"what": lambda gap: gap.what, "why": lambda gap: gap.why},
        value=lambda _: 1,
    ),
)

AGENT_METRICS: tuple[MetricSpec[AgentState], ...] = (
    MetricSpec(
        name="wattpack_agent_build_info",
        kind="gauge",
        help="The agent that answers; always 1.",
        labels={"version": lambda _: __version__},
        value=lambda _: 1,
    ),
    MetricSpec(
        name="wattpack_agent_samples_total",
        kind="counter",
        help="Samples taken.",
        value=lambda agent: agent.samples,
    ),
    MetricSpec(
        name="wattpack_agent_missed_samples_total",
        kind="counter",
        help="Samples left out because the one before took too long.",
        value=lambda agent: agent.missed,
    ),
    MetricSpec(
        name="wattpack_agent_delivered_reports_total",
        kind="counter",
        help="Reports that the collector took.",
        value=lambda agent: agent.outbox.delivered,
    ),
    MetricSpec(
        name="wattpack_agent_dropped_reports_total",
        kind="counter",
        help="Reports given up: no more room to keep them, or refused for good.",
        value=lambda agent: agent.outbox.dropped,
    ),
    MetricSpec(
        name="wattpack_agent_queued_reports",
        kind="gauge",
        help="Reports that wait for the collector.",
        value=lambda agent: len(agent.outbox),
    ),
)
