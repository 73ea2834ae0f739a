"""`wattpack alerts`: what is short, quiet, hot or overbooked, as a table."""

import argparse

from wattpack.client.collector import Json, add_collector_options, from_collector, json_text, moment
from wattpack.output.report import table

_HEADER = ("ABOUT", "KIND", "RESOURCE", "SINCE (UTC)", "UNTIL (UTC)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="those too that are over")
    parser.add_argument(
        "--kind", choices=("node", "quiet", "service", "overbooked"), help="only those of this kind"
    )
    parser.add_argument("--node", metavar="NAME", help="only those of this node")
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    found = from_collector(
        arguments,
        lambda collector: collector.ask_all(
            "/v1/alerts",
            state="all" if arguments.all else "open",
            kind=arguments.kind,
            node=arguments.node,
        ),
    )
    if arguments.json:
        print(json_text(found))
    elif found:
        lines = table(_HEADER, [_row(each) for each in found])
        print(lines[0])
        for line, alert in zip(lines[1:], found, strict=True):
            print(line)
            print(f"    {alert['evidence']}")
    else:
        print("Nothing is wrong that anybody sees.")
    return 0


def _row(alert: Json) -> tuple[str, ...]:
    over = "lasts" if alert["state"] == "open" else moment(alert["closed_at"])
    return (alert["subject"], alert["kind"], alert["resource"] or "-", moment(alert["opened_at"]), over)
