"""A report as text for the terminal."""

from wattpack.output.table import table
from wattpack.output.text import bytes_text, watts_text
from wire.messages import ContainerState, NodeState, Report
from wire.resources import Resource, ratio

_UNKNOWN = "-"


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
