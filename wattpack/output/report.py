"""Tables, units, and a report as text for the terminal."""

import shutil
import sys
from collections.abc import Iterator, Sequence

from wire.messages import ContainerState, NodeState, Report
from wire.resources import Resource, ratio
from wire.text import printable

_UNKNOWN = "-"
_SEPARATOR, _INDENT = "  ", "    "
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_ENERGY = (("MWh", 3.6e9), ("kWh", 3.6e6), ("Wh", 3600.0), ("mWh", 3.6))


def bytes_text(number: float | None, per: str = "") -> str:
    """`1.5 GiB`, or `-` if unknown."""
    if number is None:
        return _UNKNOWN
    unit = _BINARY[0]
    for unit in _BINARY:
        if number < _STEP or unit == _BINARY[-1]:
            break
        number /= _STEP
    return f"{number:.0f} {unit}{per}" if unit == _BINARY[0] else f"{number:.1f} {unit}{per}"


def count_text(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `no nodes`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def watts_text(watts: float, error_ratio: float) -> str:
    """`12.3 W ±4.5`: watts are never shown without their error."""
    return f"{watts:.2f} W ±{watts * error_ratio:.2f}"


def energy_text(joules: float | None) -> str:
    """`12.30 kWh`, `1.20 Wh`, `33.3 mWh`, `2.50 J`, or `-` if unknown."""
    if joules is None:
        return _UNKNOWN
    for unit, size in _ENERGY:
        if joules >= size:
            return f"{joules / size:.2f} {unit}"
    return f"{joules:.2f} J"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Align columns: the first to the left, the others to the right.

    A row that is wider than `width`, by default the terminal, continues on an indented line.
    """
    if width is None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    rows = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = list(_column_lines(widths, width))
    aligned = (
        [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    )
    return [f"\n{_INDENT}".join(_SEPARATOR.join(row[line]).rstrip() for line in lines) for row in aligned]


def _column_lines(widths: Sequence[int], width: int | None) -> Iterator[slice]:
    """The columns of each line of a row."""
    first, used = 0, -len(_SEPARATOR)
    for column, needed in enumerate(widths):
        used += len(_SEPARATOR) + needed
        if width is not None and used > width and column > first:
            yield slice(first, column)
            first, used = column, len(_INDENT) + needed
    yield slice(first, len(widths))


def show_report(report: Report, most_containers: int | None = None) -> str:
    """The node in a few lines, its containers in a table, highest power first."""
    lines = [*_node_lines(report.node, report.state), ""] if report.state is not None else []
    if report.containers:
        ranked = sorted(report.containers, key=_sort_key, reverse=True)
        shown = ranked[:most_containers]
        lines += table(
            ("CONTAINER", "CPU CORES", "MEMORY", "DISK", "NETWORK", "POWER"), [_row(each) for each in shown]
        )
        if len(shown) < len(ranked):
            lines.append(f"... and {len(ranked) - len(shown)} more")
    else:
        lines.append("No running containers.")
    return "\n".join(lines)


def _sort_key(container: ContainerState) -> tuple[float, float, str]:
    return (
        container.power.watts if container.power else 0.0,
        container.used.cpu_cores or 0.0,
        container.name,
    )


def _row(container: ContainerState) -> tuple[str, ...]:
    used, power = container.used, container.power
    return (
        container.name,
        _UNKNOWN if used.cpu_cores is None else f"{used.cpu_cores:.3f}",
        bytes_text(used.memory_bytes),
        bytes_text(used.disk_bytes_per_second, "/s"),
        bytes_text(used.network_bytes_per_second, "/s"),
        _UNKNOWN if power is None else watts_text(power.watts, power.error_ratio),
    )


def _node_lines(name: str, node: NodeState) -> list[str]:
    used, capacity, power = node.used, node.capacity, node.power
    cpu = _UNKNOWN if used.cpu_cores is None else f"{used.cpu_cores:.2f}"
    memory = f"{bytes_text(used.memory_bytes)} of {bytes_text(capacity.memory_bytes)}"
    use = ", ".join(
        (
            f"{cpu} of {capacity.cpu_cores or 0:g} cores{_percent(node, Resource.CPU)}",
            f"memory {memory}{_percent(node, Resource.MEMORY)}",
            f"disk {bytes_text(used.disk_bytes_per_second, '/s')}",
            f"network {bytes_text(used.network_bytes_per_second, '/s')}",
        )
    )
    lines = [f"{name}: {use}"]
    if power is not None:
        containers = max(0.0, power.watts - power.idle_watts - power.system_watts)
        lines.append(
            f"power: {watts_text(power.watts, power.error_ratio)} at the wall by {power.source}"
            f" = idle {power.idle_watts:.2f} + system {power.system_watts:.2f} + containers {containers:.2f}"
        )
    return lines


def _percent(node: NodeState, resource: Resource) -> str:
    share = ratio(node.used, node.capacity, resource)
    return "" if share is None else f" ({share:.0%})"
