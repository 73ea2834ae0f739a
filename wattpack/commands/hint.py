"""`wattpack hint`: rank nodes for a container, with reasons; or place an application from a Compose file."""

import argparse
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from collector.common.applications import parse_delay
from collector.features.network.applications.hints import ApplicationHint
from collector.placement.answers import PlacementHint, RankedNode
from collector.policies.actions import describe
from wattpack.client.applications import format_application, read_application
from wattpack.client.collector import query_collector
from wattpack.client.listing import add_list_options, parse_amount
from wattpack.client.stack import read_stack, stack_name
from wattpack.output.table import table
from wattpack.output.text import bytes_text, count_text, json_text
from wire.errors import UserError
from wire.resources import Quantities, Resource

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKMGT]?)(?P<binary>i?)B?(?:/s)?")
_CONTAINER_OPTIONS = {
    "image": "--image",
    "cpu": "--cpu",
    "memory": "--memory",
    "disk": "--disk",
    "network": "--network",
    "task_class": "--class",
    "kind": "--kind",
    "constraint": "--constraint",
    "avoid": "--avoid",
    "talks_to": "--talks-to",
}
"""Options that describe one container; those of an application are in its file."""
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_container_arguments(parser)
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="after 'app': Compose file of an application; all its containers are placed together",
    )
    parser.add_argument("--name", help="name of the application (default: as in the file, or its folder)")
    parser.add_argument("--all-rejected", action="store_true", help="list all rejected nodes")
    add_policy_arguments(parser)
    add_list_options(parser, 10)


def add_container_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that describe a container."""
    parser.add_argument("service", nargs="?", metavar="SERVICE", help="service of the container")
    parser.add_argument("--image", help="image; a profiled service with the same image provides the need")
    parser.add_argument("--cpu", type=parse_amount, metavar="CORES", help="CPU reservation, in cores")
    for name, example in (("memory", "4GiB"), ("disk", "20MB/s"), ("network", "5MB/s")):
        parser.add_argument(f"--{name}", metavar="SIZE", help=f"{name} reservation, such as {example}")
    parser.add_argument(
        "--class",
        dest="task_class",
        type=int,
        choices=(1, 2, 3, 4),
        help="SLA class; the limits of class 1 are never lowered",
    )
    parser.add_argument("--kind", choices=("service", "job"), help="long-running service, or job")
    parser.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="LABEL==VALUE",
        help="required label of the node; also LABEL!=VALUE",
    )
    parser.add_argument(
        "--avoid", action="append", default=[], metavar="SERVICE", help="avoid nodes that run this service"
    )
    parser.add_argument("--exclude", action="append", default=[], metavar="NODE", help="exclude this node")
    parser.add_argument("--app", metavar="NAME", help="application that the service belongs to")
    parser.add_argument(
        "--delay-max",
        metavar="TIME",
        help="maximum round-trip time between nodes of the application, such as 85ms",
    )
    parser.add_argument(
        "--talks-to",
        action="append",
        default=[],
        metavar="SERVICE",
        help="service of the application that this one talks to (default: all)",
    )
    parser.add_argument("--spread", action="store_true", help="avoid nodes that run the same service")
    parser.add_argument(
        "--reserve", type=float, default=0.0, metavar="SECONDS", help="reserve the best node for this long"
    )


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for the policy."""
    parser.add_argument("--policy", help="policy to use (default: as configured in the collector)")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the policy; may be given several times",
    )


def policy_question(arguments: argparse.Namespace) -> dict[str, Any]:
    """The policy and its settings, as part of a question."""
    settings = dict(_setting(each) for each in arguments.setting)
    return {"policy": arguments.policy, "settings": settings}


def container_question(arguments: argparse.Namespace) -> dict[str, Any]:
    """The container, as a question; raises `UserError` if nothing describes it."""
    reserve = _reservation(arguments)
    if arguments.service is None and arguments.image is None and reserve == Quantities():
        raise UserError("describe the container: give a SERVICE, --image, or --cpu and --memory")
    return policy_question(arguments) | {
        "service": arguments.service,
        "image": arguments.image,
        "reserve": reserve,
        "class": arguments.task_class,
        "kind": arguments.kind,
        "constraints": arguments.constraint,
        "avoid": arguments.avoid,
        "exclude": arguments.exclude,
        "spread": arguments.spread,
        "application": arguments.app,
        "delay_max_seconds": delay_seconds(arguments.delay_max),
        "talks_to": arguments.talks_to,
        "reserve_seconds": arguments.reserve,
    }


def run(arguments: argparse.Namespace) -> int:
    if arguments.file is not None:
        return _run_application(arguments)
    if str(arguments.service).endswith((".yaml", ".yml")):
        raise _misplaced_file(arguments.service)
    question = container_question(arguments) | {
        "limit": arguments.limit,
        "refused": "all" if arguments.all_rejected else "some",
    }
    hint = query_collector(
        arguments, lambda collector: collector.post_as("/v1/hints/placement", question, PlacementHint)
    )
    if arguments.json:
        print(json_text(hint))
    else:
        print("\n".join(format_hint(hint)))
    return 0


