"""Bounds of what a node can claim about itself. Pure.

Capacity and power are bounded by limits, usage by the capacity, and samples by the time that passed.
Each function returns its argument itself if all of it is within the bounds.
"""

from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from collector.config import LimitsConfig
from wire.messages import ContainerPower, ContainerState, ContainerUsage, NodePower, NodeState, PowerCurve
from wire.resources import Quantities
from wire.sketch import Sketch, bin_of

Amount = TypeVar("Amount", int, float)

_TOLERANCE: Final = 1.25
"""A rate over a short interval can exceed the number of cores, because clocks have ticks."""
_ROUNDING: Final = 1.001
"""Parts of a sum can exceed the sum by the error of rounding."""
_CAPACITIES: Final = 256
"""How many different capacities are remembered."""


def bound_state(state: NodeState, limits: LimitsConfig) -> NodeState:
    """The node with its capacity and power bounded by limits, and its usage of CPU and memory by both."""
    capacity = _bound_capacity(state.capacity, limits)
    used = _bound_used(state.used, capacity)
    power = None if state.power is None else bound_node_power(state.power, limits.max_node_watts)
    if used is state.used and power is state.power and capacity is state.capacity:
        return state
    return msgspec.structs.replace(state, used=used, capacity=capacity, power=power)


def _bound_capacity(capacity: Quantities, limits: LimitsConfig) -> Quantities:
    most = limits.max_node_capacity
    pairs = zip(capacity.values, most.values, strict=True)
    if all(value is None or bound is None or value <= bound for value, bound in pairs):
        return capacity
    return Quantities(
        _least(capacity.cpu_cores, most.cpu_cores),
        _least(capacity.memory_bytes, most.memory_bytes),
        _least(capacity.disk_bytes_per_second, most.disk_bytes_per_second),
        _least(capacity.network_bytes_per_second, most.network_bytes_per_second),
    )


def _least(value: Amount | None, most: Amount | None) -> Amount | None:
    return value if value is None or most is None else min(value, most)


def bound_container(container: ContainerState, capacity: Quantities, max_watts: float) -> ContainerState:
    """The container with its CPU and memory usage bounded by the capacity of its node, and its power.

    Disk and network have no such bound: page cache and traffic between containers do not use the devices.
    """
    power = container.power
    used = _bound_used(container.used, capacity)
    # Most are within the bounds, and there are very many: the others are examined closely.
    if (
        power is not None
        and not power.watts + power.idle_watts <= max_watts >= power.watts * power.error_ratio
    ):
        power = _bound_container_power(power, max_watts)
    if used is container.used and power is container.power:
        return container
    return msgspec.structs.replace(container, used=used, power=power)


def bound_node_power(power: NodePower, max_watts: float) -> NodePower:
    """The power of a node, at most `max_watts`; its parts and its error are bounded by the whole."""
    watts = min(power.watts, max_watts)
    error_ratio = _bound_error(power.error_ratio, watts, max_watts)
    parts_add_up = power.idle_watts + power.system_watts <= _ROUNDING * watts
    if watts == power.watts and error_ratio == power.error_ratio and parts_add_up:
        return power
    idle_watts = min(power.idle_watts, watts)
    system_watts = min(power.system_watts, watts - idle_watts)
    return msgspec.structs.replace(
        power, watts=watts, idle_watts=idle_watts, system_watts=system_watts, error_ratio=error_ratio
    )


def _bound_container_power(power: ContainerPower, max_watts: float) -> ContainerPower:
    whole = power.watts + power.idle_watts
    error_ratio = _bound_error(power.error_ratio, power.watts, max_watts)
    if whole <= max_watts and error_ratio == power.error_ratio:
        return power
    share = min(1.0, max_watts / whole) if whole else 1.0
    return msgspec.structs.replace(
        power, watts=share * power.watts, idle_watts=share * power.idle_watts, error_ratio=error_ratio
    )


def _bound_error(error_ratio: float, watts: float, max_watts: float) -> float:
    """An error of no more than `max_watts`."""
    return min(error_ratio, max_watts / watts) if watts * error_ratio > max_watts else error_ratio


def bound_curve(curve: PowerCurve, max_watts: float) -> PowerCurve | None:
    """The power curve; None if it goes above `max_watts`."""
    highest = curve.idle_watts + max(curve.cpu_watts)
    highest += curve.memory_watts + curve.disk_watts + curve.network_watts
    if highest > max_watts:
        return None
    error_ratio = _bound_error(curve.error_ratio, highest, max_watts)
    if error_ratio == curve.error_ratio:
        return curve
    return msgspec.structs.replace(curve, error_ratio=error_ratio)


def bound_usage(usage: ContainerUsage, capacity: Quantities) -> ContainerUsage:
    """The usage with its samples of CPU and memory bounded by the capacity of the node."""
    cpu = _bound_sketch(usage.cpu, capacity.cpu_cores)
    memory = _bound_sketch(usage.memory, capacity.memory_bytes)
    if cpu is usage.cpu and memory is usage.memory:
        return usage
    return msgspec.structs.replace(usage, cpu=cpu, memory=memory)


def observed_seconds(usage: ContainerUsage, sample_seconds: float) -> float:
    """The time that the samples of a container claim, by the resource that has the most."""
    sketches = (usage.cpu, usage.memory, usage.disk, usage.network)
    return sample_seconds * max(each.count if each is not None else 0 for each in sketches)


def scale_samples(usage: ContainerUsage, ratio: float) -> ContainerUsage:
    """The usage with this share of its samples: their distribution stays the same."""
    sketches = (usage.cpu, usage.memory, usage.disk, usage.network)
    cpu, memory, disk, network = (
        None
        if each is None
        else Sketch(
            {index: kept for index, count in each.bins.items() if (kept := int(ratio * count))},
            int(ratio * each.zeros),
        )
        for each in sketches
    )
    return msgspec.structs.replace(usage, cpu=cpu, memory=memory, disk=disk, network=network)


def _bound_used(used: Quantities, capacity: Quantities) -> Quantities:
    cores, memory_bytes = used.cpu_cores, used.memory_bytes
    if cores and capacity.cpu_cores and cores > _TOLERANCE * capacity.cpu_cores:
        cores = capacity.cpu_cores
    if memory_bytes and capacity.memory_bytes and memory_bytes > _TOLERANCE * capacity.memory_bytes:
        memory_bytes = capacity.memory_bytes
    if cores is used.cpu_cores and memory_bytes is used.memory_bytes:
        return used
    return msgspec.structs.replace(used, cpu_cores=cores, memory_bytes=memory_bytes)


def _bound_sketch(sketch: Sketch | None, capacity: float | None) -> Sketch | None:
    if sketch is None or not capacity or not sketch.bins or max(sketch.bins) <= _highest_bin(capacity):
        return sketch
    bounded, highest = Sketch(zeros=sketch.zeros), bin_of(capacity)
    for reported, count in sketch.bins.items():
        index = min(reported, highest)
        bounded.bins[index] = bounded.bins.get(index, 0) + count
    return bounded


@lru_cache(_CAPACITIES)
def _highest_bin(capacity: float) -> int:
    """The highest bin of samples within a capacity. All containers of a node share it."""
    return bin_of(_TOLERANCE * capacity)
