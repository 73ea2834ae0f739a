"""`wattpack services slo`: the availability of services and their promises, now or in a recorded log."""

import argparse
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from collector.features.promises.recorded import LogAvailability, RecordedLog, apply_log, class_of, parse_log
from wattpack.client.collector import Json, add_list_options, get_all, print_list
from wattpack.config.arguments import above_zero, add
from wattpack.output.text import Columns, at, columns_table, count_text, print_result, seconds_text
from wire.errors import UserError, os_reason

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
    return print_list(arguments, found, _COLUMNS, empty, _NOTE)


def _show_log(arguments: argparse.Namespace) -> int:
    log = _read_log(arguments.log)
    if arguments.slo_class is not None:
        log = _select_class(log, arguments.slo_class)
    availability = apply_log(log, arguments.seconds)
    return print_result(arguments, asdict(availability), _log_lines(log, availability, arguments.seconds))


def _state_text(promise: Json) -> str:
    state, breaks_in = str(promise["state"]), promise["breaks_in_seconds"]
    if state == "broken":
        return f"broken, {seconds_text(promise['deficit_seconds'])} behind"
    return f"breaks in {seconds_text(breaks_in)}" if state == "at risk" and breaks_in is not None else state


def _wait_text(promise: Json) -> str:
    if promise["state"] == "broken":
        return "-"
    left = promise["time_to_violation_seconds"]
    return "always" if left is None else seconds_text(max(left, 0.0))


_COLUMNS: Columns = {
    "SERVICE": at("service"),
    "CLASS": at("slo_class"),
    "MODE": at("mode"),
    "PROMISED": at("target_ratio", "{:.2%}".format),
    "DELIVERED": at("availability_ratio", "{:.2%}".format),
    "RUNNING": lambda each: f"{each['running_instances']} of {each['instances']}",
    "STATE": _state_text,
    "CAN WAIT": _wait_text,
    "PENALTY": lambda each: seconds_text(each["penalty_seconds"]) if each["penalty_seconds"] else "-",
}
_CLASS_COLUMNS: Columns = {
    "CLASS": lambda each: each[0],
    "CONTROLLERS": lambda each: str(each[1].controllers),
    "MEAN": lambda each: f"{each[1].mean_availability:.2%}",
    "LOWEST": lambda each: f"{each[1].min_availability:.2%}",
    "HIGHEST": lambda each: f"{each[1].max_availability:.2%}",
}


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
    period = f"first {seconds_text(seconds)}" if seconds else "whole log"
    yield from columns_table(_CLASS_COLUMNS, list(availability.classes.items()))
    yield (
        f"{period}: {count_text(availability.preemptions, 'preemption')};"
        f" the log has {count_text(log.lines, 'event')} of {count_text(log.pods, 'pod')}"
    )
