"""`wattpack services`: what a collector has learnt of services, as a table."""

import argparse

from wattpack.client.collector import (
    Json,
    add_collector_options,
    from_collector,
    json_text,
    number_text,
    percent_text,
)
from wattpack.output.report import bytes_text, table

_HEADER = ("SERVICE", "CONTAINERS", "NODES", "WATTS", "DOMINANT", "SURE", "CPU need", "MEMORY need", "KNOWN")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--running", action="store_true", help="only those that run now")
    parser.add_argument(
        "--dominant", choices=("cpu", "memory", "disk", "network"), help="only those that this dominates"
    )
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = from_collector(
        arguments,
        lambda collector: collector.ask_all(
            "/v1/services", running="true" if arguments.running else None, dominant=arguments.dominant
        ),
    )
    if arguments.json:
        print(json_text(found))
    elif found:
        print("\n".join(table(_HEADER, [_row(each) for each in found])))
        print("What is needed is of one container.")
    else:
        print(
            "No such service is known: those of running containers are learnt within a minute, by the labels"
            " of Swarm, Compose and Kubernetes."
        )
    return 0


def _row(service: Json) -> tuple[str, ...]:
    lead, need = service["dominant"], service["envelope"]["need"]
    return (
        service["name"],
        str(service["containers"]),
        str(service["nodes"]),
        number_text(service["watts"]),
        "-" if lead is None else lead["resource"],
        percent_text(None if lead is None else lead["confidence"]),
        number_text(need.get("cpu_cores"), digits=3),
        bytes_text(need.get("memory_bytes")),
        "yes" if service["profiled"] else "not yet",
    )
