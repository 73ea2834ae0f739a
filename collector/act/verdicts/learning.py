"""What follows from verdicts: how cautious a decider must be, and which answers to an alert are spent. Pure.

Both use the pessimistic end of what is known, so that chance teaches nothing: a decider becomes cautious only
if even the best case that the figures allow is below its promise. Verdicts count for a week, so it is tried
again, and an answer is spent for a day, or until other services run on the node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot, sqrt
from typing import NamedTuple

import msgspec
import numpy as np

from collector.act.records import AlertEffect, Decision, Effect, Step, Verdict
from collector.act.verdicts.assess import (
    Bottleneck,
    acted_steps,
    answered_alerts,
    cost_joules,
    has_acted,
    relocations,
    taken_ratios,
)
from collector.decide.policies.actions import describe
from collector.decide.policies.interface import Stability
from collector.decide.policies.table import POLICIES
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES

WEEK_SECONDS = 7 * 86_400.0
_SPENT_SECONDS = 86_400.0
"""A day: the workload of another hour may need the same answer."""
_MOST_CAUTIOUS = 10.0
"""A decider is never stopped: what promises ten times as much is still done, and shows whether it helps."""
_NOT_SETTLED = -1.0
"""Below any cool-down: a policy does not move such a container, and does not call it unmovable either."""
_Z = 1.96
_EPSILON = 1e-9


class DeciderEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What the decisions of one policy brought."""

    policy: str
    """Name of the policy, or of the feature that decides."""
    decisions: int
    """Decisions that were carried out, at least in part."""
    effects: dict[Effect, int]
    """Number of these decisions by effect; those without a verdict yet are missing."""
    moves: int
    """Containers that were moved, stopped or started."""
    cost_joules: float
    """Energy of these moves, and of switching nodes off and on again."""
    alerts: int
    """Alerts that they answered, and that have a verdict."""
    closed_alerts: int
    """Those that ended, and stayed so."""
    alone_alerts: float
    """Those that would have ended anyway, by the alerts that were left alone."""
    measured: int
    """Decisions whose saved power could be measured."""
    promised_joules: float
    """Energy that these were to save in the measured periods."""
    saved_joules: float
    """Energy that they saved, `cost_joules` not counted; negative if they used more."""
    error_joules: float
    """Half the width of the 95% interval of `saved_joules`."""
    short_seconds_before: float
    """Time that nodes had alerts, in the periods before decisions; where both periods are known."""
    short_seconds_after: float
    """The same in the periods after them."""
    caution: float
    """Factor by which the gain of a plan must exceed the required minimum: 1, or more if measured gains stay
    below their promises. Always 1 for deciders that weigh no gains, such as brownout."""
    why: str
    """Why; empty if it is 1."""


def effects_of(decisions: Iterable[Decision], since: float) -> list[DeciderEffect]:
    """Return the effects of each decider since a time, by name."""
    by_policy: dict[str, list[Decision]] = {}
    for each in decisions:
        if each.at >= since and has_acted(each):
            by_policy.setdefault(each.policy, []).append(each)
    return [_effect_of(policy, found) for policy, found in sorted(by_policy.items())]


def _effect_of(policy: str, decisions: Sequence[Decision]) -> DeciderEffect:
    judged = [decisive_verdict(each) for each in decisions if each.verdicts]
    effects: dict[Effect, int] = {}
    for verdict in judged:
        effects[verdict.effect] = effects.get(verdict.effect, 0) + 1
    alerts = [each for verdict in judged for each in verdict.alerts]
    measured = [each for decision in decisions if (each := measured_verdict(decision)) is not None]
    timed = [each for each in judged if None not in (each.short_seconds_before, each.short_seconds_after)]
    promised = [each for each in measured if (each.promised_watts or 0.0) > 0.0]
    factor, why = _caution(alerts, promised) if _weighs_gains(policy) else (1.0, "")
    return DeciderEffect(
        policy=policy,
        decisions=len(decisions),
        effects=effects,
        moves=sum(len(relocations(each)) for each in decisions),
        cost_joules=sum(map(cost_joules, decisions)),
        alerts=len(alerts),
        closed_alerts=sum(map(is_closed, alerts)),
        alone_alerts=sum(each.alone_ratio or 0.0 for each in alerts),
        measured=len(measured),
        promised_joules=sum((each.promised_watts or 0.0) * each.after_seconds for each in measured),
        saved_joules=sum((each.saved_watts or 0.0) * each.after_seconds for each in measured),
        error_joules=hypot(*((each.error_watts or 0.0) * each.after_seconds for each in measured)),
        short_seconds_before=sum(each.short_seconds_before or 0.0 for each in timed),
        short_seconds_after=sum(each.short_seconds_after or 0.0 for each in timed),
        caution=factor,
        why=why,
    )


