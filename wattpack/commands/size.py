"""`wattpack size`: recommended requests and limits of services, or their score on a recorded workload."""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from pathlib import Path
from shlex import quote

import yaml

from collector.features.sizing.settings import SizingConfig
from collector.features.sizing.sizes import SizeRules
from replay.sizing.halves import split
from replay.sizing.page import frontier_text, page, rows_of
from replay.sizing.scores import SizingReport, score_halves
from replay.sources import FORMATS, TraceFile, read_trace
from wattpack.client.collector import Json, add_collector_options, get_all
from wattpack.config.arguments import add
from wattpack.datasets.catalogue import add_data_option, search_path
from wattpack.datasets.traces import locate_in
from wattpack.output.text import (
    Columns,
    at,
    bytes_text,
    columns_table,
    cores_text,
    count_text,
    number_text,
    percent_text,
    print_result,
    progress_bar,
    rows_table,
    write_text,
)
from wire.errors import UserError
from wire.text import printable

_EMPTY = "No service has a size yet. Services come from Swarm, Compose and Kubernetes labels."
_SMALLEST_RATIO = 1e-4
_MEBIBYTE = 1 << 20
_LEAST_MEBIBYTES = 6
"""Docker refuses lower memory limits."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "[SERVICE]", "only this service, in detail")
    add(parser, f"--patch {'|'.join(PATCHES)}", "print the change as a Compose file or as commands, to paste")
    trace = (
        "learn sizes on the first half of a trace (a file, folder or data set) and score them on its second"
        " half, compared with those of VPA and the configured ones; needs no collector"
    )
    add(parser, "--trace FILE", trace, Path)
    add(parser, f"--format {'|'.join(FORMATS)}", "format of the trace")
    add(parser, "--html FILE", "with --trace: also write a page with charts", Path)
    add_data_option(parser)
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.trace is not None:
        if arguments.service is not None or arguments.patch is not None:
            raise UserError("--trace covers all services of a trace: leave out SERVICE and --patch")
        return _run_trace(arguments)
    if arguments.format is not None or arguments.html is not None:
        raise UserError("--format and --html need --trace")
    found = get_all(arguments, "/v1/sizes", service=arguments.service)
    if not found:
        lines: Iterable[str] = [_EMPTY]
    elif arguments.patch is not None:
        lines = chain(patch_warnings(found), PATCHES[arguments.patch](found))
    else:
        lines = _format(found) if arguments.service is None else format_size(found[0])
    return print_result(arguments, found if arguments.service is None else found[0], lines)


def patch_warnings(sizes: Sequence[Json]) -> Iterator[str]:
    """Comments for a patch, valid in a shell and in YAML: a day is the shortest cycle of most services."""
    for each in sizes:
        if each["observed_days"] < 1:
            hours = 24 * each["observed_days"]
            yield (
                f"# Warning: {each['service']!r} was observed for {hours:.1f} h only. A busier hour may"
                " exceed these limits: wait for a day."
            )


def _format(sizes: Sequence[Json]) -> Iterator[str]:
    yield from columns_table(_COLUMNS, sizes)
    yield "Sizes are per container. 'wattpack size SERVICE' shows one in detail; --patch prints the change."


def _change_text(size: Json) -> str:
    if size["watts_change"] is not None:
        return f"{size['watts_change']:+.1f} W"
    return "-" if size["nodes_change"] is None else f"{size['nodes_change']:+.2f} nodes"


_COLUMNS: Columns = {
    "SERVICE": at("service"),
    "CONTAINERS": at("containers"),
    **{
        f"{name.upper()} {title}": at(f"{name}.{key}", text)
        for name, text in (("cpu", cores_text), ("memory", bytes_text))
        for title, key in (("NOW", "present"), ("REQUEST", "request"), ("LIMIT", "limit"))
    },
    "DAYS": at("observed_days", number_text),
    "CONFIDENCE": at("confidence", percent_text),
    "CHANGE": _change_text,
}


def format_size(size: Json) -> Iterator[str]:
    containers = count_text(size["containers"], "running container")
    yield f"{size['service']}: {containers}, observed for {size['observed_days']:.1f} days"
    yield f"confidence {percent_text(size['confidence'])}: 50% after a day, 88% after a week"
    for name, text in (("cpu", _cores_text), ("memory", bytes_text)):
        part = size[name]
        if part is None:
            yield f"{name}: not measured"
            continue
        yield (
            f"{name}: request {text(part['request'])}, limit {text(part['limit'])}; now "
            f"{text(part['present'])}; VPA would request {text(part['vpa'])}"
        )
        yield (
            f"  uses {text(part['used'])} on average, {text(part['peak'])} at most; above the request "
            f"{_small_percent(part['above_ratio'])} of the time"
        )
    if size["out_of_memory"]:
        yield "memory is raised, because a container ran out of memory and was killed"
    cpu, memory = (None if size[name] is None else size[name]["change"] for name in ("cpu", "memory"))
    if cpu is None and memory is None:
        yield "change of the reserved resources: unknown, because its containers have no requests now"
        return
    yield (
        f"reserved, all containers: CPU {_signed(cpu, ' cores')}, memory "
        f"{_signed_bytes(memory)}; {_signed(size['nodes_change'], ' nodes')}, "
        f"{_signed(size['watts_change'], ' W')} if nodes can be switched off"
    )


def _small_percent(ratio: float) -> str:
    return "less than 0.01%" if 0 < ratio < _SMALLEST_RATIO else f"{100 * ratio:.2g}%"


def _cores_text(cores: float | None) -> str:
    return "-" if cores is None else f"{cores:.3g} cores"


def _signed(number: float | None, unit: str) -> str:
    return "unknown" if number is None else f"{number:+.3g}{unit}"


def _signed_bytes(number: float | None) -> str:
    return "unknown" if number is None else f"{'-' if number < 0 else '+'}{bytes_text(abs(number))}"


# --- Patches: an absent request or limit is left as it is -------------------------------------


def compose_patch(sizes: Sequence[Json]) -> Iterator[str]:
    """An override file per project: services are named PROJECT/SERVICE."""
    projects: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for each in sizes:
        project, _, name = each["service"].rpartition("/")
        resources = {
            "reservations": _docker_sizes(each, "request", "cpus", "memory"),
            "limits": _docker_sizes(each, "limit", "cpus", "memory"),
        }
        known = {kind: amounts for kind, amounts in resources.items() if amounts}
        projects[project][name] = {"deploy": {"resources": known}}
    for project, services in sorted(projects.items()):
        file = "compose.override.yaml"
        yield f"# Project {printable(project)}: save as {file}" if project else f"# {file}"
        yield yaml.safe_dump({"services": services}, sort_keys=False).rstrip()


def swarm_patch(sizes: Sequence[Json]) -> Iterator[str]:
    """A `docker service update` per service."""
    for each in sizes:
        options = _docker_sizes(each, "request", "--reserve-cpu", "--reserve-memory")
        options |= _docker_sizes(each, "limit", "--limit-cpu", "--limit-memory")
        given = (f"{option} {amount}" for option, amount in options.items())
        yield " ".join(("docker service update", *given, quote(each["service"])))


def kubernetes_patch(sizes: Sequence[Json]) -> Iterator[str]:
    """A `kubectl set resources` per workload: services are named NAMESPACE/WORKLOAD."""
    for each in sizes:
        namespace, _, workload = each["service"].rpartition("/")
        where = [f"--namespace {quote(namespace)}"] if namespace else []
        # The kind is not known, and a Deployment is the most frequent one.
        words = ["kubectl", *where, "set resources", quote(f"deployment/{workload}")]
        for kind in ("request", "limit"):
            cpu, memory = _amounts(each, kind)
            parts = [] if cpu is None else [f"cpu={_thousandths(cpu)}m"]
            parts += [] if memory is None else [f"memory={_mebibytes(memory)}Mi"]
            words += [f"--{kind}s={','.join(parts)}"] if parts else []
        yield " ".join(words)


def _docker_sizes(size: Json, kind: str, cpu_name: str, memory_name: str) -> dict[str, str]:
    cpu, memory = _amounts(size, kind)
    found = {} if cpu is None else {cpu_name: f"{_thousandths(cpu) / 1000:g}"}
    return found if memory is None else {**found, memory_name: f"{_mebibytes(memory)}M"}


def _amounts(size: Json, kind: str) -> tuple[float | None, float | None]:
    """The request or the limit of CPU and memory."""
    return (size["cpu"] or {}).get(kind), (size["memory"] or {}).get(kind)


def _thousandths(cores: float) -> int:
    return max(1, ceil(cores * 1000))


def _mebibytes(memory_bytes: float) -> int:
    return max(_LEAST_MEBIBYTES, ceil(memory_bytes / _MEBIBYTE))


PATCHES: Mapping[str, Callable[[Sequence[Json]], Iterator[str]]] = {
    "compose": compose_patch,
    "swarm": swarm_patch,
    "kubernetes": kubernetes_patch,
}


# --- Traces ---------------------------------------------------------------------------------


def _run_trace(arguments: argparse.Namespace) -> int:
    trace = _trace_file(arguments)
    with progress_bar(f"sizing {trace.path.name}") as show:
        halves = split(read_trace(trace, ()), SizingConfig().keep_days)
        report = score_halves(halves, SizeRules(), show)
    if arguments.html is not None:
        write_text(arguments.html, page(report, trace.path.name))
    return print_result(arguments, report, _format_report(report))


def _trace_file(arguments: argparse.Namespace) -> TraceFile:
    if arguments.format is not None:
        return TraceFile(arguments.trace, arguments.format)
    if arguments.trace.exists():
        raise UserError(f"--trace {arguments.trace} needs --format: one of {', '.join(FORMATS)}")
    return locate_in(search_path(arguments.data))(str(arguments.trace))


def _format_report(report: SizingReport) -> Iterator[str]:
    yield (
        f"{count_text(report.services, 'service')}, learned on {report.learned_days:.3g} days, scored on the "
        f"next {report.scored_days:.3g}"
    )
    yield from rows_table(rows_of(report))
    yield "Slack: reserved and not used, relative to use. Time above: with more use than requested."
    yield from frontier_text(report)
