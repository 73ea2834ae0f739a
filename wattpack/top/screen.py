"""Draws a scene into the lines of a terminal: header, table, footer. Pure."""

import shutil
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import terminal_size

from wattpack.output.text import bytes_text, count_text, number_text, percent_text, watts_text
from wattpack.top.rows import Column, Row, columns_for, rows_of
from wattpack.top.scene import DOWN, SUSPECT, Node, Scene
from wattpack.top.spans import Line, Style, bar, cut, plain, shortened, spaced, style_of
from wattpack.top.view import HELP, View, Viewport
from wire.messages import NodePower, Pressure
from wire.resources import Quantities, Resource, ratio
from wire.text import printable

_LOWEST_FOR_METERS = 14
_LINES_PER_ALERT_LINE = 6
_UNLIMITED = 1_000_000
_PIPE_WIDTH = 120
_MIN_ROWS = 3
_LABEL_WIDTH = 8
_PERCENT_WIDTH = 6
_TEXT_WIDTH = 29
_PRESSURE_WIDTH = 13
_WIDEST_BAR = 60
_NARROWEST_BAR = 6


@dataclass(frozen=True, slots=True)
class Screen:
    """Lines that fit the terminal."""

    lines: tuple[Line, ...]
    viewport: Viewport

    @property
    def text(self) -> str:
        """The lines without styles."""
        return "\n".join(plain(line).rstrip() for line in self.lines)


def draw(scene: Scene, view: View, width: int, height: int) -> Screen:
    """Draw for a terminal of this size."""
    rows = rows_of(scene, view)
    columns = columns_for(scene, view, rows, width)
    header = _header(scene, view, columns, width, height)
    help_lines: list[Line] = [
        ((line, Style.FAINT),) for line in (textwrap.wrap("; ".join(HELP), width) if view.help else ())
    ]
    viewport = Viewport(len(rows), max(0, height - len(header) - len(help_lines) - 1))
    table = _table(rows, scene, view, columns, viewport)
    padding: list[Line] = [()] * (viewport.visible - len(table))
    lines = [*header, *table, *padding, *help_lines, _footer(view, viewport, width)]
    return Screen(tuple(cut(line, width) for line in lines[:height]), viewport)


def draw_all(scene: Scene, view: View, size: terminal_size | None = None) -> str:
    """Draw without keys: all rows for a pipe or a file, or as many as fit on a terminal, at least three."""
    width, height = size or (shutil.get_terminal_size((_PIPE_WIDTH, 0)).columns, _UNLIMITED)
    rows = rows_of(scene, view)
    columns = columns_for(scene, view, rows, width)
    header = _header(scene, view, columns, width, height)
    viewport = Viewport(len(rows), max(_MIN_ROWS, height - len(header) - 2))
    lines = [*header, *_table(rows, scene, view, columns, viewport)]
    if len(rows) > viewport.visible:
        lines.append(((f"... and {len(rows) - viewport.visible} more", Style.FAINT),))
    return Screen(tuple(cut(line, width) for line in lines), viewport).text


def _header(scene: Scene, view: View, columns: Sequence[Column], width: int, height: int) -> list[Line]:
    head = tuple(
        (column.fit(column.title), Style.SORTED if column.sort == view.sort else Style.HEAD)
        for column in columns
    )
    return [
        _title(scene, width),
        *(_meters(scene, width) if height >= _LOWEST_FOR_METERS else ()),
        *_alerts(scene, width, max_lines=max(1, height // _LINES_PER_ALERT_LINE)),
        spaced(head, width),
    ]


def _table(
    rows: Sequence[Row], scene: Scene, view: View, columns: Sequence[Column], viewport: Viewport
) -> list[Line]:
    if not rows:
        nothing: Line = ((_empty_text(scene, view), Style.FAINT),)
        return [nothing][: viewport.visible]
    first = viewport.clamp(view.first)
    return [_line(row, columns) for row in rows[first : first + viewport.visible]]


def _empty_text(scene: Scene, view: View) -> str:
    if view.filter and (scene.nodes if view.nodes else scene.containers):
        return f"No name contains {view.filter!r}; Esc shows all."
    return "No node has reported yet." if view.nodes or not scene.nodes else "No running containers."


def _line(row: Row, columns: Sequence[Column]) -> Line:
    cells = (column.fit(column.cell(row)) for column in columns)
    return ((" ".join(cells), Style.FAINT if row.is_stale else Style.PLAIN),)


def _footer(view: View, viewport: Viewport, width: int) -> Line:
    if view.typing:
        return ((f"filter: {view.filter}_   Enter applies it, Esc shows all".ljust(width), Style.HEAD),)
    first = viewport.clamp(view.first)
    what = "nodes" if view.nodes else "containers"
    last = min(first + viewport.visible, viewport.rows)
    shown = f"{min(first + 1, viewport.rows)}-{last} of {viewport.rows} {what}"
    order = f"by {view.sort}{', reversed' if view.reverse else ''}"
    only = f", filter {view.filter!r}" if view.filter else ""
    left, right = f"{shown} {order}{only}", "? help, q quit"
    return ((f"{left.ljust(width - len(right) - 1)} {right}", Style.HEAD),)


# --- Header: nodes, usage, power and alerts ---------------------------------------------------


def _title(scene: Scene, width: int) -> Line:
    """The name and capacity of the nodes, and the time."""
    whole = _combine(scene.nodes)
    capacity = whole.capacity
    left = (
        f"{printable(whole.name)}: {capacity.cpu_cores or 0:g} cores, {bytes_text(capacity.memory_bytes)},"
        f" {count_text(len(scene.containers), 'container')}"
    )
    gaps = sum(len(node.gaps) for node in scene.nodes)
    clock = time.strftime("%H:%M:%S", time.localtime(scene.at))
    right = ", ".join((count_text(len(scene.alerts), "alert"), count_text(gaps, "gap"), clock))
    return ((f"{left.ljust(width - len(right) - 1)} {right}", Style.TITLE),)


def _meters(scene: Scene, width: int) -> Iterator[Line]:
    """A bar per resource, and the power."""
    whole = _combine(scene.nodes)
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
    yield _power([node.power for node in _alive(scene.nodes) if node.power is not None])


def _alerts(scene: Scene, width: int, max_lines: int) -> list[Line]:
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


def _alive(nodes: Iterable[Node]) -> list[Node]:
    """Nodes that are not down."""
    return [node for node in nodes if node.state != DOWN]


def _combine(nodes: Sequence[Node]) -> Node:
    """A single node as it is; several as one, with sums and the highest pressure of those not down."""
    up = _alive(nodes)
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
        pressure=Pressure(*map(_highest, zip(*(node.pressure.values for node in up), strict=True))),
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
