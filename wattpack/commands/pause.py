"""`wattpack pause`: pause the control loop."""

import argparse
import re

from wattpack.client.collector import add_collector_options, query_collector
from wattpack.client.control import status_text
from wattpack.output.text import json_text
from wire.errors import UserError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="duration",
        metavar="TIME",
        help="duration, such as 30m, 1h or 2d (default: until 'wattpack resume')",
    )
    parser.add_argument("--reason", default="", help="reason, shown in the status")
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    seconds = None if arguments.duration is None else parse_duration(arguments.duration)
    body = {"seconds": seconds, "why": arguments.reason}
    status = query_collector(arguments, lambda collector: collector.post("/v1/pause", body))
    print(json_text(status) if arguments.json else status_text(status))
    return 0


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `30m`, `1h` or `2d`; raises `UserError` for other text."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not float(found[1]):
        raise UserError(f"{text!r} is not a duration above 0: use a value such as 90s, 30m, 1h or 2d")
    return float(found[1]) * _UNITS[found[2]]
