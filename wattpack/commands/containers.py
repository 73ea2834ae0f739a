"""`wattpack containers`: a table of containers."""

import argparse

from wattpack.client.collector import Json, get_all
from wattpack.client.listing import Columns, add_list_options, print_list
from wattpack.config.arguments import add
from wattpack.output.text import bytes_text, number_text

_HEADER = ("CONTAINER", "NODE", "SERVICE", "WATTS", "CPU", "CPU NEED", "MEMORY", "MEMORY NEED", "GROUP")
_SORTS = {
    "watts": lambda each: -(each["power"] or {}).get("watts", 0.0),
    "cpu": lambda each: -each["used"].get("cpu_cores", 0.0),
    "memory": lambda each: -each["used"].get("memory_bytes", 0),
    "name": lambda each: each["name"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--node NAME", "only containers on this node")
    add(parser, "--name NAME", "only containers with this name")
    add(parser, "--service NAME", "only containers of this service")
    add(parser, "--label KEY[=VALUE]", "only containers with this label")
    add(parser, "--group NAME", "only containers of this group, such as cpu")
    add(parser, f"--sort {'|'.join(_SORTS)}", "sort order", default="watts")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    wanted = {name: getattr(arguments, name) for name in ("node", "name", "service", "label", "group")}
    found = sorted(get_all(arguments, "/v1/containers", **wanted), key=_SORTS[arguments.sort])
    which = "matching" if any(wanted.values()) else "running"
    empty = f"No {which} containers. 'wattpack nodes' shows which nodes report."
    return print_list(arguments, found, Columns(_HEADER, _row), empty)


def _row(container: Json) -> tuple[str, ...]:
    used, need, power = container["used"], container["envelope"]["need"], container["power"]
    state = container["node_state"]
    return (
        container["name"],
        container["node"] if state == "up" else f"{container['node']} ({state})",
        container["service"] or "-",
        number_text(None if power is None else power["watts"]),
        number_text(used.get("cpu_cores"), digits=3),
        number_text(need.get("cpu_cores"), digits=3),
        bytes_text(used.get("memory_bytes")),
        bytes_text(need.get("memory_bytes")),
        container["group"] or "-",
    )
