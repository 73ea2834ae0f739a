"""`wattpack plan`: what a policy would move, shrink or switch off now. It changes nothing."""

import argparse
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import partial

import msgspec

from collector.decide.answers import PlanHint
from collector.decide.policies.actions import Action, Move, PowerOff, describe
from wattpack.client.collector import Collector, Json, add_collector_options, query_collector
from wattpack.commands.hint_container import add_policy_arguments, policy_question
from wattpack.config.arguments import add
from wattpack.output.text import count_text, print_result

_PATH = "/v1/hints/rebalance"
_MAX_ALERTS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, "--moves N", "plan at most N moves", int)
    add(parser, "--why NAME", "explain why a node is not emptied, or a container not moved")
    add_policy_arguments(parser)
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    question = policy_question(arguments) | {"moves": arguments.moves}
    if arguments.why is not None:
        plan = query_collector(arguments, partial(_explain, question | {"why": arguments.why}))
        return print_result(arguments, msgspec.to_builtins(plan.why), _why_lines(plan))
    plan, alerts, alert_plan, only = query_collector(arguments, partial(_fetch, question))
    found = {**msgspec.to_builtins(plan), "for_alerts": alert_plan}
    return print_result(arguments, found, _lines(plan, alerts, alert_plan, only))


def _lines(
    plan: PlanHint, alerts: list[Json], alert_plan: PlanHint | None, only: str | None
) -> Iterator[str]:
    if alert_plan is not None:
        yield f"{count_text(len(alerts), 'open bottleneck')}: {_alerts_text(alerts)}. The plan against them:"
        yield from format_plan(alert_plan)
        yield ""
    yield from format_plan(plan)
    if only is not None:
        yield (
            f"\n{only} is the only node, so nothing can move. Let other hosts report to this collector"
            " (docs/operations.md), or look at the plans of 'wattpack demo'."
        )


async def _fetch(
    question: Json, collector: Collector
) -> tuple[PlanHint, list[Json], PlanHint | None, str | None]:
    """The plan, and the only node if there is just one.

    Without a chosen policy, also the open bottlenecks with the plan against them.
    """
    plan = await collector.post(_PATH, question, PlanHint)
    nodes = [] if plan.actions else (await collector.get("/v1/nodes", limit="2"))["nodes"]
    only = nodes[0]["name"] if len(nodes) == 1 else None
    if question["policy"] is not None or not plan.alert_policy or plan.policy == plan.alert_policy:
        return plan, [], None, only
    alerts = await collector.get_all("/v1/alerts", state="open", kind="node")
    if not alerts:
        return plan, [], None, only
    alert_plan = await collector.post(
        _PATH, {"policy": plan.alert_policy, "moves": question["moves"]}, PlanHint
    )
    return plan, alerts, alert_plan, only


async def _explain(question: Json, collector: Collector) -> PlanHint:
    return await collector.post(_PATH, question, PlanHint)


def _why_lines(plan: PlanHint) -> Iterator[str]:
    """Why the plan leaves a node or container as it is, a line for each reason and what would change it."""
    assert plan.why is not None
    found, is_node = plan.why, plan.why.subject == plan.why.node
    what = "emptied or switched off" if is_node else f"moved off {found.node}"
    if found.planned:
        yield f"{found.subject} is {what} by policy {plan.policy} ({_trigger_text(plan)}):"
        for action in found.planned:
            yield f"  {describe(action)}{_effect_text(action, frozenset())}"
            for reason in action.reasons:
                yield f"       {reason}"
    else:
        count = count_text(len(found.obstacles), "reason")
        yield f"{found.subject} is not {what} by policy {plan.policy} ({_trigger_text(plan)}): {count}"
    for each in found.obstacles:
        yield f"  {each.kind}: {each.why}"
        if each.change is not None:
            yield f"       what would change it: {each.change}"


def _alerts_text(alerts: list[Json]) -> str:
    named = [f"{each['resource']} on {each['subject']}" for each in alerts[:_MAX_ALERTS]]
    return ", ".join(named) + (", ..." if len(alerts) > _MAX_ALERTS else "")


def format_plan(plan: PlanHint) -> Iterator[str]:
    watts = "power unknown for some nodes"
    if plan.watts_before is not None and plan.watts_after is not None:
        watts = f"from {plan.watts_before:.1f} W to {plan.watts_after:.1f} W"
        saved = round(plan.watts_before - plan.watts_after, 1)
        watts += f", which saves {saved:.1f} W" if saved > 0 else ""
    yield f"Policy {plan.policy} ({_trigger_text(plan)}): {count_text(len(plan.actions), 'action')}, {watts}."
    for reason in plan.reasons:
        yield f"  {reason}"
    off = {action.node for action in plan.actions if isinstance(action, PowerOff)}
    for number, action in enumerate(plan.actions, start=1):
        yield f"{number:3}. {describe(action)}{_effect_text(action, off)}"
        for reason in action.reasons:
            yield f"       {reason}"
    if plan.left:
        yield "Not done:"
        for reason in plan.left:
            yield f"  {reason}"


def _trigger_text(plan: PlanHint) -> str:
    """When the collector itself runs the policy."""
    if plan.policy == plan.timer_policy:
        return "the collector runs it on a timer"
    if plan.policy == plan.alert_policy:
        return "the collector runs it on alerts"
    own = [
        f"{name} on {when}"
        for name, when in ((plan.timer_policy, "a timer"), (plan.alert_policy, "alerts"))
        if name
    ]
    return f"on request only; the collector itself runs {' and '.join(own) or 'no policy'}"


def _effect_text(action: Action, off: AbstractSet[str]) -> str:
    """The saved watts and the cost of an action. The watts of an empty node appear at its power-off."""
    parts = []
    is_counted_there = isinstance(action, Move) and action.node in off
    if isinstance(action, Move | PowerOff) and action.gain_watts and not is_counted_there:
        parts.append(f"saves {action.gain_watts:.1f} W")
    if isinstance(action, Move | PowerOff) and action.cost_joules:
        parts.append(f"costs {action.cost_joules:.0f} J")
    return f" ({', '.join(parts)})" if parts else ""
