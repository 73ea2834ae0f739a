"""`wattpack services slo`: the availability of services and their promises, now or in a recorded log."""

import argparse
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from collector.features.promises.recorded import LogAvailability, RecordedLog, apply_log, class_of, parse_log
from wattpack.client.collector import Json, get_all
from wattpack.client.listing import Columns, add_list_options, print_list
from wattpack.config.arguments import above_zero, add
from wattpack.output.table import table
from wattpack.output.text import count_text, print_result, seconds_text
from wire.errors import UserError, os_reason

_HEADER = [
    "SERVICE",
    "CLASS",
    "MODE",
    "PROMISED",
    "DELIVERED",
    "RUNNING",
    "STATE",
    "CAN WAIT",
    "PENALTY",
]
_NOTE = (
    "CAN WAIT is how long an instance can wait from now on before the promise breaks, less its start-up time."
    " PENALTY is the missing running time of all instances, plus 10% to 100% of it for larger shortfalls."
)
_EMPTY = (
    "No service has a promise. The label wattpack.slo names the class of a service: gold, silver or bronze,"
    " or a class of your own under [slo]."
)
_GZIP_MAGIC = b"\x1f\x8b"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    log = "read a recorded log instead of asking the collector: CSV, plain or gzip, as in docs/slo.md"
    add(parser, "--from FILE", log, Path, dest="log")
    add(parser, "--class NAME", "only services of this class", dest="slo_class")
    add(parser, "--seconds N", "with --from: only the first N seconds (default: all)", above_zero)
    add_list_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.log is not None:
        return _show_log(arguments)
    if arguments.seconds is not None:
        raise UserError("--seconds limits a recorded log: name it with --from FILE, or omit --seconds")
    name = arguments.slo_class
    found = get_all(arguments, "/v1/slo", slo_class=name)
    empty = _EMPTY if name is None else f"No service has the class {name!r}."
    return print_list(arguments, found, Columns(_HEADER, _row, _NOTE), empty)


def _show_log(arguments: argparse.Namespace) -> int:
    log = _read_log(arguments.log)
    if arguments.slo_class is not None:
        log = _select_class(log, arguments.slo_class)
    availability = apply_log(log, arguments.seconds)
    return print_result(arguments, asdict(availability), _log_lines(log, availability, arguments.seconds))


def _row(promise: Json) -> tuple[str, ...]:
    left, breaks_in = promise["time_to_violation_seconds"], promise["breaks_in_seconds"]
    state = promise["state"]
    if state == "broken":
        state = f"broken, {seconds_text(promise['deficit_seconds'])} behind"
    elif state == "at risk" and breaks_in is not None:
        state = f"breaks in {seconds_text(breaks_in)}"
    wait = "always" if left is None else seconds_text(max(left, 0.0))
    penalty = promise["penalty_seconds"]
    return (
        promise["service"],
        promise["slo_class"],
        promise["mode"],
        f"{promise['target_ratio']:.2%}",
        f"{promise['availability_ratio']:.2%}",
        f"{promise['running_instances']} of {promise['instances']}",
        state,
        "-" if promise["state"] == "broken" else wait,
        seconds_text(penalty) if penalty else "-",
    )


def _select_class(log: RecordedLog, name: str) -> RecordedLog:
    classes = sorted({class_of(event.service) for event in log.events})
    if name not in classes:
        raise UserError(f"the log has no class {name!r}: use one of {', '.join(classes)}")
    return replace(log, events=[event for event in log.events if class_of(event.service) == name])


def _read_log(path: Path) -> RecordedLog:
    try:
        return parse_log(_read_lines(path))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot read the log {path} ({reason}): check its path") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _read_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    with (gzip.open if is_gzip else open)(path, "rt", encoding="utf-8", newline="") as lines:
        yield from lines


def _log_lines(log: RecordedLog, availability: LogAvailability, seconds: float | None) -> Iterator[str]:
    rows = [
        (
            name,
            str(each.controllers),
            f"{each.mean_availability:.2%}",
            f"{each.min_availability:.2%}",
            f"{each.max_availability:.2%}",
        )
        for name, each in availability.classes.items()
    ]
    period = f"first {seconds_text(seconds)}" if seconds else "whole log"
    yield from table(("CLASS", "CONTROLLERS", "MEAN", "LOWEST", "HIGHEST"), rows)
    yield (
        f"{period}: {count_text(availability.preemptions, 'preemption')};"
        f" the log has {count_text(log.lines, 'event')} of {count_text(log.pods, 'pod')}"
    )
