"""`wattpack alerts`: a table of alerts."""

import argparse

from wattpack.client.collector import Json, query_collector
from wattpack.client.listing import add_list_options, print_more
from wattpack.output.table import table
from wattpack.output.text import json_text, time_text

_HEADER = ("SUBJECT", "KIND", "RESOURCE", "OPENED (UTC)", "CLOSED (UTC)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="include closed alerts")
    parser.add_argument(
        "--kind",
        choices=("node", "quiet", "service", "overbooked", "limit", "duplicate", "promise"),
        help="only alerts of this kind",
    )
    parser.add_argument("--node", metavar="NAME", help="only alerts of this node")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = query_collector(
        arguments,
        lambda collector: collector.get_all(
            "/v1/alerts",
            state="all" if arguments.all else "open",
            kind=arguments.kind,
            node=arguments.node,
        ),
    )
    shown = found[: arguments.limit]
    if arguments.json:
        print(json_text(shown))
    elif shown:
        lines = table(_HEADER, [_row(each) for each in shown])
        print(lines[0])
        for line, alert in zip(lines[1:], shown, strict=True):
            print(line)
            print(f"    {alert['evidence']}")
        print_more(found, shown)
    else:
        which = "alerts" if arguments.all else "open alerts"
        print(f"No {which} match." if arguments.kind or arguments.node else f"No {which}.")
    return 0


def _row(alert: Json) -> tuple[str, ...]:
    closed = "open" if alert["state"] == "open" else time_text(alert["closed_at"])
    return (alert["subject"], alert["kind"], alert["resource"] or "-", time_text(alert["opened_at"]), closed)
