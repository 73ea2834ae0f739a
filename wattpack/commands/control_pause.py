"""`wattpack control pause`: pause the control loop."""

import argparse
import re

from wattpack.client.collector import Json, add_collector_options, post
from wattpack.config.arguments import add
from wattpack.output.text import print_result, time_text
from wire.errors import UserError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--for TIME", "duration, such as 30m, 1h or 2d (default: until resumed)", dest="duration")
    add(parser, "--reason REASON", "reason, shown in the status", default="")
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    seconds = None if arguments.duration is None else parse_duration(arguments.duration)
    status = post(arguments, "/v1/control", {"paused": True, "seconds": seconds, "why": arguments.reason})
    return print_result(arguments, status, [status_text(status)])


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `30m`, `1h` or `2d`; raises `UserError` for other text."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not float(found[1]):
        raise UserError(f"{text!r} is not a duration above 0: use a value such as 90s, 30m, 1h or 2d")
    return float(found[1]) * _UNITS[found[2]]


def status_text(status: Json) -> str:
    """The status of the control loop in one sentence."""
    if pause := status["pause"]:
        until = "'wattpack control resume'" if pause["until"] is None else f"{time_text(pause['until'])} UTC"
        reason = f" ({pause['why']})" if pause["why"] else ""
        return f"Paused until {until}{reason}. Steps in progress finish, no new step starts."
    if status["dry_run"]:
        return f"Dry run with the driver {status['driver']}: plans are recorded, not carried out."
    if status["lease_holder"]:
        return f"Standby: the collector {status['lease_holder']} holds the lease and carries out plans."
    return f"Active: the driver {status['driver']} carries out plans."
