"""`wattpack control history`: decisions of the control loop with reasons and outcome."""

import argparse
from collections.abc import Iterator

import msgspec

from collector.decide.policies.actions import Action, describe
from wattpack.client.collector import Json, get
from wattpack.client.listing import add_list_options
from wattpack.config.arguments import add
from wattpack.output.text import print_result, time_text
from wire.errors import UserError

_SAME, _DIFFERS = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "[ID]", "only the decision with this id")
    add(parser, "--node NODE", "only decisions that affect this node")
    add(parser, "--service SERVICE", "only decisions that affect this service")
    add(parser, "--replay ID", "make a decision again from its stored snapshot, and compare the plans")
    add_list_options(parser, 20)


def run(arguments: argparse.Namespace) -> int:
    if arguments.replay is not None:
        return _replay(arguments)
    found = get(
        arguments,
        "/v1/decisions",
        limit=str(arguments.limit),
        id=arguments.id,
        node=arguments.node,
        service=arguments.service,
    )
    decisions = found["decisions"]
    if arguments.id is not None and not decisions:
        raise UserError(
            f"no decision has the id {arguments.id!r}: 'wattpack control history' lists all decisions"
        )
    return print_result(arguments, found, format_decisions(decisions) if decisions else ["No decisions."])


def _replay(arguments: argparse.Namespace) -> int:
    found = get(arguments, "/v1/decisions/replay", id=arguments.replay)
    lines = ["The plans are the same." if found["same"] else "The plans differ."]
    for title in ("recorded", "replayed"):
        lines.append(f"{title}:")
        lines += [f"  {_describe(action)}" for action in found[title]] or ["  nothing"]
    print_result(arguments, found, lines)
    return _SAME if found["same"] else _DIFFERS


def format_decisions(decisions: list[Json]) -> Iterator[str]:
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


def _describe(action: Json) -> str:
    return describe(msgspec.convert(action, Action))


def _reason(step: Json) -> str:
    return f", {step['why']}" if step["why"] else ""


def _effect(decision: Json) -> str:
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
