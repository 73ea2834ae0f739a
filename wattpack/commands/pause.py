"""`wattpack pause`: the switch that stops all acting."""

import argparse
import re

from wattpack.client.control import add_collector_option, ask, told
from wire.errors import UserError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for", dest="span", metavar="TIME", help="such as 30m, 1h or 2d (default: until resumed)"
    )
    parser.add_argument("--why", default="", help="for those who look later")
    add_collector_option(parser)


def run(arguments: argparse.Namespace) -> int:
    body = {"seconds": None if arguments.span is None else seconds(arguments.span), "why": arguments.why}
    print(told(ask(arguments.collector, "POST", "/v1/pause", body)))
    return 0


def seconds(span: str) -> float:
    """A time as people write it; raises `UserError` where it is none."""
    found = _SPAN.fullmatch(span.strip().lower())
    if found is None or not float(found[1]):
        raise UserError(f"{span!r} is no time: write it as 90s, 30m, 1h or 2d")
    return float(found[1]) * _UNITS[found[2]]
