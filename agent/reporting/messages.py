"""Converts a sample to messages: the values that are averaged, and messages with their means. Pure."""

from agent.reporting.windows import Values
from agent.sampling.node_sample import ContainerSample, NodeSample, display_name
from wire.messages import (
    AVERAGE_WEIGHT,
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

RESOURCE_COUNT = len(RESOURCES)
"""Number of values at the front that are usage, in the order of `RESOURCES`."""
_NO_PRESSURE = Pressure()


# --- Containers -----------------------------------------------------------------------------


def container_values(container: ContainerSample) -> Values:
    """The values of a container that are averaged; `container_state` takes their means."""
    watts = None if container.power is None else container.power.watts
    return (*container.rates.used.values, *container.rates.pressure.values, watts)


CONTAINER_WIDTH = 8


def container_state(container: ContainerSample, mean: Values, window_seconds: float) -> ContainerState:
    """The current state of a container, with means over a window."""
    rates, info = container.rates, container.info
    return ContainerState(
        id=rates.id[:MAX_NAME_LENGTH],
        name=display_name(info.name, rates.id),
        runtime=rates.runtime[:MAX_NAME_LENGTH],
        cpu_seconds_total=round(rates.cpu_seconds_total, 3),
        used=_quantities(mean),
        window_seconds=_round(window_seconds),
        limit=rates.limit,
        pressure=_pressure(mean),
        power=_container_power(container.power, mean[7]),
        cpu_throttled_seconds_total=None
        if rates.cpu_throttled_seconds_total is None
        else round(rates.cpu_throttled_seconds_total, 3),
        oom_kills_total=rates.oom_kills_total,
        restarts=info.restarts,
        image=info.image,
        service=info.service,
        labels=info.labels,
        started_at=container.started_at,
    )


def _container_power(power: ContainerPower | None, watts: float | None) -> ContainerPower | None:
    if power is None or watts is None:
        return None
    # One digit: it is stored with the facts of a container, which should rarely change.
    weight = round(power.power_weight, 1)
    return ContainerPower(
        watts=_round(watts),
        source=power.source,
        error_ratio=power.error_ratio,
        joules_total=round(power.joules_total, 2),
        idle_watts=_round(power.idle_watts),
        power_weight=AVERAGE_WEIGHT if weight == AVERAGE_WEIGHT else weight,
    )


# --- The node -------------------------------------------------------------------------------


def node_values(sample: NodeSample) -> Values:
    """The values of the node that are averaged; `node_state` takes their means."""
    rates, power = sample.rates, sample.power
    return (
        *rates.used.values,
        *rates.pressure.values,
        *((None, None, None) if power is None else (power.watts, power.idle_watts, power.system_watts)),
        rates.frequency_hertz,
        rates.iowait_ratio,
        rates.steal_ratio,
        rates.disk_busy_ratio,
    )


NODE_WIDTH = 14


def node_state(sample: NodeSample, mean: Values, window_seconds: float) -> NodeState:
    """The current state of the node, with means over a window."""
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
        source_scope=power.source_scope,
    )


# --- Numbers --------------------------------------------------------------------------------


def _quantities(mean: Values) -> Quantities:
    cpu_cores, memory_bytes, disk, network = mean[:RESOURCE_COUNT]
    return Quantities(
        _round_or_none(cpu_cores),
        None if memory_bytes is None else round(_round(memory_bytes)),
        _round_or_none(disk),
        _round_or_none(network),
    )


def _pressure(mean: Values) -> Pressure:
    cpu, memory, disk = mean[RESOURCE_COUNT : RESOURCE_COUNT + 3]
    if cpu is None and memory is None and disk is None:
        return _NO_PRESSURE
    return Pressure(_round_or_none(cpu), _round_or_none(memory), _round_or_none(disk))


def _round(value: float) -> float:
    """Round to six digits: more than the precision of any value, and noise does not compress."""
    return float(f"{value:.6g}")


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else _round(value)
