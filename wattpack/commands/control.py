"""`wattpack control`: follow, pause and resume the control loop."""

import argparse
import re
from collections.abc import Iterator

import msgspec

from collector.decide.policies.actions import Action, describe
from wattpack.client.collector import Json, add_collector_options, add_list_options, get, post
from wattpack.commands import Functions
from wattpack.config.arguments import add
from wattpack.output.text import print_result, time_text
from wire.errors import UserError

_SAME, _DIFFERS = 0, 1
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def _add_history_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "[ID]", "only the decision with this id")
    add(parser, "--node NODE", "only decisions that affect this node")
    add(parser, "--service SERVICE", "only decisions that affect this service")
    add(parser, "--replay ID", "make a decision again from its stored snapshot, and compare the plans")
    add_list_options(parser, 20)


def _show_history(arguments: argparse.Namespace) -> int:
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
            why = f", {step['why']}" if step["why"] else ""
            yield f"    {_describe(step['action'])}: {step['state']}{why}"
            yield from (f"        {reason}" for reason in step["action"]["reasons"])
        yield from (f"    not done: {left}" for left in decision["left"])
        if decision["trouble"] is not None:
            yield f"    based on an old state: {decision['trouble']}"
        if effect := _effect(decision):
            yield f"    {effect}"


def _describe(action: Json) -> str:
    return describe(msgspec.convert(action, Action))


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


def _add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--for TIME", "duration, such as 30m, 1h or 2d (default: until resumed)", dest="duration")
    add(parser, "--reason REASON", "reason, shown in the status", default="")
    add_collector_options(parser)


def _pause(arguments: argparse.Namespace) -> int:
    seconds = None if arguments.duration is None else parse_duration(arguments.duration)
    return _control(arguments, {"paused": True, "seconds": seconds, "why": arguments.reason})


def _resume(arguments: argparse.Namespace) -> int:
    return _control(arguments, {"paused": False})


def _control(arguments: argparse.Namespace, request: Json) -> int:
    status = post(arguments, "/v1/control", request, Json)
    return print_result(arguments, status, [status_text(status)])


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `30m`, `1h` or `2d`; raises `UserError` for other text."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not float(found[1]):
        raise UserError(f"{text!r} is not a duration above 0: use a value such as 90s, 30m, 1h or 2d")
    return float(found[1]) * _UNITS[found[2]]


def status_text(status: Json) -> str:
    """The status of the control loop in one sentence."""
    if pause := status["pause"]:
        until = "'wattpack control resume'" if pause["until"] is None else f"{time_text(pause['until'])} UTC"
        reason = f" ({pause['why']})" if pause["why"] else ""
        return f"Paused until {until}{reason}. Steps in progress finish, no new step starts."
    if status["dry_run"]:
        return f"Dry run with the driver {status['driver']}: plans are recorded, not carried out."
    if status["lease_holder"]:
        return f"Standby: the collector {status['lease_holder']} holds the lease and carries out plans."
    return f"Active: the driver {status['driver']} carries out plans."


FUNCTIONS = {
    "control history": Functions(_add_history_arguments, _show_history),
    "control pause": Functions(_add_pause_arguments, _pause),
    "control resume": Functions(add_collector_options, _resume),
}
