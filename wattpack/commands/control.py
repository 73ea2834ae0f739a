"""`wattpack control`: follow, pause and resume the control loop."""

import argparse
import re
from collections.abc import Callable, Iterator

import msgspec

from collector.decide.policies.actions import Action, describe
from wattpack.client.collector import Json, add_collector_options, add_list_options, get, post
from wattpack.commands import Functions
from wattpack.config.arguments import add
from wattpack.output.text import columns_table, print_result, time_text
from wire.errors import UserError

_SAME, _DIFFERS = 0, 1
_JOULES_PER_KWH = 3.6e6
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def _add_history_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "[ID]", "only the decision with this id")
    add(parser, "--node NODE", "only decisions that affect this node")
    add(parser, "--service SERVICE", "only decisions that affect this service")
    add(parser, "--replay ID", "make a decision again from its stored snapshot, and compare the plans")
    add(parser, "--effect", "what decisions brought: planned against measured, the worst ones first")
    add(parser, "--days N", "with --effect: of the last N days", float, default=7.0)
    add_list_options(parser, 20)


def _show_history(arguments: argparse.Namespace) -> int:
    if arguments.replay is not None:
        return _replay(arguments)
    if arguments.effect:
        return _show_effects(arguments)
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
        yield from (f"    {line}" for line in _effect(decision))


def _describe(action: Json) -> str:
    return describe(msgspec.convert(action, Action))


def _effect(decision: Json) -> Iterator[str]:
    """A line for each verdict: promised, and measured."""
    for verdict in decision["verdicts"]:
        when = _duration(verdict["after_seconds"])
        yield f"after {when}: {verdict['effect']}; {'; '.join(_figures(verdict))}"


def _duration(seconds: float) -> str:
    """`90 s`, `10 min`, `1 h` or `24 h`."""
    unit, size = next(
        ((unit, size) for unit, size in (("h", 3600), ("min", 60)) if seconds >= size), ("s", 1)
    )
    return f"{seconds / size:.3g} {unit}"


def _figures(verdict: Json) -> Iterator[str]:
    if (goal := verdict["goal"]) is not None:
        value = "unknown" if goal["value"] is None else f"{goal['value']:.3g}"
        yield f"{goal['what']} {value}, at most {goal['most']:.3g}"
    for alert in verdict["alerts"]:
        ended = alert["closed_seconds"]
        what = "is still open" if ended is None else f"ended after {ended:.0f} s"
        if ended is not None and alert["is_open"]:
            what += ", and another is open"
        alone = alert["alone_ratio"]
        anyway = "" if alone is None else f" ({alone:.0%} of those left alone do)"
        used = [alert["used_before"], alert["used_after"]]
        change = "" if None in used else f", {used[0]:.0%} -> {used[1]:.0%} used"
        taken = f"{alert['taken_ratio']:.0%} of its use taken away"
        yield f"{alert['resource']} alert of {alert['node']} {what}{anyway}{change}, {taken}"
    promised, saved = verdict["promised_watts"], verdict["saved_watts"]
    promise = "" if promised is None else f", promised {promised:.1f} W"
    if saved is None:
        yield f"saved power unknown: {verdict['why_unknown']}{promise}"
    else:
        yield f"saved {saved:.1f} W ±{verdict['error_watts']:.1f}{promise}"
    short = [verdict["short_seconds_before"], verdict["short_seconds_after"]]
    if None not in short:
        yield f"{short[0] / 60:.1f} min short before, {short[1] / 60:.1f} after"


def _show_effects(arguments: argparse.Namespace) -> int:
    found = get(arguments, "/v1/decisions/effect", days=f"{arguments.days:g}")
    since = str(found["since"])
    decisions = {
        each["id"]: each for each in get(arguments, "/v1/decisions", since=since, limit="1000")["decisions"]
    }
    worst = [decisions[each] for each in found["worst"] if each in decisions][: arguments.limit]
    return print_result(
        arguments, {**found, "decisions": worst}, format_effects(found, worst, arguments.days)
    )


def format_effects(found: Json, worst: list[Json], days: float) -> Iterator[str]:
    """The table of deciders, then the worst decisions."""
    if not found["deciders"]:
        yield f"No decision was carried out in the last {days:g} days."
        return
    yield from columns_table(_EFFECT_COLUMNS, found["deciders"])
    for each in found["deciders"]:
        if each["why"]:
            factor = f"{each['caution']:.1f} times the required gain"
            yield f"{each['policy']} must promise {factor}: {each['why']}"
    if not worst:
        yield from ("", "No verdict yet: the first follows control.verdict_seconds after a decision.")
        return
    yield from ("", "The worst decisions first:")
    # `format_decisions` prints the first one last.
    yield from format_decisions(worst[::-1])


def _energy(name: str) -> Callable[[Json], str]:
    return lambda each: f"{each[name] / _JOULES_PER_KWH:.3f}" if each["measured"] else "-"


_EFFECT_COLUMNS: dict[str, Callable[[Json], str]] = {
    "POLICY": lambda each: each["policy"],
    "DECISIONS": lambda each: str(each["decisions"]),
    "HELPED": lambda each: str(each["effects"].get("helped", 0)),
    "LESS": lambda each: str(each["effects"].get("less", 0)),
    "USELESS": lambda each: str(each["effects"].get("useless", 0)),
    "UNKNOWN": lambda each: str(each["effects"].get("unknown", 0)),
    "MOVES": lambda each: str(each["moves"]),
    "ALERTS ENDED": lambda each: f"{each['closed_alerts']} of {each['alerts']}" if each["alerts"] else "-",
    "kWh PROMISED": _energy("promised_joules"),
    "SAVED": _energy("saved_joules"),
    "±": _energy("error_joules"),
    "MIN SHORT BEFORE": lambda each: f"{each['short_seconds_before'] / 60:.1f}",
    "AFTER": lambda each: f"{each['short_seconds_after'] / 60:.1f}",
    "CAUTION": lambda each: f"{each['caution']:.1f}",
}


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
