"""A picture in the words of the wire: the numbers that are averaged, and messages made of means. Pure."""

from agent.reporting.windows import Values
from agent.sampling.node_sample import ContainerPicture, Picture
from wire.messages import (
    LONGEST_NAME,
    LONGEST_TEXT,
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
    return (text or container_id[:SHORT_ID])[:LONGEST_NAME]


# --- Containers -----------------------------------------------------------------------------


def container_values(container: ContainerPicture) -> Values:
    """What is averaged of a container; `container_state` puts it back in its places."""
    used, pressure = container.sample.used, container.sample.pressure
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


def container_state(container: ContainerPicture, mean: Values, window_seconds: float) -> ContainerState:
    """A container as it is now, with what it used on the mean over a window."""
    sample, info = container.sample, container.info
    return ContainerState(
        id=sample.id[:LONGEST_NAME],
        name=name_of(info.name, sample.id),
        runtime=sample.runtime[:LONGEST_NAME],
        cpu_seconds_total=round(sample.cpu_seconds_total, 3),
        used=_quantities(mean),
        window_seconds=_brief(window_seconds),
        limit=sample.limit,
        pressure=_pressure(mean),
        power=_container_power(container.power, mean[7]),
        cpu_throttled_seconds_total=_round_seconds(sample.cpu_throttled_seconds_total),
        oom_kills_total=sample.oom_kills_total,
        restarts=info.restarts,
        image=info.image and info.image[:LONGEST_TEXT],
        service=info.service and info.service[:LONGEST_TEXT],
        labels={key[:LONGEST_TEXT]: value[:LONGEST_TEXT] for key, value in info.labels.items()},
        started_at=info.started_at,
    )


def _container_power(power: ContainerPower | None, watts: float | None) -> ContainerPower | None:
    if power is None or watts is None:
        return None
    return ContainerPower(
        _brief(watts), power.source, power.error_ratio, round(power.joules_total, 2), _brief(power.idle_watts)
    )


# --- The node -------------------------------------------------------------------------------


def node_values(picture: Picture) -> Values:
    """What is averaged of the node; `node_state` puts it back in its places."""
    sample, power = picture.sample, picture.power
    used, pressure = sample.used, sample.pressure
    return (
        used.cpu_cores,
        used.memory_bytes,
        used.disk_bytes_per_second,
        used.network_bytes_per_second,
        pressure.cpu_ratio,
        pressure.memory_ratio,
        pressure.disk_ratio,
        *((None, None, None) if power is None else (power.watts, power.idle_watts, power.system_watts)),
        sample.frequency_hertz,
        sample.iowait_ratio,
        sample.steal_ratio,
        sample.disk_busy_ratio,
    )


NODE_WIDTH = 14


def node_state(picture: Picture, mean: Values, window_seconds: float) -> NodeState:
    """The node as it is now, with what it used on the mean over a window."""
    sample = picture.sample
    frequency_hertz, iowait_ratio, steal_ratio, disk_busy_ratio = (
        _brief_or_none(value) for value in mean[10:]
    )
    return NodeState(
        used=_quantities(mean),
        capacity=sample.capacity,
        window_seconds=_brief(window_seconds),
        learned_capacities=sample.learned_capacities,
        pressure=_pressure(mean),
        power=_node_power(picture.power, mean),
        load_1m=sample.load_1m,
        frequency_hertz=frequency_hertz,
        iowait_ratio=iowait_ratio,
        steal_ratio=steal_ratio,
        swap_used_bytes=sample.swap_used_bytes,
        disk_busy_ratio=disk_busy_ratio,
        oom_kills_total=sample.oom_kills_total,
        gaps=tuple(Gap(gap.what[:LONGEST_TEXT], gap.why[:LONGEST_TEXT]) for gap in picture.gaps),
    )


def _node_power(power: NodePower | None, mean: Values) -> NodePower | None:
    watts, idle_watts, system_watts = mean[7:10]
    if power is None or watts is None or idle_watts is None or system_watts is None:
        return None
    return NodePower(
        watts=_brief(watts),
        idle_watts=_brief(idle_watts),
        system_watts=_brief(system_watts),
        source=power.source,
        error_ratio=power.error_ratio,
        joules_total=round(power.joules_total, 2),
    )


# --- Numbers --------------------------------------------------------------------------------


def _quantities(mean: Values) -> Quantities:
    cpu_cores, memory_bytes, disk, network = (_brief_or_none(value) for value in mean[:RESOURCE_COUNT])
    return Quantities(cpu_cores, None if memory_bytes is None else round(memory_bytes), disk, network)


def _pressure(mean: Values) -> Pressure:
    return Pressure(*(_brief_or_none(value) for value in mean[RESOURCE_COUNT : RESOURCE_COUNT + 3]))


def _brief(value: float) -> float:
    """Six digits: more than any of this is known to, and noise does not compress."""
    return float(f"{value:.6g}")


def _brief_or_none(value: float | None) -> float | None:
    return None if value is None else _brief(value)


def _round_seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