def _weighs_gains(decider: str) -> bool:
    """Whether caution changes what it decides: a feature that stops or scales services has none."""
    policy = POLICIES.get(decider)
    return policy is not None and issubclass(policy.settings, Stability)


def measured_verdict(decision: Decision) -> Verdict | None:
    """Return the last verdict that knows the saved power; None if there is none."""
    return next((each for each in reversed(decision.verdicts) if each.saved_watts is not None), None)


def decisive_verdict(decision: Decision) -> Verdict:
    """Return the verdict that counts: the first on alerts and metrics, the last one that knows the power.

    After a day, most alerts would have ended anyway, and others have begun.
    """
    first = decision.verdicts[0]
    if first.alerts or first.goal is not None:
        return first
    return measured_verdict(decision) or decision.verdicts[-1]


_BADNESS = {Effect.HELPED: 0, Effect.UNKNOWN: 1, Effect.LESS: 2, Effect.USELESS: 3}


def badness(decision: Decision) -> tuple[int, float, float]:
    """Return a sort key of decisions with verdicts: the worse, the higher."""
    verdict, measured = decisive_verdict(decision), measured_verdict(decision)
    missed = 0.0 if measured is None else (measured.promised_watts or 0.0) - (measured.saved_watts or 0.0)
    return _BADNESS[verdict.effect], missed, verdict.short_seconds_after or 0.0


def is_closed(alert: AlertEffect) -> bool:
    """Whether an alert ended, and no other followed."""
    return alert.closed_seconds is not None and not alert.is_open


def _caution(alerts: Sequence[AlertEffect], measured: Sequence[Verdict]) -> tuple[float, str]:
    """Return the factor of one decider, and why."""
    ratios: list[tuple[float, str]] = []
    if alerts:
        brought = sum(max(0.0, is_closed(each) - (each.alone_ratio or 0.0)) for each in alerts)
        closed, alone = sum(map(is_closed, alerts)), sum(each.alone_ratio or 0.0 for each in alerts)
        anyway = f", {alone:.1f} of which would have ended anyway" if alone else ""
        ratios.append(
            (_most_of(brought, len(alerts)), f"{closed} of {len(alerts)} answered alerts ended{anyway}")
        )
    promised = sum(each.promised_watts or 0.0 for each in measured)
    if promised > 0.0:
        saved = sum(each.saved_watts or 0.0 for each in measured)
        error = hypot(*(each.error_watts or 0.0 for each in measured))
        text = f"{saved:.1f} W ±{error:.1f} of {promised:.1f} W promised were saved"
        ratios.append(((saved + error) / promised, text))
    ratio, text = min(ratios, default=(1.0, ""))
    factor = min(_MOST_CAUTIOUS, 1.0 / max(ratio, _EPSILON))
    return (factor, f"{text}: at most {max(ratio, 0.0):.0%} of the promise") if factor > 1.0 else (1.0, "")


def _most_of(count: float, total: int) -> float:
    """Return the upper end of Wilson's 95 % interval of a share."""
    if count >= total:
        return 1.0
    share, z2 = count / total, _Z * _Z
    centre = share + z2 / (2 * total)
    width = _Z * sqrt(max(0.0, share * (1 - share)) / total + z2 / (4 * total * total))
    return min(1.0, (centre + width) / (1 + z2 / total))


# --- Spent answers ------------------------------------------------------------------------------


class Spent(NamedTuple):
    """Why an answer must not be given again, and whether a verdict says so."""

    why: str
    is_judged: bool


