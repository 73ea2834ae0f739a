"""`wattpack network`: round-trip times between nodes, and clusters of near nodes."""

import argparse
from collections.abc import Iterable, Sequence
from statistics import median

from wattpack.client.collector import Json, add_collector_options, get
from wattpack.config.arguments import add
from wattpack.output.text import Columns, at, columns_table, count_text, percent_text, print_result, table

_MAX_NODES = 500
_WIDEST = 16
"""Nodes whose table fits on a terminal; of more, the table of their clusters is shown."""
_OFF = (
    "Round-trip times are not measured. Set mesh.enabled in collector.toml and in the agent.toml of each"
    " node, and open UDP port 9641 between the nodes."
)
_UNKNOWN, _SELF = "?", "-"
_DIGITS = ((0, 100.0), (1, 1.0), (2, 0.0))
"""Decimal places, from how many milliseconds on."""
_MARKS = {"measured": "", "estimated": "~"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--node NAME", "only the round-trip times of this node")
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.node is not None:
        found = get(arguments, f"/v1/network/{arguments.node}")
        trips = found["round_trips"]
        return print_result(arguments, found, columns_table(_NODE_COLUMNS, trips) if trips else [_OFF])
    found = get(arguments, "/v1/network", limit=str(_MAX_NODES))
    if not found["enabled"]:
        lines = [_OFF]
    else:
        lines = _lines(found) if found["nodes"] else ["No node has reported yet."]
    return print_result(arguments, found, lines)


def _lines(found: Json) -> list[str]:
    nodes = found["nodes"]
    clusters = _clusters(nodes)
    listed, groups = count_text(len(nodes), "node"), count_text(len(clusters), "cluster")
    total = f" of {found['total']}" if found["total"] > len(nodes) else ""
    summary = f"{listed}{total} in {groups} of near nodes."
    lines = [f"{summary} Median round-trip times over five minutes, in milliseconds:", ""]
    lines += _node_table(found) if len(nodes) <= _WIDEST else _cluster_table(found, clusters)
    lines.append("")
    for number, rows in enumerate(clusters, start=1):
        lines.append(f"cluster {number}: {', '.join(nodes[row]['name'] for row in rows)}")
    kinds = {kind for row in found["kinds"] for kind in row}
    if "estimated" in kinds:
        error = found["error_ratio"]
        within = "" if error is None else f", nine of ten within {error:.0%}"
        lines.append(f"~ estimated from the pairs that are measured{within}")
    if "unknown" in kinds:
        lines.append(f"{_UNKNOWN} unknown: check that mesh.enabled is set on both nodes and UDP passes")
    return lines


def _clusters(nodes: Sequence[Json]) -> list[list[int]]:
    """The rows of the nodes of each cluster."""
    found: dict[int, list[int]] = {}
    for row, node in enumerate(nodes):
        found.setdefault(node["cluster"], []).append(row)
    return list(found.values())


def _node_table(found: Json) -> list[str]:
    names = [node["name"] for node in found["nodes"]]
    rows = [
        (name, *(_SELF if row == column else _cell(found, row, column) for column in range(len(names))))
        for row, name in enumerate(names)
    ]
    return table(("", *names), rows)


def _cell(found: Json, row: int, column: int) -> str:
    seconds = found["p50_seconds"][row][column]
    return _UNKNOWN if seconds is None else _MARKS[found["kinds"][row][column]] + _milliseconds(seconds)


def _cluster_table(found: Json, clusters: Sequence[Sequence[int]]) -> list[str]:
    header = ("", *(f"cluster {number}" for number in range(1, len(clusters) + 1)))
    rows = [
        (
            f"cluster {number} ({count_text(len(here), 'node')})",
            *(_milliseconds(_median(found, here, there)) for there in clusters),
        )
        for number, here in enumerate(clusters, start=1)
    ]
    return table(header, rows)


def _median(found: Json, here: Iterable[int], there: Sequence[int]) -> float | None:
    known = [
        found["p50_seconds"][row][column]
        for row in here
        for column in there
        if row != column and found["p50_seconds"][row][column] is not None
    ]
    return median(known) if known else None


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    milliseconds = 1000 * seconds
    digits = next(digits for digits, least in _DIGITS if milliseconds >= least)
    return f"{milliseconds:.{digits}f}"


_NODE_COLUMNS: Columns = {
    "PEER": at("peer"),
    "KIND": at("kind"),
    "P50 MS": lambda each: _milliseconds(each["p50_seconds"]),
    "P95 MS": lambda each: _milliseconds(each["p95_seconds"]),
    "LOST": at("lost_ratio", percent_text),
}
