"""`wattpack hint`: where a container should go, and why."""

import argparse
import asyncio
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from collector.placement.answers import PlacementHint, RankedNode
from collector.policies.actions import describe
from wattpack.client.questions import collector_url, put_question
from wattpack.output.report import bytes_text, table
from wire.address import COLLECTOR_DEFAULT
from wire.errors import UserError
from wire.resources import Quantities, Resource

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKMGT]?)(?P<binary>i?)B?(?:/s)?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", nargs="?", metavar="SERVICE", help="what it is an instance of")
    parser.add_argument(
        "--image", help="what it runs: a known service that runs the same tells what it needs"
    )
    parser.add_argument("--cpu", type=float, metavar="CORES", help="CPU that it needs")
    for name, example in (("memory", "4GiB"), ("disk", "20MB/s"), ("network", "5MB/s")):
        parser.add_argument(f"--{name}", metavar="SIZE", help=f"{name} that it needs, such as {example}")
    parser.add_argument(
        "--class", dest="task_class", type=int, choices=(1, 2, 3, 4), help="1: nothing may be taken from it"
    )
    parser.add_argument("--kind", choices=("service", "job"), help="how long it means to run")
    parser.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="LABEL==VALUE",
        help="of the node; or LABEL!=VALUE",
    )
    parser.add_argument(
        "--avoid", action="append", default=[], metavar="SERVICE", help="not on a node with this"
    )
    parser.add_argument("--exclude", action="append", default=[], metavar="NODE", help="not on this node")
    parser.add_argument("--spread", action="store_true", help="keep instances of the service apart")
    parser.add_argument(
        "--keep", type=float, default=0.0, metavar="SECONDS", help="keep the best node for it"
    )
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="show the N best (default: 10)")
    parser.add_argument("--all-refused", action="store_true", help="name every refused node")
    add_policy_arguments(parser)


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    """By what to decide, and whom to ask."""
    parser.add_argument("--policy", help="by what to decide (default: as the collector is configured)")
    parser.add_argument(
        "--setting", action="append", default=[], metavar="KEY=VALUE", help="of the policy; may be repeated"
    )
    parser.add_argument(
        "--collector", metavar="URL", help=f"whom to ask (default: http://{COLLECTOR_DEFAULT})"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def policy_question(arguments: argparse.Namespace) -> dict[str, Any]:
    """The part of a question that says by what to decide."""
    settings = dict(_setting(each) for each in arguments.setting)
    return {"policy": arguments.policy, "settings": settings}


def run(arguments: argparse.Namespace) -> int:
    need = _need(arguments)
    if arguments.service is None and arguments.image is None and need == Quantities():
        raise UserError("say what wants a place: a SERVICE, --image, or --cpu and --memory")
    question = policy_question(arguments) | {
        "service": arguments.service,
        "image": arguments.image,
        "demand": need,
        "reserve": need,
        "class": arguments.task_class,
        "kind": arguments.kind,
        "constraints": arguments.constraint,
        "avoid": arguments.avoid,
        "exclude": arguments.exclude,
        "spread": arguments.spread,
        "limit": arguments.limit,
        "refused": "all" if arguments.all_refused else "some",
        "reserve_seconds": arguments.keep,
    }
    url = collector_url(arguments.collector)
    hint = asyncio.run(put_question(url, "/v1/hints/placement", question, PlacementHint))
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(hint)).decode())
    else:
        print("\n".join(shown(hint)))
    return 0


def parse_size(text: str) -> float:
    """`4GiB`, `512M`, `20MB/s` or plain bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is no size: write it such as 4GiB, 512MB or 1000000")
    step = 1024.0 if found["binary"] else 1000.0
    return float(found["number"]) * math.pow(step, _POWERS[found["unit"]])


def _need(arguments: argparse.Namespace) -> Quantities:
    memory, disk, network = (
        None if each is None else parse_size(each)
        for each in (arguments.memory, arguments.disk, arguments.network)
    )
    return Quantities(arguments.cpu, None if memory is None else round(memory), disk, network)


def _setting(text: str) -> tuple[str, Any]:
    key, found, value = text.partition("=")
    if not found or not key:
        raise UserError(f"--setting {text}: write KEY=VALUE")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


def shown(hint: PlacementHint) -> Iterator[str]:
    """A hint for a person."""
    yield f"By {hint.policy}. Taken to need {_amounts(hint.assumed.demand)}: {hint.assumed.explanation}."
    yield ""
    if hint.nodes:
        header = ("NODE", "SCORE", "CPU", "MEMORY", "DISK", "NETWORK", "ADDS", "SUFFICES")
        rows = table(header, [_row(each) for each in hint.nodes])
        yield rows[0]
        for row, node in zip(rows[1:], hint.nodes, strict=True):
            yield row
            for reason in node.reasons:
                yield f"    {reason}"
            for action in node.needs:
                yield f"    first: {describe(action)} ({'; '.join(action.reasons)})"
            if node.gets is not None:
                yield f"    it is promised no more there than {_amounts(node.gets)}"
        yield ""
        yield f"The score is {hint.score_is}. It fits on {hint.fitting} nodes."
    else:
        yield "It fits nowhere."
    for group in hint.refused_for:
        named = [each.node for each in hint.refused if each.why == group.why]
        which = f": {', '.join(named)}{', ...' if len(named) < group.nodes else ''}" if named else ""
        yield f"Refused, as {group.why}: {group.nodes}{which}"
    if hint.reservation is not None:
        yield f"{hint.reservation.node} is kept for it as {hint.reservation.id}, until it is seen there."


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
    )


def _amounts(quantities: Quantities) -> str:
    told = []
    for resource in Resource:
        amount = quantities.of(resource)
        if amount is None:
            continue
        if resource is Resource.CPU:
            told.append(f"{amount:g} cores")
        elif resource is Resource.MEMORY:
            told.append(f"{bytes_text(amount)} of memory")
        else:
            told.append(f"{bytes_text(amount, '/s')} of {resource}")
    return ", ".join(told) or "nothing"
