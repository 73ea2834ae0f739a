"""The lines above the table: nodes, usage, power and alerts. Pure."""

import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from wattpack.output.text import bytes_text, count_text, number_text, percent_text, watts_text
from wattpack.top.scene import DOWN, SUSPECT, Node, Scene
from wattpack.top.spans import Line, Style, bar, shortened, style_of
from wire.messages import NodePower, Pressure
from wire.resources import Quantities, Resource, ratio
from wire.text import printable

_LABEL_WIDTH = 8
_PERCENT_WIDTH = 6
_TEXT_WIDTH = 29
_PRESSURE_WIDTH = 13
_WIDEST_BAR = 60
_NARROWEST_BAR = 6


def title(scene: Scene, width: int) -> Line:
    """The name and capacity of the nodes, and the time."""
    whole = combine(scene.nodes)
    capacity = whole.capacity
    left = (
        f"{printable(whole.name)}: {capacity.cpu_cores or 0:g} cores, {bytes_text(capacity.memory_bytes)},"
        f" {count_text(len(scene.containers), 'container')}"
    )
    gaps = sum(len(node.gaps) for node in scene.nodes)
    clock = time.strftime("%H:%M:%S", time.localtime(scene.at))
    right = ", ".join((count_text(len(scene.alerts), "alert"), count_text(gaps, "gap"), clock))
    return ((f"{left.ljust(width - len(right) - 1)} {right}", Style.TITLE),)


def meters(scene: Scene, width: int) -> Iterator[Line]:
    """A bar per resource, and the power."""
    whole = combine(scene.nodes)
    used, capacity, pressure = whole.used, whole.capacity, whole.pressure
    cpu = f"{number_text(used.cpu_cores)} of {capacity.cpu_cores or 0:g} cores"
    memory = f"{bytes_text(used.memory_bytes)} of {bytes_text(capacity.memory_bytes)}"
    disk = bytes_text(used.disk_bytes_per_second, "/s")
    network, network_share = bytes_text(used.network_bytes_per_second, "/s"), None
    if capacity.network_bytes_per_second is not None and Resource.NETWORK not in whole.learned_capacities:
        network += f" of {bytes_text(capacity.network_bytes_per_second, '/s')}"
        network_share = ratio(used, capacity, Resource.NETWORK)
    yield _meter("CPU", ratio(used, capacity, Resource.CPU), cpu, pressure.cpu_ratio, width)
    yield _meter("MEMORY", ratio(used, capacity, Resource.MEMORY), memory, pressure.memory_ratio, width)
    # The throughput of a disk depends on the access pattern, so its bar shows the busy time.
    yield _meter("DISK", whole.disk_busy_ratio, disk, pressure.disk_ratio, width)
    yield _meter("NETWORK", network_share, network, None, width)
    yield _power([node.power for node in alive(scene.nodes) if node.power is not None])


def alerts(scene: Scene, width: int, max_lines: int) -> list[Line]:
    """Problems and alerts, in at most `max_lines` lines."""
    texts = [] if scene.problem is None else [printable(scene.problem)]
    several = len(scene.nodes) > 1
    texts += [
        printable(f"{alert.node}: {alert.evidence}" if several else alert.evidence) for alert in scene.alerts
    ]
    wrapped = [line for text in texts for line in _wrap(f"! {text}", width)]
    lines = wrapped if len(wrapped) <= max_lines else [shortened(f"! {text}", width) for text in texts]
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], f"! {len(lines) - max_lines + 1} more in a taller window"]
    return [((line, Style.HOT),) for line in lines]


def _wrap(text: str, width: int) -> list[str]:
    # Names contain hyphens and must stay in one piece.
    return textwrap.wrap(text, max(width, 4), subsequent_indent="  ", break_on_hyphens=False)


def alive(nodes: Iterable[Node]) -> list[Node]:
    """Nodes that are not down."""
    return [node for node in nodes if node.state != DOWN]


def combine(nodes: Sequence[Node]) -> Node:
    """A single node as it is; several as one, with sums and the highest pressure of those not down."""
    up = alive(nodes)
    if len(nodes) == len(up) == 1:
        return nodes[0]
    counts = [(state, sum(node.state == state for node in nodes)) for state in (SUSPECT, DOWN)]
    return Node(
        name=", ".join(
            (count_text(len(nodes), "node"), *(f"{count} {state}" for state, count in counts if count))
        ),
        used=_quantities([node.used for node in up], _sum),
        capacity=_quantities([node.capacity for node in up], _complete_sum),
        learned_capacities=tuple({resource for node in up for resource in node.learned_capacities}),
        pressure=Pressure(
            cpu_ratio=_highest(node.pressure.cpu_ratio for node in up),
            memory_ratio=_highest(node.pressure.memory_ratio for node in up),
            disk_ratio=_highest(node.pressure.disk_ratio for node in up),
        ),
        disk_busy_ratio=_highest(node.disk_busy_ratio for node in up),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _complete_sum(values: Iterable[float | None]) -> float | None:
    """The sum, unless a value is missing: a share of an incomplete capacity would be too high."""
    every = list(values)
    return None if None in every else _sum(every)


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _quantities(
    every: Sequence[Quantities], combined: Callable[[Iterable[float | None]], float | None]
) -> Quantities:
    cpu, memory, disk, network = (combined(each.of(resource) for each in every) for resource in Resource)
    return Quantities(cpu, None if memory is None else int(memory), disk, network)


def _meter(label: str, share: float | None, text: str, pressure: float | None, width: int) -> Line:
    room = width - _LABEL_WIDTH - _PERCENT_WIDTH - _TEXT_WIDTH - _PRESSURE_WIDTH
    drawn = bar(share, min(room, _WIDEST_BAR)) if room >= _NARROWEST_BAR else ""
    return (
        (label.ljust(_LABEL_WIDTH), Style.PLAIN),
        (drawn, style_of(share)),
        (f"{percent_text(share).rjust(_PERCENT_WIDTH - 1)} ", Style.PLAIN),
        (f" {text}".ljust(_TEXT_WIDTH), Style.PLAIN),
        ("" if pressure is None else f"pressure {pressure:.0%}", Style.PLAIN),
    )


def _source_text(power: NodePower) -> str:
    return power.source if power.source_scope == power.scope else f"{power.source} ({power.source_scope})"


def _power(powers: Sequence[NodePower]) -> Line:
    label = ("POWER".ljust(_LABEL_WIDTH), Style.PLAIN)
    watts = sum(power.watts for power in powers)
    if not watts:
        return (label, ("-", Style.FAINT))
    # Estimates of the same model err in the same direction, so errors add up.
    error_ratio = sum(power.watts * power.error_ratio for power in powers) / watts
    idle = sum(power.idle_watts for power in powers)
    system = sum(power.system_watts for power in powers)
    containers = max(0.0, watts - idle - system)
    sources = "+".join(sorted({_source_text(power) for power in powers}))
    parts = f" wall, {sources} = idle {idle:.2f} + system {system:.2f} + containers {containers:.2f}"
    return (label, (watts_text(watts, error_ratio), Style.TITLE), (parts, Style.PLAIN))
