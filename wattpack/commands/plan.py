"""`wattpack plan`: what should be moved, cut or switched now, and why. It changes nothing."""

import argparse
import asyncio
from collections.abc import Iterator

import msgspec

from collector.placement.answers import Act, PlanHint
from wattpack.client.questions import collector_url, put_question
from wattpack.commands.hint import add_policy_arguments, policy_question
from wattpack.output.report import bytes_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--moves", type=int, metavar="N", help="no more moves than these")
    add_policy_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    question = policy_question(arguments) | {"moves": arguments.moves}
    url = collector_url(arguments.collector)
    plan = asyncio.run(put_question(url, "/v1/hints/rebalance", question, PlanHint))
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(plan)).decode())
    else:
        print("\n".join(shown(plan)))
    return 0


def shown(plan: PlanHint) -> Iterator[str]:
    """A plan for a person."""
    watts = "the watts of some node are not known"
    if plan.watts_before is not None and plan.watts_after is not None:
        watts = f"from {plan.watts_before:.1f} W to {plan.watts_after:.1f} W"
    yield f"By {plan.policy}: {len(plan.actions) or 'nothing'} to do, {watts}."
    for reason in plan.reasons:
        yield f"  {reason}"
    for number, act in enumerate(plan.actions, start=1):
        yield f"{number:3}. {what(act)}{_worth(act)}"
        for reason in act.reasons:
            yield f"       {reason}"
    if plan.left:
        yield "Left as it is:"
        for reason in plan.left:
            yield f"  {reason}"


def what(act: Act) -> str:
    """One thing to do."""
    match act.kind:
        case "move":
            return f"move {act.name} from {act.node} to {act.target}"
        case "start":
            return f"start {act.name} on {act.target}"
        case "kill":
            then = f"start it anew on {act.target}" if act.target else "let it wait"
            return f"end {act.name} on {act.node} and {then}"
        case "cut":
            promised = act.allocated
            amounts = "" if promised is None else f" to {promised.cpu_cores or 0:g} cores"
            memory = "" if promised is None else f" and {bytes_text(promised.memory_bytes)}"
            return f"cut {act.name} on {act.node}{amounts}{memory}"
        case "power-on":
            return f"switch {act.node} on"
        case "power-off":
            return f"switch {act.node} off"


def _worth(act: Act) -> str:
    parts = [
        f"saves {act.gain_watts:.1f} W" if act.gain_watts else "",
        f"costs {act.cost_joules:.0f} J" if act.cost_joules else "",
    ]
    told = ", ".join(part for part in parts if part)
    return f" ({told})" if told else ""
