"""`wattpack services`: services, applications, elastic services, and promises of availability."""

import argparse
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from wattpack.client.collector import (
    Json,
    add_collector_options,
    add_list_options,
    get,
    get_all,
    print_list,
)
from wattpack.commands import Functions
from wattpack.config.arguments import above_zero, add
from wattpack.output.text import (
    Columns,
    at,
    bytes_text,
    columns_table,
    cores_text,
    count_text,
    milliseconds_text,
    number_text,
    percent_text,
    print_result,
    seconds_text,
    time_text,
)
from wire.errors import UserError, os_reason

_SERVICE_COLUMNS: Columns = {
    "SERVICE": at("name"),
    "CONTAINERS": at("containers"),
    "NODES": at("nodes"),
    "WATTS": at("watts", number_text),
    "POWER WEIGHT": at("power_weight", number_text),
    "DOMINANT": at("dominant.resource"),
    "CONFIDENCE": at("dominant.confidence", percent_text),
    "CPU NEED": at("envelope.need.cpu_cores", cores_text),
    "MEMORY NEED": at("envelope.need.memory_bytes", bytes_text),
    "PROFILED": at("profiled", {True: "yes", False: "not yet"}.__getitem__),
}
_SERVICE_NOTE = (
    "CPU NEED and MEMORY NEED are per container. POWER WEIGHT is the power of CPU time relative to the"
    " average of its nodes, learned where there is a meter."
)
_APPLICATION_COLUMNS: Columns = {
    "APPLICATION": at("name"),
    "SERVICES": at("services", lambda services: str(len(services))),
    "CONTAINERS": at("nodes", lambda nodes: str(sum(nodes.values()))),
    "NODES": at("nodes", lambda nodes: str(len(nodes))),
    "BOUND": at("delay_max_seconds", milliseconds_text),
    "FARTHEST": at("farthest.seconds", milliseconds_text),
    "BETWEEN": at("farthest.nodes", " and ".join),
    "WITHIN BOUND": at("within_bound", {True: "yes", False: "no"}.__getitem__),
}
_NO_APPLICATIONS = (
    "No applications. They come from Swarm stacks, Compose projects, Kubernetes namespaces and the label"
    " wattpack.app."
)


def _add_service_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--running", "only services with running containers")
    add(parser, "--dominant cpu|memory|disk|network", "only services with this dominant resource")
    add_list_options(parser)


def _list_services(arguments: argparse.Namespace) -> int:
    running = "true" if arguments.running else None
    found = get_all(arguments, "/v1/services", running=running, dominant=arguments.dominant)
    which = "matching" if running or arguments.dominant else "known"
    empty = (
        f"No {which} services. Services come from Swarm, Compose and Kubernetes labels, and appear a minute"
        " after their start."
    )
    return print_list(arguments, found, _SERVICE_COLUMNS, empty, _SERVICE_NOTE)


def _list_applications(arguments: argparse.Namespace) -> int:
    found = get_all(arguments, "/v1/applications")
    return print_list(arguments, found, _APPLICATION_COLUMNS, _NO_APPLICATIONS)


# --- Elastic services: their replicas and CPU limits follow their load --------------------------

_HOW_ELASTIC = (
    "add [elastic.NAME] with metric_max to the collector's settings, or the label wattpack.elastic to the"
    " service"
)


def _add_elastic_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "[SERVICE]", "only this service, with the reasons of its last decision")
    add_collector_options(parser)


def _show_elastic(arguments: argparse.Namespace) -> int:
    found = get(arguments, "/v1/elastic")
    if arguments.service is not None:
        for status in found["elastic"]:
            if status["service"] == arguments.service:
                return print_result(arguments, status, format_elastic(status))
        raise UserError(f"service {arguments.service!r} is not elastic: {_HOW_ELASTIC}")
    services = found["elastic"]
    lines = (
        columns_table(_ELASTIC_COLUMNS, services) if services else [f"No service is elastic: {_HOW_ELASTIC}."]
    )
    return print_result(arguments, found, lines)


def format_elastic(status: Json) -> Iterator[str]:
    """Return the lines about one service."""
    target, observed = status["target"], status["observed"] or {}
    source = "query" if target["query"] else "probe"
    yield f"{status['service']}: {_replicas(observed.get('replicas'))}, policy {target['policy']}"
    bounds = f"{target['replicas_min']} to {target['replicas_max']} replicas"
    if target["cpu_step_cores"]:
        bounds += (
            f", CPU limit {target['cpu_min_cores']:g} to {target['cpu_max_cores']:g} cores in steps of"
            f" {target['cpu_step_cores']:g}"
        )
    yield f"  bounds:   {bounds}; at most one change every {seconds_text(target['cool_down_seconds'])}"
    requests = ""
    if observed.get("requests") is not None:
        requests = f" ({observed['requests']} requests, {observed['failed']} failed)"
    yield (
        f"  metric:   {_metric(observed.get('metric'), target)} of at most"
        f" {_metric(target['metric_max'], target)}, by {source}{requests}"
    )
    used, limit = _cores(observed.get("cpu_used_cores")), _cores(observed.get("cpu_limit_cores"))
    yield f"  CPU:      {used} used, limit {limit} each"
    if observed.get("used_core_watts") is not None:
        yield f"  power:    {observed['used_core_watts']:.1f} W per core in use on its nodes"
    if status["decided_at"] is not None:
        wanted = _replicas(status["wanted_replicas"])
        yield f"  decision: {wanted}, {time_text(status['decided_at'])}"
        yield from (f"            {reason}" for reason in status["reasons"])
    if status["change"] is not None:
        yield f"  last change: {status['change']}, {time_text(status['changed_at'])} ({status['decision']})"
        yield from (f"            {reason}" for reason in status["change_reasons"])
    if status["problem"] is not None:
        yield f"  problem:  {status['problem']}"


