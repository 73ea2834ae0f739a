"""`net-optimal`: the same problem as `net-aware`, solved exactly within a time limit."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from msgspec import Meta

from collector.decide.policies.interface import ApplicationPlacement, Plan, Policy, Request, Stability
from collector.features.network.applications.answer import placed_answer, refused_answer
from collector.features.network.applications.problem import build
from collector.features.network.applications.together import bring_together
from collector.features.network.policies import place
from collector.snapshot.tables import Snapshot
from replay.contenders.net_optimal import exact


class NetOptimalSettings(Stability, frozen=True):
    """Settings of `net-optimal`."""

    limit_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=60,
            description="Maximum time of a search. The best placement found until then is used, and the"
            " answer states how much better the best one could be.",
        ),
    ] = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalPlacement(ApplicationPlacement):
    """A placement, and how far it is from the best one."""

    gap_ratio: float
    """How much lower F could be at most, as a share of F: 0 if this is the optimum."""


def place_optimally(
    snapshot: Snapshot, requests: Sequence[Request], settings: NetOptimalSettings
) -> ApplicationPlacement:
    """Place an application by the exact solver, within its time limit; spread as by the greedy."""
    spreads = any(each.spread for each in requests)
    built = build(snapshot, requests, stale_seconds=settings.stale_seconds, spreads=spreads)
    found = exact.solve(built.problem, seconds=settings.limit_seconds)
    if found.placed is None and spreads:
        built = build(snapshot, requests, stale_seconds=settings.stale_seconds)
        found = exact.solve(built.problem, seconds=settings.limit_seconds)
    if found.placed is None:
        return refused_answer(snapshot, requests, built, stale_seconds=settings.stale_seconds)
    answer = placed_answer(snapshot, built, found.placed)
    assert answer.objective is not None
    value = answer.objective.value
    gap_ratio = max(value - found.lower_bound, 0.0) / value if value > 0 else 0.0
    known = {each.name: getattr(answer, each.name) for each in fields(answer)}
    return OptimalPlacement(**known, gap_ratio=gap_ratio)


def rebalance_optimally(snapshot: Snapshot, settings: NetOptimalSettings) -> Plan:
    """Bring applications together that are apart, with the fewest moves."""
    return bring_together(
        snapshot, settings, lambda problem: exact.solve(problem, seconds=settings.limit_seconds).placed
    )


NET_OPTIMAL = Policy(
    name="net-optimal",
    summary="ge-kube's integer linear program: as net-aware, but solved exactly within a time limit",
    settings=NetOptimalSettings,
    place=place,
    rebalance=rebalance_optimally,
    place_all=place_optimally,
)