@dataclass(frozen=True, slots=True)
class SpentAnswers:
    """Answers that did not end an alert, or of which that is not known yet."""

    by_alert: Mapping[Bottleneck, Mapping[str, Spent]] = field(default_factory=dict)
    """By bottleneck, then by service; a container without a service counts as one."""

    def reason(self, step: Step) -> str | None:
        """Return why a step must not answer the same alert again; None if it may.

        Brownout waits for the effect of a stop by rules of its own.
        """
        found = [
            self.by_alert.get((each.node, each.resource), {}).get(answer_of(step)) for each in step.reliefs
        ]
        spent = [each.why for each in found if each is not None and (each.is_judged or step.answers_alert)]
        # It may be for another alert of the node.
        return spent[0] if spent and len(spent) == len(found) else None

    def pinned(self, snapshot: Snapshot) -> tuple[Snapshot, tuple[str, ...]]:
        """Return the snapshot with containers whose move would be such an answer as not settled, and why."""
        nodes, tasks, services = snapshot.nodes, snapshot.tasks, snapshot.services
        settled_seconds, reasons = tasks.settled_seconds.copy(), list[str]()
        for row in np.flatnonzero(nodes.has_bottleneck).tolist():
            short = [RESOURCES[column] for column in np.flatnonzero(nodes.bottleneck[row]).tolist()]
            spent = [self.by_alert.get((nodes.names[row], each), {}) for each in short]
            for task in snapshot.tasks_on(row).tolist():
                service = int(tasks.service[task])
                name = tasks.names[task] if service == NOWHERE else services.names[service]
                if all(name in each for each in spent):
                    settled_seconds[task] = _NOT_SETTLED
                    reasons.append(spent[0][name].why)
        if not reasons:
            return snapshot, ()
        settled = replace(tasks, settled_seconds=settled_seconds)
        return replace(snapshot, tasks=settled), tuple(dict.fromkeys(reasons))


def answer_of(step: Step) -> str:
    """Return the service whose containers a step changes, or the name of a container without one."""
    return step.service or str(getattr(step.action, "title", ""))


def services_on(snapshot: Snapshot, nodes: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the services on some nodes, by name."""
    tasks, names = snapshot.tasks, snapshot.services.names
    rows = {
        node: snapshot.tasks_on(snapshot.nodes.index[node]) for node in nodes if node in snapshot.nodes.index
    }
    return {
        node: tuple(sorted({names[each] for each in tasks.service[there].tolist() if each != NOWHERE}))
        for node, there in rows.items()
    }


def spent_answers(
    decisions: Iterable[Decision], now: float, services: Mapping[str, tuple[str, ...]]
) -> SpentAnswers:
    """Return the answers that must not be given again; `services` run on each node with an alert."""
    found: dict[Bottleneck, dict[str, Spent]] = {}
    for decision in decisions:
        if now - decision.at >= _SPENT_SECONDS or not has_acted(decision):
            continue
        if not any(each.node in services for each in decision.alerts):
            continue
        for key, spent in _useless_for(decision, now, services):
            for step in acted_steps(decision):
                if any((each.node, each.resource) == key for each in step.reliefs):
                    why = f"{describe(step.action)} {spent.why}"
                    found.setdefault(key, {}).setdefault(answer_of(step), spent._replace(why=why))
    return SpentAnswers(found)


def _useless_for(
    decision: Decision, now: float, services: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[Bottleneck, Spent]]:
    """Return the alerts that a decision did not end, as far as its steps took away what had to go."""
    ago, effects = (
        f"(decision {decision.id}, {(now - decision.at) / 60:.0f} min ago)",
        alert_effects(decision),
    )
    taken = taken_ratios(decision)
    for alert in answered_alerts(decision):
        key = alert.node, alert.resource
        if alert.node not in services or taken[key] < (alert.excess_ratio or 0.0):
            continue
        effect, what = effects.get(key), f"the shortage of {alert.resource} of {alert.node} {ago}"
        if effect is None:
            yield key, Spent(f"answered {what}: what it brings is not known yet", is_judged=False)
        elif not is_closed(effect) and effect.services == services[alert.node]:
            until = "not tried again for a day, or until other services run there"
            yield key, Spent(f"did not end {what}: {until}", is_judged=True)


def alert_effects(decision: Decision) -> dict[Bottleneck, AlertEffect]:
    """Return the effects of a decision on alerts."""
    verdicts = decision.verdicts[:1]
    return {(each.node, each.resource): each for verdict in verdicts for each in verdict.alerts}