def _metric(value: float | None, target: Json) -> str:
    if value is None:
        return "unknown"
    return number_text(value) if target["query"] else f"{value * 1000:.0f} ms"


def _replicas(value: int | None) -> str:
    return "unknown replicas" if value is None else count_text(value, "replica")


def _cores(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


_ELASTIC_COLUMNS: Columns = {
    "SERVICE": at("service"),
    "POLICY": at("target.policy"),
    "METRIC": lambda each: _metric((each["observed"] or {}).get("metric"), each["target"]),
    "BOUND": lambda each: _metric(each["target"]["metric_max"], each["target"]),
    "REPLICAS": at("observed.replicas"),
    "RANGE": at("target", lambda target: f"{target['replicas_min']}-{target['replicas_max']}"),
    "CPU LIMIT": at("observed.cpu_limit_cores", _cores),
    "CPU USED": at("observed.cpu_used_cores", _cores),
    "PROBLEM": at("problem"),
}


# --- Promises of availability, now or in a recorded log -----------------------------------------

_SLO_NOTE = (
    "CAN WAIT is how long an instance can wait from now on before the promise breaks, less its start-up time."
    " PENALTY is the missing running time of all instances, plus 10% to 100% of it for larger shortfalls."
)
_NO_SLO = (
    "No service has a promise. The label wattpack.slo names the class of a service: gold, silver or bronze,"
    " or a class of your own under [slo]."
)
_GZIP_MAGIC = b"\x1f\x8b"


def _add_slo_arguments(parser: argparse.ArgumentParser) -> None:
    log = "read a recorded log instead of asking the collector: CSV, plain or gzip, as in docs/slo.md"
    add(parser, "--from FILE", log, Path, dest="log")
    add(parser, "--class NAME", "only services of this class", dest="slo_class")
    add(parser, "--seconds N", "with --from: only the first N seconds (default: all)", above_zero)
    add_list_options(parser)


def _show_slo(arguments: argparse.Namespace) -> int:
    if arguments.log is not None:
        return _show_slo_log(arguments)
    if arguments.seconds is not None:
        raise UserError("--seconds limits a recorded log: name it with --from FILE, or omit --seconds")
    name = arguments.slo_class
    found = get_all(arguments, "/v1/slo", slo_class=name)
    empty = _NO_SLO if name is None else f"No service has the class {name!r}."
    return print_list(arguments, found, _SLO_COLUMNS, empty, _SLO_NOTE)


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


_SLO_COLUMNS: Columns = {
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


def _show_slo_log(arguments: argparse.Namespace) -> int:
    from replay.readers.lifecycles import apply_log, class_of, parse_log  # noqa: PLC0415 - needs numpy

    path, name, seconds = arguments.log, arguments.slo_class, arguments.seconds
    try:
        log = parse_log(_read_lines(path))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot read the log {path} ({reason}): check its path") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if name is not None:
        classes = sorted({class_of(event.service) for event in log.events})
        if name not in classes:
            raise UserError(f"the log has no class {name!r}: use one of {', '.join(classes)}")
        log = replace(log, events=[event for event in log.events if class_of(event.service) == name])
    availability = apply_log(log, seconds)
    period = f"first {seconds_text(seconds)}" if seconds else "whole log"
    summary = (
        f"{period}: {count_text(availability.preemptions, 'preemption')};"
        f" the log has {count_text(log.lines, 'event')} of {count_text(log.pods, 'pod')}"
    )
    lines = (*columns_table(_CLASS_COLUMNS, list(availability.classes.items())), summary)
    return print_result(arguments, asdict(availability), lines)


def _read_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    with (gzip.open if is_gzip else open)(path, "rt", encoding="utf-8", newline="") as lines:
        yield from lines


FUNCTIONS = {
    "services": Functions(_add_service_arguments, _list_services),
    "services apps": Functions(add_list_options, _list_applications),
    "services slo": Functions(_add_slo_arguments, _show_slo),
    "services elastic": Functions(_add_elastic_arguments, _show_elastic),
}