def _run_application(arguments: argparse.Namespace) -> int:
    """Place an application; returns 1 if it cannot be placed."""
    if arguments.service != "app":
        raise _misplaced_file(arguments.file)
    unused = [option for field, option in _CONTAINER_OPTIONS.items() if getattr(arguments, field)]
    if unused:
        raise UserError(f"{', '.join(unused)}: write this into {arguments.file}, for each service")
    document = read_stack(arguments.file)
    name = arguments.name or arguments.app or stack_name(document, arguments.file)
    found = read_application(document, name)
    question = policy_question(arguments) | {
        "application": name,
        "services": [each | {"exclude": arguments.exclude} for each in found.services],
        "delay_max_seconds": delay_seconds(arguments.delay_max),
        "spread": arguments.spread,
        "reserve_seconds": arguments.reserve,
    }
    hint = query_collector(
        arguments, lambda collector: collector.post_as("/v1/hints/application", question, ApplicationHint)
    )
    if arguments.json:
        print(json_text(hint))
    else:
        print("\n".join(format_application(hint, found.notes)))
    return 0 if hint.placed else 1


def _misplaced_file(file: Path | str) -> UserError:
    return UserError(f"{file}: write 'wattpack hint app {file}' for a Compose file")


def parse_size(text: str) -> float:
    """`4GiB`, `512M`, `20MB/s` or plain bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is not a size: use a value such as 4GiB, 512MB or 1000000")
    step = 1024.0 if found["binary"] else 1000.0
    return float(found["number"]) * math.pow(step, _POWERS[found["unit"]])


def delay_seconds(text: str | None) -> float | None:
    """A round-trip time such as `85ms`, in seconds; None without one."""
    if text is None:
        return None
    seconds = parse_delay(text)
    if seconds is None:
        raise UserError(f"--delay-max: {text!r} is not a time: use a value such as 85ms or 0.085s")
    return seconds


def _reservation(arguments: argparse.Namespace) -> Quantities:
    memory, disk, network = (
        None if each is None else parse_size(each)
        for each in (arguments.memory, arguments.disk, arguments.network)
    )
    return Quantities(arguments.cpu, None if memory is None else round(memory), disk, network)


def _setting(text: str) -> tuple[str, Any]:
    key, found, value = text.partition("=")
    if not found or not key:
        raise UserError(f"--setting {text}: use KEY=VALUE")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


def format_hint(hint: PlacementHint) -> Iterator[str]:
    """The lines of a hint."""
    yield f"Policy {hint.policy}. Assumed need: {_amounts(hint.assumed.demand)} ({hint.assumed.explanation})."
    yield ""
    if hint.nodes:
        yield from _ranked(hint)
    else:
        yield "The container fits on no node."
    for group in hint.refused_for:
        named = [each.node for each in hint.refused if each.why == group.why]
        which = f": {', '.join(named)}{', ...' if len(named) < group.nodes else ''}" if named else ""
        yield f"Rejected ({group.why}): {count_text(group.nodes, 'node')}{which}"
    kinds = {group.why for group in hint.refused_for}
    yield from (f"Rejected {each.node}: {each.why}" for each in hint.refused if each.why not in kinds)
    for note in hint.notes:
        yield f"Note: {note}."
    if hint.reservation is not None:
        yield f"Reserved {hint.reservation.node} until the container starts (id {hint.reservation.id})."


def _ranked(hint: PlacementHint) -> Iterator[str]:
    header = ("NODE", "SCORE", "CPU", "MEMORY", "DISK", "NETWORK", "ADDED POWER", "CONFIDENCE", "SHORT")
    rows = table(header, [_row(each) for each in hint.nodes])
    yield rows[0]
    for row, node in zip(rows[1:], hint.nodes, strict=True):
        yield row
        for reason in node.reasons:
            yield f"    {reason}"
        if node.admission is not None:
            yield f"    {'admitted' if node.admission.admitted else 'not admitted'}: {node.admission.reason}"
        for action in node.needs:
            yield f"    first: {describe(action)} ({'; '.join(action.reasons)})"
        if node.needs:
            yield "    'wattpack room' with the same options carries this out"
        if node.gets is not None:
            yield f"    limited to {_amounts(node.gets)} there"
    yield ""
    yield f"The score is {hint.score_is}. The container fits on {count_text(hint.fitting, 'node')}."
    if hint.short:
        yield f"{count_text(hint.short, 'ranked node')} will be short of a resource: see the reasons above."


def _row(node: RankedNode) -> tuple[str, ...]:
    used = node.predicted_ratio
    shares = (used.cpu_ratio, used.memory_ratio, used.disk_ratio, used.network_ratio)
    watts = "-" if node.added_watts is None else f"{node.added_watts:.1f} W ±{node.error_watts or 0.0:.1f}"
    return (
        node.node,
        "-" if node.score is None else f"{node.score:.3g}",
        *("-" if share is None else f"{share:.0%}" for share in shares),
        watts,
        "-" if node.confidence is None else f"{node.confidence:.0%}",
        "-" if node.admission is None else f"{node.admission.probability:.2%}",
    )


def _amounts(quantities: Quantities) -> str:
    amounts = []
    for resource in Resource:
        amount = quantities.of(resource)
        if amount is None:
            continue
        if resource is Resource.CPU:
            amounts.append(f"{amount:.3g} {'core' if amount == 1 else 'cores'}")
        elif resource is Resource.MEMORY:
            amounts.append(f"{bytes_text(amount)} of memory")
        else:
            amounts.append(f"{bytes_text(amount, '/s')} of {resource}")
    return ", ".join(amounts) or "nothing"
