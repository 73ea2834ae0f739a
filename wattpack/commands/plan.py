"""`wattpack plan`: what should be moved, cut or switched now, and why. It changes nothing."""

import argparse
import asyncio
from collections.abc import Iterator

import msgspec

from collector.placement.answers import PlanHint
from collector.policies.actions import Action, Move, PowerOff, describe
from wattpack.client.questions import collector_url, put_question
from wattpack.commands.hint import add_policy_arguments, policy_question


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
    for number, action in enumerate(plan.actions, start=1):
        yield f"{number:3}. {describe(action)}{_worth(action)}"
        for reason in action.reasons:
            yield f"       {reason}"
    if plan.left:
        yield "Left as it is:"
        for reason in plan.left:
            yield f"  {reason}"


def _worth(action: Action) -> str:
    parts = []
    if isinstance(action, Move | PowerOff) and action.gain_watts:
        parts.append(f"saves {action.gain_watts:.1f} W")
    if isinstance(action, Move) and action.cost_joules:
        parts.append(f"costs {action.cost_joules:.0f} J")
    return f" ({', '.join(parts)})" if parts else ""
