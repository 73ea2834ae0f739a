"""`wattpack nodes`: the nodes that a collector knows, as a table."""

import argparse

from wattpack.client.collector import (
    Json,
    add_collector_options,
    from_collector,
    json_text,
    percent_text,
    seconds_text,
)
from wattpack.output.report import table

_HEADER = ("NODE", "STATE", "HEARD", "WATTS", "CPU", "MEMORY", "CONTAINERS", "REGION", "GENERATION")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=("up", "suspect", "down"), help="only those in this state")
    parser.add_argument("--region", choices=("LEE", "DEE", "EED"), help="only those in this region")
    parser.add_argument(
        "--generation", choices=("any", "nursery", "young", "old"), help="only those of this generation"
    )
    parser.add_argument("--label", metavar="KEY[=VALUE]", help="only those with this label")
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = from_collector(
        arguments,
        lambda collector: collector.ask_all(
            "/v1/nodes",
            state=arguments.state,
            region=arguments.region,
            generation=arguments.generation,
            label=arguments.label,
        ),
    )
    if arguments.json:
        print(json_text(found))
    elif found:
        print("\n".join(table(_HEADER, [_row(each) for each in found])))
    else:
        print("No node is there: start agents with wattpack agent, or ask for others.")
    return 0


def _row(node: Json) -> tuple[str, ...]:
    power, ratios = node["power"], node["used_ratio"]
    return (
        node["name"],
        node["state"],
        f"{seconds_text(node['last_seen_seconds_ago'])} ago",
        "-" if power is None else f"{power['watts']:.1f} W ±{power['watts'] * power['error_ratio']:.1f}",
        percent_text(ratios.get("cpu_ratio")),
        percent_text(ratios.get("memory_ratio")),
        str(node["containers"]),
        node["placement"]["region"],
        node["placement"]["generation"],
    )
