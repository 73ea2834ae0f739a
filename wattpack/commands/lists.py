"""`wattpack nodes`, `containers` and `alerts`: tables from the collector."""

import argparse
from collections.abc import Sequence

from wattpack.client.collector import Json, add_list_options, get_all, more_lines, print_list
from wattpack.commands import Functions
from wattpack.config.arguments import add
from wattpack.output.text import (
    Columns,
    at,
    bytes_text,
    columns_table,
    cores_text,
    number_text,
    percent_text,
    print_result,
    seconds_text,
    time_text,
)


def _wanted(arguments: argparse.Namespace, *names: str) -> dict[str, str | None]:
    """Options that are parameters of the request."""
    return {name: getattr(arguments, name) for name in names}


# --- Nodes --------------------------------------------------------------------------------------

_REGIONS = {"underused": "LEE", "efficient": "DEE", "overloaded": "EED"}
"""Words for the regions of energy efficiency of Energy4Cloud."""
_USAGES = {region: word for word, region in _REGIONS.items()}


def _add_node_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--state up|suspect|down", "only nodes in this state")
    usage = "only nodes with less than 50%% in use of CPU and memory, up to 85%% of the fuller one, or more"
    add(parser, f"--usage {'|'.join(_REGIONS)}", usage)
    add(parser, "--generation any|nursery|young|old", "only nodes of this GenPack generation")
    add(parser, "--label KEY[=VALUE]", "only nodes with this label")
    add_list_options(parser)


def _list_nodes(arguments: argparse.Namespace) -> int:
    wanted = _wanted(arguments, "state", "generation", "label") | {"region": _REGIONS.get(arguments.usage)}
    found = get_all(arguments, "/v1/nodes", **wanted)
    empty = (
        "No matching nodes. 'wattpack nodes' without options lists all of them."
        if any(wanted.values())
        else "No nodes have reported yet. Start an agent on each host with: wattpack agent"
    )
    return print_list(arguments, found, node_columns(found), empty)


def node_columns(nodes: Sequence[Json]) -> Columns:
    """The columns of the table, without optional ones that have the default for all nodes."""
    optional = {
        title: cell
        for title, (cell, default) in _OPTIONAL_NODE_COLUMNS.items()
        if any(cell(each) != default for each in nodes)
    }
    return {**_NODE_COLUMNS, **optional}


def _power_text(power: Json) -> str:
    return f"{power['watts']:.1f} W ±{power['watts'] * power['error_ratio']:.1f}"


def _refused_text(refused: Json) -> str:
    """How much the collector refused, by the limit that the node exceeded."""
    return ", ".join(f"{limit}: {count}" for limit, count in sorted(refused.items())) or "-"


_NODE_COLUMNS: Columns = {
    "NODE": at("name"),
    "STATE": at("state"),
    "LAST REPORT": at("last_seen_seconds_ago", lambda seconds: f"{seconds_text(seconds)} ago"),
    "POWER": at("power", _power_text),
    "CPU": at("used_ratio.cpu_ratio", percent_text),
    "MEMORY": at("used_ratio.memory_ratio", percent_text),
    "CONTAINERS": at("containers"),
    "USAGE": at("placement.region", _USAGES.__getitem__),
}
_OPTIONAL_NODE_COLUMNS = {
    "GENERATION": (at("placement.generation"), "any"),
    "REFUSED": (at("refused", _refused_text), "-"),
}
"""Columns that are shown only if a node differs from the default."""


# --- Containers ---------------------------------------------------------------------------------


def _node_text(container: Json) -> str:
    name, state = container["node"], container["node_state"]
    return str(name) if state == "up" else f"{name} ({state})"


_CONTAINER_COLUMNS: Columns = {
    "CONTAINER": at("name"),
    "NODE": _node_text,
    "SERVICE": at("service"),
    "WATTS": at("power.watts", number_text),
    "CPU": at("used.cpu_cores", cores_text),
    "CPU NEED": at("envelope.need.cpu_cores", cores_text),
    "MEMORY": at("used.memory_bytes", bytes_text),
    "MEMORY NEED": at("envelope.need.memory_bytes", bytes_text),
    "GROUP": at("group"),
}
_SORTS = {
    "watts": lambda each: -(each["power"] or {}).get("watts", 0.0),
    "cpu": lambda each: -each["used"].get("cpu_cores", 0.0),
    "memory": lambda each: -each["used"].get("memory_bytes", 0),
    "name": lambda each: each["name"],
}


def _add_container_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--node NAME", "only containers on this node")
    add(parser, "--name NAME", "only containers with this name")
    add(parser, "--service NAME", "only containers of this service")
    add(parser, "--label KEY[=VALUE]", "only containers with this label")
    add(parser, "--group NAME", "only containers of this group, such as cpu")
    add(parser, f"--sort {'|'.join(_SORTS)}", "sort order", default="watts")
    add_list_options(parser)


def _list_containers(arguments: argparse.Namespace) -> int:
    wanted = _wanted(arguments, "node", "name", "service", "label", "group")
    found = sorted(get_all(arguments, "/v1/containers", **wanted), key=_SORTS[arguments.sort])
    which = "matching" if any(wanted.values()) else "running"
    empty = f"No {which} containers. 'wattpack nodes' shows which nodes report."
    return print_list(arguments, found, _CONTAINER_COLUMNS, empty)


# --- Alerts -------------------------------------------------------------------------------------

_ALERT_COLUMNS: Columns = {
    "SUBJECT": at("subject"),
    "KIND": at("kind"),
    "RESOURCE": at("resource"),
    "OPENED (UTC)": at("opened_at", time_text),
    "CLOSED (UTC)": lambda each: "open" if each["state"] == "open" else time_text(each["closed_at"]),
}


def _add_alert_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--all", "include closed alerts")
    add(parser, "--kind node|quiet|service|overbooked|limit|duplicate|promise", "only alerts of this kind")
    add(parser, "--node NAME", "only alerts of this node")
    add_list_options(parser)


def _list_alerts(arguments: argparse.Namespace) -> int:
    wanted = _wanted(arguments, "kind", "node")
    found = get_all(arguments, "/v1/alerts", state="all" if arguments.all else "open", **wanted)
    shown = found[: arguments.limit]
    lines = (
        *columns_table(_ALERT_COLUMNS, shown, lambda each: [each["evidence"]]),
        *more_lines(found, shown),
    )
    which = "alerts" if arguments.all else "open alerts"
    empty = f"No {which} match." if any(wanted.values()) else f"No {which}."
    return print_result(arguments, shown, lines if shown else [empty])


FUNCTIONS = {
    "nodes": Functions(_add_node_arguments, _list_nodes),
    "containers": Functions(_add_container_arguments, _list_containers),
    "alerts": Functions(_add_alert_arguments, _list_alerts),
}
