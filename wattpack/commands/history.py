"""`wattpack history`: decisions of the control loop with reasons and outcome."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from collector.policies.actions import Action, describe
from wattpack.client.collector import query_collector
from wattpack.client.listing import add_list_options
from wattpack.output.text import json_text, time_text
from wire.errors import UserError

_SAME, _DIFFERS = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="only the decision with this id")
    parser.add_argument("--node", help="only decisions that affect this node")
    parser.add_argument("--service", help="only decisions that affect this service")
    parser.add_argument(
        "--replay", metavar="ID", help="make a decision again from its stored snapshot, and compare the plans"
    )
    add_list_options(parser, 20)


def run(arguments: argparse.Namespace) -> int:
    if arguments.replay is not None:
        return _replay(arguments)
    response = query_collector(
        arguments,
        lambda collector: collector.get(
            "/v1/decisions",
            limit=str(arguments.limit),
            id=arguments.id,
            node=arguments.node,
            service=arguments.service,
        ),
    )
    if arguments.id is not None and not response["decisions"]:
        raise UserError(f"no decision has the id {arguments.id!r}: 'wattpack history' lists all decisions")
    if arguments.json:
        print(json_text(response))
    else:
        print("\n".join(format_decisions(response["decisions"])) or "No decisions.")
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    response = query_collector(
        arguments, lambda collector: collector.get("/v1/decisions/replay", id=arguments.replay)
    )
    if arguments.json:
        print(json_text(response))
    else:
        print("The plans are the same." if response["same"] else "The plans differ.")
        for title, actions in (("recorded", response["recorded"]), ("replayed", response["replayed"])):
            print(f"{title}:")
            print("\n".join(f"  {_describe(action)}" for action in actions) or "  nothing")
    return _SAME if response["same"] else _DIFFERS


def format_decisions(decisions: list[dict[str, Any]]) -> Iterator[str]:
    """A few lines per decision, the most recent last."""
    for decision in reversed(decisions):
        alerts = ", ".join(f"{alert['resource']} on {alert['node']}" for alert in decision["alerts"])
        trigger = f"{decision['trigger']}{f' ({alerts})' if alerts else ''}"
        head = f"{time_text(decision['at'])}  {decision['id']}  {decision['outcome']:8}"
        yield f"{head} {decision['policy']}: {trigger}"
        for step in decision["steps"]:
            yield f"    {_describe(step['action'])}: {step['state']}{_reason(step)}"
            yield from (f"        {reason}" for reason in step["action"]["reasons"])
        yield from (f"    not done: {left}" for left in decision["left"])
        if decision["trouble"] is not None:
            yield f"    based on an old state: {decision['trouble']}"
        if effect := _effect(decision):
            yield f"    {effect}"


def _describe(action: Mapping[str, Any]) -> str:
    return describe(msgspec.convert(action, Action))


def _reason(step: Mapping[str, Any]) -> str:
    return f", {step['why']}" if step["why"] else ""


def _effect(decision: Mapping[str, Any]) -> str:
    parts = []
    if decision["healed_seconds"] is not None:
        parts.append(f"resolved after {decision['healed_seconds']:.0f} s")
    before, after = decision["before"], decision["after"]
    if after is not None:
        for node, ratio in before["used_ratios"].items():
            if node in after["used_ratios"]:
                parts.append(f"{node} {ratio:.0%} -> {after['used_ratios'][node]:.0%}")
        if before["watts"] is not None and after["watts"] is not None:
            parts.append(f"{before['watts']:.1f} -> {after['watts']:.1f} W in total")
    return "; ".join(parts)
