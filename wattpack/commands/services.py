"""`wattpack services`: a table of services."""

import argparse

from wattpack.client.collector import Json, get_all
from wattpack.client.listing import Columns, add_list_options, print_list
from wattpack.config.arguments import add
from wattpack.output.text import bytes_text, number_text, percent_text

_HEADER = [
    "SERVICE",
    "CONTAINERS",
    "NODES",
    "WATTS",
    "POWER WEIGHT",
    "DOMINANT",
    "CONFIDENCE",
    "CPU NEED",
    "MEMORY NEED",
    "PROFILED",
]
_NOTE = (
    "CPU NEED and MEMORY NEED are per container. POWER WEIGHT is the power of CPU time relative to the"
    " average of its nodes, learned where there is a meter."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--running", "only services with running containers")
    add(parser, "--dominant cpu|memory|disk|network", "only services with this dominant resource")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    running = "true" if arguments.running else None
    found = get_all(arguments, "/v1/services", running=running, dominant=arguments.dominant)
    which = "matching" if running or arguments.dominant else "known"
    empty = (
        f"No {which} services. Services come from Swarm, Compose and Kubernetes labels, and appear a minute"
        " after their start."
    )
    return print_list(arguments, found, Columns(_HEADER, _row, _NOTE), empty)


def _row(service: Json) -> tuple[str, ...]:
    lead, need = service["dominant"], service["envelope"]["need"]
    return (
        service["name"],
        str(service["containers"]),
        str(service["nodes"]),
        number_text(service["watts"]),
        number_text(service["power_weight"]),
        "-" if lead is None else lead["resource"],
        percent_text(None if lead is None else lead["confidence"]),
        number_text(need.get("cpu_cores"), digits=3),
        bytes_text(need.get("memory_bytes")),
        "yes" if service["profiled"] else "not yet",
    )
