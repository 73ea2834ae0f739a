"""`wattpack nodes`: a table of nodes."""

import argparse
from collections.abc import Callable, Mapping, Sequence

from wattpack.client.collector import Json, get_all
from wattpack.client.listing import Columns, add_list_options, print_list
from wattpack.config.arguments import add
from wattpack.output.text import percent_text, seconds_text

_HEADER = ("NODE", "STATE", "LAST REPORT", "POWER", "CPU", "MEMORY", "CONTAINERS", "USAGE")
_REGIONS = {"underused": "LEE", "efficient": "DEE", "overloaded": "EED"}
"""Words for the regions of energy efficiency of Energy4Cloud."""
_USAGES = {region: word for word, region in _REGIONS.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--state up|suspect|down", "only nodes in this state")
    usage = "only nodes with less than 50%% in use of CPU and memory, up to 85%% of the fuller one, or more"
    add(parser, f"--usage {'|'.join(_REGIONS)}", usage)
    add(parser, "--generation any|nursery|young|old", "only nodes of this GenPack generation")
    add(parser, "--label KEY[=VALUE]", "only nodes with this label")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    wanted = {name: getattr(arguments, name) for name in ("state", "generation", "label")}
    wanted["region"] = _REGIONS.get(arguments.usage)
    found = get_all(arguments, "/v1/nodes", **wanted)
    empty = (
        "No matching nodes. 'wattpack nodes' without options lists all of them."
        if any(wanted.values())
        else "No nodes have reported yet. Start an agent on each host with: wattpack agent"
    )
    return print_list(arguments, found, columns_of(found), empty)


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
        _USAGES[node["placement"]["region"]],
    )


_OPTIONAL: Mapping[str, tuple[Callable[[Json], str], str]] = {
    "GENERATION": (_generation, "any"),
    "REFUSED": (_refused_text, "-"),
}
"""Columns that are shown only if a node differs from the default: the function of their text, the default."""
