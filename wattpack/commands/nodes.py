"""`wattpack nodes`: a table of nodes."""

import argparse
from collections.abc import Callable, Mapping, Sequence

from wattpack.client.collector import Json, query_collector
from wattpack.client.listing import Columns, add_list_options, print_list
from wattpack.output.text import percent_text, seconds_text

_HEADER = ("NODE", "STATE", "LAST REPORT", "POWER", "CPU", "MEMORY", "CONTAINERS", "REGION")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", choices=("up", "suspect", "down"), help="only nodes in this state")
    parser.add_argument(
        "--region",
        choices=("LEE", "DEE", "EED"),
        help="only nodes with low, desired or degraded energy efficiency",
    )
    parser.add_argument(
        "--generation",
        choices=("any", "nursery", "young", "old"),
        help="only nodes of this GenPack generation",
    )
    parser.add_argument("--label", metavar="KEY[=VALUE]", help="only nodes with this label")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = query_collector(
        arguments,
        lambda collector: collector.get_all(
            "/v1/nodes",
            state=arguments.state,
            region=arguments.region,
            generation=arguments.generation,
            label=arguments.label,
        ),
    )
    is_filtered = any((arguments.state, arguments.region, arguments.generation, arguments.label))
    empty = (
        "No matching nodes. 'wattpack nodes' without options lists all of them."
        if is_filtered
        else "No nodes have reported yet. Start an agent on each host with: wattpack agent"
    )
    print_list(arguments, found, columns_of(found), empty)
    return 0


def columns_of(nodes: Sequence[Json]) -> Columns:
    """The columns of the table, without optional ones that have the default for all nodes."""
    optional = {
        title: cell
        for title, (cell, default) in _OPTIONAL.items()
        if any(cell(each) != default for each in nodes)
    }
    return Columns(
        (*_HEADER, *optional), lambda node: (*_row(node), *(cell(node) for cell in optional.values()))
    )


def _refused_text(node: Json) -> str:
    """How much the collector refused, by the limit that the node exceeded."""
    return ", ".join(f"{limit}: {count}" for limit, count in sorted(node["refused"].items())) or "-"


def _generation(node: Json) -> str:
    return str(node["placement"]["generation"])


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
    )


_OPTIONAL: Mapping[str, tuple[Callable[[Json], str], str]] = {
    "GENERATION": (_generation, "any"),
    "REFUSED": (_refused_text, "-"),
}
"""Columns that are shown only if a node differs from the default: the function of their text, the default."""
