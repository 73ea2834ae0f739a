"""Which field of a message is which series: one table for both directions.

Names and labels are those of the agents' own `/metrics`, so that pushed and scraped series look alike and one
dashboard shows both. A scrape adds `instance`; here it is the name of the node.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wire.messages import ContainerState, NodeState
from wire.resources import RESOURCES, Resource

INSTANCE: Final = "instance"
JOB: Final = {"job": "wattpack"}

SAMPLED_AT: Final = "wattpack_agent_sample_timestamp_seconds"
COUNTED_UNTIL: Final = "wattpack_agent_counted_until_seconds"
"""For nodes that push: the time of the last heartbeat, up to which `SAMPLED_METRICS` are complete."""
BUILD_INFO: Final = "wattpack_agent_build_info"
GAP: Final = "wattpack_agent_gap"
ALERT: Final = "wattpack_agent_alert"
INFO: Final = "wattpack_container_info"

USAGE_METRICS: Final = {
    Resource.CPU: "wattpack_container_cpu_cores",
    Resource.MEMORY: "wattpack_container_memory_working_set_bytes",
    Resource.DISK: "wattpack_container_disk_bytes_per_second",
    Resource.NETWORK: "wattpack_container_network_bytes_per_second",
}
"""The usage of a container, by resource."""
SAMPLED_SUFFIX: Final = "_sampled"
SAMPLED_METRICS: Final = {resource: USAGE_METRICS[resource] + SAMPLED_SUFFIX for resource in RESOURCES}
"""The same, with every sample in the agents' histograms."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetricField:
    """A number in a message, and its series."""

    metric: str
    path: tuple[str, ...]
    """The fields that lead to it; if one of them is None, so is the number."""
    labels: Labels = field(default_factory=dict)
    """Labels other than those of the node and container."""
    source: Callable[[Any], Labels] | None = None
    """The labels `source` and `source_scope` of a message that has this number, if the series has them."""
    is_count: bool = False
    """An integer."""

    def value(self, message: object) -> float | None:
        part: Any = message
        for name in self.path:
            if part is None:
                return None
            part = getattr(part, name)
        return None if part is None else float(part)


def _field(
    metric: str, path: str, *, source: Callable[[Any], Labels] | None = None, is_count: bool = False
) -> MetricField:
    return MetricField(metric, tuple(path.split(".")), source=source, is_count=is_count)


def _pressure(metric: str) -> Iterator[MetricField]:
    for resource in (Resource.CPU, Resource.MEMORY, Resource.DISK):
        yield MetricField(metric, ("pressure", f"{resource}_ratio"), labels={"resource": resource.value})


def _capacity_source(resource: Resource) -> Callable[[NodeState], Labels]:
    return lambda state: {"source": "learned" if resource in state.learned_capacities else "declared"}


NODE_FIELDS: Final = (
    _field(
        "wattpack_node_power_watts",
        "power.watts",
        source=lambda node: {"source": node.power.source, "source_scope": node.power.source_scope},
    ),
    _field("wattpack_node_power_error_ratio", "power.error_ratio"),
    _field("wattpack_node_power_idle_watts", "power.idle_watts"),
    _field("wattpack_node_power_system_watts", "power.system_watts"),
    _field("wattpack_node_energy_joules_total", "power.joules_total"),
    _field("wattpack_node_cpu_cores", "used.cpu_cores"),
    _field("wattpack_node_cpu_capacity_cores", "capacity.cpu_cores"),
    _field("wattpack_node_cpu_iowait_ratio", "iowait_ratio"),
    _field("wattpack_node_cpu_steal_ratio", "steal_ratio"),
    _field("wattpack_node_cpu_frequency_hertz", "frequency_hertz"),
    _field("wattpack_node_load_1m", "load_1m"),
    _field("wattpack_node_memory_used_bytes", "used.memory_bytes", is_count=True),
    _field("wattpack_node_memory_capacity_bytes", "capacity.memory_bytes", is_count=True),
    _field("wattpack_node_swap_used_bytes", "swap_used_bytes", is_count=True),
    _field("wattpack_node_oom_kills_total", "oom_kills_total", is_count=True),
    _field("wattpack_node_disk_bytes_per_second", "used.disk_bytes_per_second"),
    _field(
        "wattpack_node_disk_capacity_bytes_per_second",
        "capacity.disk_bytes_per_second",
        source=_capacity_source(Resource.DISK),
    ),
    _field("wattpack_node_disk_busy_ratio", "disk_busy_ratio"),
    _field("wattpack_node_network_bytes_per_second", "used.network_bytes_per_second"),
    _field(
        "wattpack_node_network_capacity_bytes_per_second",
        "capacity.network_bytes_per_second",
        source=_capacity_source(Resource.NETWORK),
    ),
    *_pressure("wattpack_node_pressure_ratio"),
)

CONTAINER_FIELDS: Final = (
    _field("wattpack_container_restarts_total", "restarts", is_count=True),
    _field("wattpack_container_cpu_seconds_total", "cpu_seconds_total"),
    _field("wattpack_container_cpu_throttled_seconds_total", "cpu_throttled_seconds_total"),
    _field(USAGE_METRICS[Resource.CPU], "used.cpu_cores"),
    _field("wattpack_container_cpu_limit_cores", "limit.cpu_cores"),
    _field(USAGE_METRICS[Resource.MEMORY], "used.memory_bytes", is_count=True),
    _field("wattpack_container_memory_limit_bytes", "limit.memory_bytes", is_count=True),
    _field("wattpack_container_oom_kills_total", "oom_kills_total", is_count=True),
    _field(USAGE_METRICS[Resource.DISK], "used.disk_bytes_per_second"),
    _field(USAGE_METRICS[Resource.NETWORK], "used.network_bytes_per_second"),
    _field("wattpack_container_power_watts", "power.watts", source=lambda of: {"source": of.power.source}),
    _field("wattpack_container_power_idle_share_watts", "power.idle_watts"),
    _field("wattpack_container_power_error_ratio", "power.error_ratio"),
    _field("wattpack_container_energy_joules_total", "power.joules_total"),
    *_pressure("wattpack_container_pressure_ratio"),
)


def identity_labels(container: ContainerState) -> Labels:
    """The labels that every series of a container has: the service is one, so that sums need no join."""
    return {"id": container.id, "name": container.name, "service": container.service or ""}


def info_labels(container: ContainerState) -> Labels:
    """The labels of `INFO`, the series that every container has."""
    return {
        **identity_labels(container),
        "runtime": container.runtime,
        "image": container.image or "",
    }
