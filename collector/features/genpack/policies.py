"""GenPack: containers are profiled on nursery nodes, packed on young nodes, and end on old nodes.

Placement: an unknown service goes to the nursery, a known one to young nodes. Of young and old nodes the
least available one with room comes first; one that is off is switched on if no other has room. The nursery is
always on, so that packing saves nothing there, and a profile is most accurate where little else runs: there,
the most available node comes first.

Phase (`rebalance`): long-lived containers move from young to old, then profiled ones from nursery to young,
by the schedule of `packing`; nodes whose envelopes exceed the limit are relieved; nodes whose containers all
fit elsewhere in their generation are emptied; empty nodes are switched off.
"""

import numpy as np
from msgspec.structs import astuple

from collector.decide.policies.actions import Action, PowerOn
from collector.decide.policies.filters import eligible, without_room
from collector.decide.policies.interface import Plan, Policy, Ranking, Request, rank_by_score
from collector.decide.policies.overbooking import reject_overbooked
from collector.decide.policies.scoring import availability, each_percent, instances_near, same_domain
from collector.decide.policies.stability import with_watts
from collector.features.genpack.phase import GenPackSettings, Phase, generations
from collector.snapshot.columns import as_row
from collector.snapshot.tables import Generation, Snapshot
from wire.resources import Quantities

_STEP = 3.0
"""More than the largest difference in availability: the generation outweighs it."""
_SPREAD_PENALTY = 100.0
_UNKNOWN_FIRST = (Generation.NURSERY, Generation.YOUNG, Generation.OLD)
_KNOWN_FIRST = (Generation.YOUNG, Generation.NURSERY, Generation.OLD)


def place(snapshot: Snapshot, request: Request, settings: GenPackSettings) -> Ranking:
    """Rank nodes by generation, then on before off, then by availability."""
    nodes = snapshot.nodes
    room = nodes.capacity - nodes.envelope_sum - nodes.capacity * (1.0 - settings.fill_ratio)
    refused = eligible(snapshot, request, stale_seconds=settings.stale_seconds, wake=True)
    refused = without_room(refused, room, as_row(expected_need(request)))
    if not settings.overbooks:
        refused = reject_overbooked(snapshot, request, refused)
    generation = generations(snapshot, settings)
    order = _KNOWN_FIRST if request.known else _UNKNOWN_FIRST
    steps = np.empty(len(Generation))
    steps[list(order)] = 2.0 * np.arange(len(order))
    free = room / nodes.known_capacity
    available = availability(free)
    packed = np.where(generation == Generation.NURSERY, available - 2.0, -available)
    near = instances_near(snapshot, request.service) if request.spread else np.zeros_like(available)

    def explain(row: int) -> tuple[str, ...]:
        service = "a profiled service" if request.known else "a service without a profile"
        first, own = (Generation(each).name.lower() for each in (order[0], generation[row]))
        reasons = [
            f"{own} node; {service} goes to {first} nodes first",
            f"availability {available[row]:.3f}: free of envelopes: {each_percent(free[row])}",
        ]
        if near[row]:
            reasons.append(same_domain(near[row]))
        if not nodes.on[row]:
            reasons.append("the node is off and must be switched on first")
        return tuple(reasons)

    def needs(row: int) -> tuple[Action, ...]:
        if nodes.on[row]:
            return ()
        return (PowerOn(node=nodes.names[row], reasons=("no node that is on has room",)),)

    return rank_by_score(
        packed - _STEP * (steps[generation] + ~nodes.on) - _SPREAD_PENALTY * near,
        refused,
        score_is=(
            f"minus the availability (plus, in the nursery), less {_STEP:g} if off, less {2 * _STEP:g} per "
            f"generation after the preferred one, less {_SPREAD_PENALTY:g} per task of the service to spread"
        ),
        explain=explain,
        needs=needs,
    )


def expected_need(request: Request) -> Quantities:
    """Return what a request needs: its measured demand, or else its reservation."""
    if request.known:
        return request.demand
    pairs = zip(astuple(request.demand), astuple(request.reserve), strict=True)
    return Quantities(*(reserve if demand is None else demand for demand, reserve in pairs))


def rebalance(snapshot: Snapshot, settings: GenPackSettings) -> Plan:
    """Run one phase."""
    phase = Phase(snapshot, settings)
    phase.promote()
    phase.relieve()
    phase.consolidate()
    actions = (*phase.woken, *phase.planned.actions, *phase.switch_off())
    names = snapshot.nodes.names
    plan = Plan(
        actions=actions,
        reasons=tuple(phase.reasons),
        left=tuple(phase.planned.left),
        kept={names[row]: why for row, why in phase.planned.kept.items()},
    )
    return with_watts(snapshot, plan)


GENPACK = Policy(
    name="genpack",
    summary="nursery, young and old nodes: profile first, then pack, and switch empty nodes off",
    for_whom="clusters of many short jobs and unknown containers beside long-running services",
    settings=GenPackSettings,
    place=place,
    rebalance=rebalance,
)

POLICIES = (GENPACK,)
