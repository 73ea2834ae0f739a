"""A picture in the words of the wire: the numbers that are averaged, and messages made of means. Pure."""

from agent.reporting.windows import Values
from agent.sampling.node_sample import ContainerSample, NodeSample
from wire.messages import (
    MAX_NAME_LENGTH,
    MAX_TEXT_LENGTH,
    ContainerPower,
    ContainerState,
    Gap,
    NodePower,
    NodeState,
    Pressure,
)
from wire.resources import RESOURCES, Quantities

SHORT_ID = 12
RESOURCE_COUNT = len(RESOURCES)
"""The first so many values of a host or a container are what it uses, in the order of `RESOURCES`."""


def name_of(text: str, container_id: str) -> str:
    """A name as the wire takes it; part of the id stands in for one that is empty."""
    return (text or container_id[:SHORT_ID])[:MAX_NAME_LENGTH]


# --- Containers -----------------------------------------------------------------------------


def container_values(container: ContainerSample) -> Values:
    """What is averaged of a container; `container_state` puts it back in its places."""
    used, pressure = container.rates.used, container.rates.pressure
    return (
        used.cpu_cores,
        used.memory_bytes,
        used.disk_bytes_per_second,
        used.network_bytes_per_second,
        pressure.cpu_ratio,
        pressure.memory_ratio,
        pressure.disk_ratio,
        None if container.power is None else container.power.watts,
    )


CONTAINER_WIDTH = 8


def container_state(container: ContainerSample, mean: Values, window_seconds: float) -> ContainerState:
    """A container as it is now, with what it used on the mean over a window."""
    rates, info = container.rates, container.info
    return ContainerState(
        id=rates.id[:MAX_NAME_LENGTH],
        name=name_of(info.name, rates.id),
        runtime=rates.runtime[:MAX_NAME_LENGTH],
        cpu_seconds_total=round(rates.cpu_seconds_total, 3),
        used=_quantities(mean),
        window_seconds=_round(window_seconds),
        limit=rates.limit,
        pressure=_pressure(mean),
        power=_container_power(container.power, mean[7]),
        cpu_throttled_seconds_total=_round_seconds(rates.cpu_throttled_seconds_total),
        oom_kills_total=rates.oom_kills_total,
        restarts=info.restarts,
        image=info.image and info.image[:MAX_TEXT_LENGTH],
        service=info.service and info.service[:MAX_TEXT_LENGTH],
        labels={key[:MAX_TEXT_LENGTH]: value[:MAX_TEXT_LENGTH] for key, value in info.labels.items()},
        started_at=info.started_at,
    )


def _container_power(power: ContainerPower | None, watts: float | None) -> ContainerPower | None:
    if power is None or watts is None:
        return None
    return ContainerPower(
        _round(watts), power.source, power.error_ratio, round(power.joules_total, 2), _round(power.idle_watts)
    )


# --- The node -------------------------------------------------------------------------------


def node_values(sample: NodeSample) -> Values:
    """What is averaged of the node; `node_state` puts it back in its places."""
    rates, power = sample.rates, sample.power
    used, pressure = rates.used, rates.pressure
    return (
        used.cpu_cores,
        used.memory_bytes,
        used.disk_bytes_per_second,
        used.network_bytes_per_second,
        pressure.cpu_ratio,
        pressure.memory_ratio,
        pressure.disk_ratio,
        *((None, None, None) if power is None else (power.watts, power.idle_watts, power.system_watts)),
        rates.frequency_hertz,
        rates.iowait_ratio,
        rates.steal_ratio,
        rates.disk_busy_ratio,
    )


NODE_WIDTH = 14


def node_state(sample: NodeSample, mean: Values, window_seconds: float) -> NodeState:
    """The node as it is now, with what it used on the mean over a window."""
    rates = sample.rates
    frequency_hertz, iowait_ratio, steal_ratio, disk_busy_ratio = (
        _round_or_none(value) for value in mean[10:]
    )
    return NodeState(
        used=_quantities(mean),
        capacity=rates.capacity,
        window_seconds=_round(window_seconds),
        learned_capacities=rates.learned_capacities,
        pressure=_pressure(mean),
        power=_node_power(sample.power, mean),
        load_1m=rates.load_1m,
        frequency_hertz=frequency_hertz,
        iowait_ratio=iowait_ratio,
        steal_ratio=steal_ratio,
        swap_used_bytes=rates.swap_used_bytes,
        disk_busy_ratio=disk_busy_ratio,
        oom_kills_total=rates.oom_kills_total,
        gaps=tuple(Gap(gap.what[:MAX_TEXT_LENGTH], gap.why[:MAX_TEXT_LENGTH]) for gap in sample.gaps),
    )


def _node_power(power: NodePower | None, mean: Values) -> NodePower | None:
    watts, idle_watts, system_watts = mean[7:10]
    if power is None or watts is None or idle_watts is None or system_watts is None:
        return None
    return NodePower(
        watts=_round(watts),
        idle_watts=_round(idle_watts),
        system_watts=_round(system_watts),
        source=power.source,
        error_ratio=power.error_ratio,
        joules_total=round(power.joules_total, 2),
    )


# --- Numbers --------------------------------------------------------------------------------


def _quantities(mean: Values) -> Quantities:
    cpu_cores, memory_bytes, disk, network = (_round_or_none(value) for value in mean[:RESOURCE_COUNT])
    return Quantities(cpu_cores, None if memory_bytes is None else round(memory_bytes), disk, network)


def _pressure(mean: Values) -> Pressure:
    return Pressure(*(_round_or_none(value) for value in mean[RESOURCE_COUNT : RESOURCE_COUNT + 3]))


def _round(value: float) -> float:
    """Six digits: more than any of this is known to, and noise does not compress."""
    return float(f"{value:.6g}")


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else _round(value)


def _round_seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
