"""`wattpack history`: what was decided, why, and what came of it."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from collector.policies.actions import Action, describe
from wattpack.client.control import add_collector_option, ask, moment
from wire.errors import UserError

_SAME, _DIFFERS = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", help="only this decision")
    parser.add_argument("--node", help="only decisions that touch this node")
    parser.add_argument("--service", help="only decisions that touch this service")
    parser.add_argument("--limit", type=int, default=20, help="no more than so many (default: %(default)s)")
    parser.add_argument(
        "--replay", metavar="ID", help="make a decision again from its record, and say whether it is the same"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_collector_option(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.replay is not None:
        return _replay(arguments)
    asked = {"id": arguments.id, "node": arguments.node, "service": arguments.service}
    query = urlencode({"limit": arguments.limit} | {key: value for key, value in asked.items() if value})
    answer = ask(arguments.collector, "GET", f"/v1/decisions?{query}")
    if arguments.id is not None and not answer["decisions"]:
        raise UserError(f"there is no decision {arguments.id!r}: wattpack history lists them")
    if arguments.json:
        print(json.dumps(answer, indent=2))
    else:
        print("\n".join(lines(answer["decisions"])) or "nothing was decided yet")
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    answer = ask(arguments.collector, "GET", "/v1/decisions/replay?" + urlencode({"id": arguments.replay}))
    if arguments.json:
        print(json.dumps(answer, indent=2))
    else:
        print("the same plan" if answer["same"] else "another plan than then")
        for title, actions in (("recorded", answer["recorded"]), ("replayed", answer["replayed"])):
            print(f"{title}:")
            print("\n".join(f"  {_describe(action)}" for action in actions) or "  nothing")
    return _SAME if answer["same"] else _DIFFERS


def lines(decisions: list[dict[str, Any]]) -> Iterator[str]:
    """Each decision in a few lines, the latest last, where the eye is."""
    for decision in reversed(decisions):
        short = ", ".join(f"{alert['resource']} on {alert['node']}" for alert in decision["alerts"])
        why = f"{decision['trigger']}{f' ({short})' if short else ''}"
        head = f"{moment(decision['at'])}  {decision['id']}  {decision['outcome']:8}"
        yield f"{head} {decision['policy']}: {why}"
        for step in decision["steps"]:
            yield f"    {_describe(step['action'])}: {step['state']}{_because(step)}"
            yield from (f"        {reason}" for reason in step["action"]["reasons"])
        yield from (f"    left: {left}" for left in decision["left"])
        if decision["trouble"] is not None:
            yield f"    based on an old state: {decision['trouble']}"
        if effect := _effect(decision):
            yield f"    {effect}"


def _describe(action: Mapping[str, Any]) -> str:
    return describe(msgspec.convert(action, Action))


def _because(step: Mapping[str, Any]) -> str:
    return f", {step['why']}" if step["why"] else ""


def _effect(decision: Mapping[str, Any]) -> str:
    parts = []
    if decision["healed_seconds"] is not None:
        parts.append(f"healed after {decision['healed_seconds']:.0f} s")
    before, after = decision["before"], decision["after"]
    if after is not None:
        for node, ratio in before["used_ratios"].items():
            if node in after["used_ratios"]:
                parts.append(f"{node} {100 * ratio:.0f} -> {100 * after['used_ratios'][node]:.0f} %")
        if before["watts"] is not None and after["watts"] is not None:
            parts.append(f"{before['watts']:.1f} -> {after['watts']:.1f} W in all")
    return "; ".join(parts)
