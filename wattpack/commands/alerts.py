"""`wattpack alerts`: a table of alerts."""

import argparse
from collections.abc import Iterator

from wattpack.client.collector import Json, get_all
from wattpack.client.listing import add_list_options, more_lines
from wattpack.config.arguments import add
from wattpack.output.table import table
from wattpack.output.text import print_result, time_text

_HEADER = ("SUBJECT", "KIND", "RESOURCE", "OPENED (UTC)", "CLOSED (UTC)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--all", "include closed alerts")
    add(parser, "--kind node|quiet|service|overbooked|limit|duplicate|promise", "only alerts of this kind")
    add(parser, "--node NAME", "only alerts of this node")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = get_all(
        arguments,
        "/v1/alerts",
        state="all" if arguments.all else "open",
        kind=arguments.kind,
        node=arguments.node,
    )
    shown = found[: arguments.limit]
    which = "alerts" if arguments.all else "open alerts"
    empty = f"No {which} match." if arguments.kind or arguments.node else f"No {which}."
    return print_result(arguments, shown, _lines(found, shown) if shown else [empty])


def _lines(found: list[Json], shown: list[Json]) -> Iterator[str]:
    header, *rows = table(_HEADER, [_row(each) for each in shown])
    yield header
    for row, alert in zip(rows, shown, strict=True):
        yield row
        yield f"    {alert['evidence']}"
    yield from more_lines(found, shown)


def _row(alert: Json) -> tuple[str, ...]:
    closed = "open" if alert["state"] == "open" else time_text(alert["closed_at"])
    return (alert["subject"], alert["kind"], alert["resource"] or "-", time_text(alert["opened_at"]), closed)
