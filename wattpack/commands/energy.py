"""`wattpack energy`: energy over a period by node, container, service, label or day."""

import argparse
import time
from datetime import UTC, datetime

from wattpack.client.collector import Json, json_text, moment, query_collector
from wattpack.client.listing import add_list_options, print_more
from wattpack.output.report import energy_text, table
from wire.errors import UserError

_BY = ("node", "container", "service", "day")
_LABEL = "label:"
_DAY_SECONDS = 86_400.0
_MAX_DAYS = 36_500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        default="node",
        metavar="node|container|service|day|label:KEY",
        help="how to group (default: %(default)s)",
    )
    parser.add_argument("--days", type=float, default=1.0, metavar="N", help="the last N days (default: 1)")
    parser.add_argument(
        "--start", metavar="TIME", help="start of the period, such as 2026-05-01 or 2026-05-01T12:00 (UTC)"
    )
    parser.add_argument("--end", metavar="TIME", help="end of the period (default: now)")
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.by not in _BY and not arguments.by.startswith(_LABEL):
        raise UserError(f"--by {arguments.by}: use {', '.join(_BY)} or {_LABEL}KEY")
    end = time.time() if arguments.end is None else _time("--end", arguments.end)
    if not 0 < arguments.days <= _MAX_DAYS:
        raise UserError(f"--days {arguments.days:g}: use a number above 0 and up to {_MAX_DAYS}")
    start = (
        end - arguments.days * _DAY_SECONDS if arguments.start is None else _time("--start", arguments.start)
    )
    if start >= end:
        raise UserError(
            f"--start {moment(start)} is not before the end of the period, {moment(end)} UTC: give an earlier"
            " --start or a later --end"
        )
    found = query_collector(
        arguments,
        lambda collector: collector.get_all(
            "/v1/energy", key="accounts", by=arguments.by, start=repr(max(0.0, start)), end=repr(end)
        ),
    )
    shown = found[: arguments.limit]
    if arguments.json:
        print(json_text(shown))
    elif shown:
        print("\n".join(_table(arguments.by, shown)))
        print_more(found, shown)
        print(f"From {moment(start)} to {moment(end)} UTC, whole machines at the wall.")
    else:
        print(
            f"No data from {moment(start)} to {moment(end)} UTC. Agents report energy with each heartbeat,"
            " every five minutes by default."
        )
    return 0


def _time(option: str, text: str) -> float:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{option} {text}: use a time such as 2026-05-01 or 2026-05-01T12:00") from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _table(by: str, accounts: list[Json]) -> list[str]:
    if by in {"node", "day"}:
        header = (by.upper(), "ENERGY", "IDLE", "SYSTEM", "CONTAINERS")
        rows = [
            (
                each["key"],
                *(
                    energy_text(each[part])
                    for part in ("joules", "idle_joules", "system_joules", "containers_joules")
                ),
            )
            for each in accounts
        ]
        return table(header, rows)
    if by == "container":
        rows = [
            (
                each["name"] or each["key"],
                each["node"] or "-",
                each["service"] or "-",
                energy_text(each["joules"]),
            )
            for each in accounts
        ]
        return table(("CONTAINER", "NODE", "SERVICE", "ENERGY"), rows)
    rows = [
        ("(none)" if each["key"] is None else each["key"], energy_text(each["joules"])) for each in accounts
    ]
    return table((by.removeprefix(_LABEL).upper(), "ENERGY"), rows)
