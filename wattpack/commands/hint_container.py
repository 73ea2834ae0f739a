"""`wattpack hint container`: rank nodes for a container, with reasons."""

import argparse
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from collector.common.applications import parse_delay
from collector.decide.answers import PlacementHint, RankedNode
from collector.decide.policies.actions import describe
from wattpack.client.collector import add_list_options, post
from wattpack.config.arguments import add, at_least_zero
from wattpack.output.text import Columns, bytes_text, columns_table, count_text, percent_text, print_result
from wire.errors import UserError
from wire.resources import Quantities, Resource

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKMGT]?)(?P<binary>i?)B?(?:/s)?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_container_arguments(parser)
    add(parser, "--all-rejected", "list all rejected nodes")
    add_list_options(parser, 10)


def add_container_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that describe a container."""
    add(parser, "[SERVICE]", "service of the container")
    add(parser, "--image IMAGE", "image; a profiled service with the same image provides the need")
    add(parser, "--cpu CORES", "CPU reservation, in cores", at_least_zero)
    for name, example in (("memory", "4GiB"), ("disk", "20MB/s"), ("network", "5MB/s")):
        add(parser, f"--{name} SIZE", f"{name} reservation, such as {example}")
    add(parser, "--class 1|2|3|4", "SLA class; limits of class 1 are never lowered", int, dest="task_class")
    add(parser, "--kind service|job", "long-running service, or job")
    add(parser, "--constraint LABEL==VALUE...", "required label of the node; also LABEL!=VALUE")
    add(parser, "--avoid SERVICE...", "avoid nodes that run this service")
    add(parser, "--app NAME", "application that the service belongs to")
    add(parser, "--talks-to SERVICE...", "service of the application that this one talks to (default: all)")
    add_placement_arguments(parser)


def add_placement_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for one container and for an application: nodes, round-trip time, reservation, policy."""
    add(parser, "--exclude NODE...", "exclude this node")
    add(parser, "--delay-max TIME", "maximum round-trip time between nodes of the application, such as 85ms")
    add(parser, "--spread", "avoid nodes that run the same service")
    add(parser, "--reserve SECONDS", "reserve the best nodes for this long", float, default=0.0)
    add_policy_arguments(parser)


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--policy POLICY", "policy to use (default: as configured in the collector)")
    add(parser, "--setting KEY=VALUE...", "a setting of the policy")


def policy_question(arguments: argparse.Namespace) -> dict[str, Any]:
    """The policy and its settings, as part of a question."""
    settings = dict(_setting(each) for each in arguments.setting)
    return {"policy": arguments.policy, "settings": settings}


def container_question(arguments: argparse.Namespace) -> dict[str, Any]:
    """The container, as a question; raises `UserError` if nothing describes it."""
    reserve = _reservation(arguments)
    if arguments.service is None and arguments.image is None and reserve == Quantities():
        raise UserError("describe the container: give a SERVICE, --image, or --cpu and --memory")
    return placement_question(arguments) | {
        "service": arguments.service,
        "image": arguments.image,
        "reserve": reserve,
        "class": arguments.task_class,
        "kind": arguments.kind,
        "constraints": arguments.constraint,
        "avoid": arguments.avoid,
        "exclude": arguments.exclude,
        "application": arguments.app,
        "talks_to": arguments.talks_to,
    }


def placement_question(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the options of `add_placement_arguments` ask for, but for excluded nodes."""
    delay = arguments.delay_max
    return policy_question(arguments) | {
        "spread": arguments.spread,
        "delay_max_seconds": None if delay is None else delay_seconds(delay, "--delay-max"),
        "reserve_seconds": arguments.reserve,
    }


def run(arguments: argparse.Namespace) -> int:
    if str(arguments.service).endswith((".yaml", ".yml")):
        raise UserError(f"write 'wattpack hint app {arguments.service}' for a Compose file")
    question = container_question(arguments) | {
        "limit": arguments.limit,
        "refused": "all" if arguments.all_rejected else "some",
    }
    hint = post(arguments, "/v1/hints/placement", question, PlacementHint)
    return print_result(arguments, hint, format_hint(hint))


def parse_size(text: str) -> float:
    """`4GiB`, `512M`, `20MB/s` or plain bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is not a size: use a value such as 4GiB, 512MB or 1000000")
    step = 1024.0 if found["binary"] else 1000.0
    return float(found["number"]) * math.pow(step, _POWERS[found["unit"]])


def delay_seconds(text: str, where: str) -> float:
    """A round-trip time such as `85ms`, in seconds; `where` is for errors."""
    seconds = parse_delay(text)
    if seconds is None:
        raise UserError(f"{where}: {text!r} is not a time: use a value such as 85ms or 0.085s")
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
    yield from columns_table(_COLUMNS, hint.nodes, _node_lines)
    yield ""
    yield f"The score is {hint.score_is}. The container fits on {count_text(hint.fitting, 'node')}."
    if hint.short:
        yield f"{count_text(hint.short, 'ranked node')} will be short of a resource: see the reasons above."


def _node_lines(node: RankedNode) -> Iterator[str]:
    yield from node.reasons
    if node.admission is not None:
        yield f"{'admitted' if node.admission.admitted else 'not admitted'}: {node.admission.reason}"
    for action in node.needs:
        yield f"first: {describe(action)} ({'; '.join(action.reasons)})"
    if node.needs:
        yield "'wattpack control room' with the same options carries this out"
    if node.gets is not None:
        yield f"limited to {_amounts(node.gets)} there"


def _watts_text(node: RankedNode) -> str:
    return "-" if node.added_watts is None else f"{node.added_watts:.1f} W ±{node.error_watts or 0.0:.1f}"


_COLUMNS: Columns = {
    "NODE": lambda each: each.node,
    "SCORE": lambda each: "-" if each.score is None else f"{each.score:.3g}",
    "CPU": lambda each: percent_text(each.predicted_ratio.cpu_ratio),
    "MEMORY": lambda each: percent_text(each.predicted_ratio.memory_ratio),
    "DISK": lambda each: percent_text(each.predicted_ratio.disk_ratio),
    "NETWORK": lambda each: percent_text(each.predicted_ratio.network_ratio),
    "ADDED POWER": _watts_text,
    "CONFIDENCE": lambda each: percent_text(each.confidence),
    "SHORT": lambda each: "-" if each.admission is None else f"{each.admission.probability:.2%}",
}


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
