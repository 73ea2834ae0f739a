"""GenPack: containers are profiled in a nursery, packed by what they need among the young, and settle as old.

Placing: what is not known goes to the nursery, a service known from before straight to the young. Among the
young and old, the least available node that has room is the first choice, and one that is off is woken where
none has room. The nursery is always on, so that packing would save nothing there, and what a container needs
shows best where little else runs: there, the most available node comes first.

The phase (`rebalance`): the long-lived go from young to old, then the profiled from nursery to young, each by
the schedule of `packing`; nodes that envelopes outgrew are relieved; nodes whose containers all fit elsewhere
in their generation are emptied; what is idle then is switched off.
"""

import numpy as np
from msgspec.structs import astuple

from collector.policies.actions import Action, PowerOn
from collector.policies.filters import eligible, free_of_reserved, without_room
from collector.policies.genpack.generations import GenPackSettings, generations
from collector.policies.genpack.phase import Phase
from collector.policies.interface import Plan, Policy, Ranking, Request, ranked
from collector.policies.outcome import watts
from collector.policies.scoring import availability, each_percent, instances_near, share
from collector.snapshot.tables import Generation, Snapshot
from wire.resources import Quantities

_STEP = 3.0
"""More than availability can differ by, so that a generation that comes first does so whatever is free."""
_APART = 100.0
_UNKNOWN_FIRST = (Generation.NURSERY, Generation.YOUNG, Generation.OLD)
_KNOWN_FIRST = (Generation.YOUNG, Generation.NURSERY, Generation.OLD)


def place(snapshot: Snapshot, request: Request, settings: GenPackSettings) -> Ranking:
    """Nodes by generation, those that are on before those that are off, then by availability."""
    nodes = snapshot.nodes
    room = free_of_reserved(snapshot) - nodes.capacity * (1.0 - settings.fill_ratio)
    refused = eligible(snapshot, request, stale_seconds=settings.stale_seconds, wake=True)
    refused = without_room(refused, room, reckoned(request))
    generation = generations(snapshot, settings)
    order = _KNOWN_FIRST if request.known else _UNKNOWN_FIRST
    steps = np.empty(len(Generation))
    steps[list(order)] = 2.0 * np.arange(len(order))
    free = share(room, nodes.capacity)
    available = availability(free)
    packed = np.where(generation == Generation.NURSERY, available - 2.0, -available)
    near = instances_near(snapshot, request.service) if request.spread else np.zeros_like(available)
    scores = packed - _STEP * (steps[generation] + ~nodes.on) - _APART * near
    rows = ranked(scores, refused)

    def explain(row: int) -> tuple[str, ...]:
        what = "profiled before" if request.known else "not profiled yet"
        home = Generation(order[0]).name.lower()
        own = Generation(generation[row]).name.lower()
        reasons = [
            f"it belongs to the {own} generation; what is {what} goes to the {home} first",
            f"availability {available[row]:.3f}: free beside the envelopes there: {each_percent(free[row])}",
        ]
        if near[row]:
            reasons.append(f"{near[row]:g} tasks of this service would fail together with it")
        if not nodes.on[row]:
            reasons.append("it is off, and must be switched on first")
        return tuple(reasons)

    def needs(row: int) -> tuple[Action, ...]:
        if nodes.on[row]:
            return ()
        return (PowerOn(node=nodes.names[row], reasons=("no node that is on has room",)),)

    return Ranking(
        rows=rows,
        scores=scores[rows],
        score_is=(
            f"minus the availability (in the nursery, plus), less {_STEP:g} for being off and twice that per "
            f"generation away from the first choice, less {_APART:g} per task of a service kept apart"
        ),
        refused=refused,
        explain=explain,
        needs=needs,
    )


def reckoned(request: Request) -> Quantities:
    """What a request is reckoned to need: what was learnt, else what it asks for."""
    if request.known:
        return request.demand
    pairs = zip(astuple(request.demand), astuple(request.reserve), strict=True)
    return Quantities(*(asked if learnt is None else learnt for learnt, asked in pairs))


def rebalance(snapshot: Snapshot, settings: GenPackSettings) -> Plan:
    """One phase."""
    phase = Phase(snapshot, settings)
    phase.promote()
    phase.relieve()
    phase.consolidate()
    actions = (*phase.woken, *phase.moves.actions, *phase.idle())
    before, after = watts(snapshot, actions)
    return Plan(
        actions=actions,
        reasons=tuple(phase.reasons),
        left=tuple(phase.moves.left),
        watts_before=before,
        watts_after=after,
    )


GENPACK = Policy(
    name="genpack",
    summary="nursery, young, old: profile first, pack what goes well together, switch off the rest",
    settings=GenPackSettings,
    place=place,
    rebalance=rebalance,
)
