"""`wattpack services`: a table of services."""

import argparse

from wattpack.client.collector import (
    Json,
    add_collector_options,
    json_text,
    number_text,
    percent_text,
    query_collector,
)
from wattpack.output.report import bytes_text, table

_HEADER = (
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
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--running", action="store_true", help="only services with running containers")
    parser.add_argument(
        "--dominant",
        choices=("cpu", "memory", "disk", "network"),
        help="only services with this dominant resource",
    )
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = query_collector(
        arguments,
        lambda collector: collector.get_all(
            "/v1/services", running="true" if arguments.running else None, dominant=arguments.dominant
        ),
    )
    if arguments.json:
        print(json_text(found))
    elif found:
        print("\n".join(table(_HEADER, [_row(each) for each in found])))
        print(
            "CPU NEED and MEMORY NEED are per container. POWER WEIGHT is the power of CPU time relative to"
            " the average of its nodes, learned where there is a meter."
        )
    else:
        print(
            "No matching service. Services come from Swarm, Compose and Kubernetes labels, and appear a"
            " minute after their start."
        )
    return 0


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
