"""Ours: where a task adds the fewest watts, on nodes where everything fits with a stated confidence.

A node's watts are read off its own power curve. What counts is what the task makes the node draw, and its
part of the node's idle watts, by the room that it takes of the scarcest resource there: so nodes fill evenly
in all resources, a task that uses what others leave is cheap, and waking a node costs all of its idle watts.
"""

import numpy as np

from collector.policies.actions import Action, PowerOn
from collector.policies.filters import eligible, without_room
from collector.policies.interface import Policy, Ranking, Rejection, Request
from collector.policies.least_watts.cost import UNKNOWN_WATTS, Costs, LeastWattsSettings, promise_room, share
from collector.policies.least_watts.plan import rebalance
from collector.policies.outlook import MEMORY, amounts, known_sums, needed, sway
from collector.policies.sorting import rising
from collector.snapshot.columns import best_guess, four, square
from collector.snapshot.power_curves import Floats, Rows, picked
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES

_CROWD_WATTS = 10 * UNKNOWN_WATTS
"""What another instance of the same service in a failure domain counts, when it should be kept apart."""


def place(snapshot: Snapshot, request: Request, settings: LeastWattsSettings) -> Ranking:
    """The nodes where the request fits, by the watts that it costs there."""
    nodes, spread = snapshot.nodes, settings.deviations
    more, more_variance = _wanted(request, settings)
    expected, variance = known_sums(snapshot, settings.unknown_ratio)
    expected = np.fmax(expected, nodes.used)
    variance = variance * sway(nodes.tasks + 1, settings.correlation)
    need = needed(expected + more, variance + more_variance, spread)
    refused = eligible(snapshot, request, stale_seconds=settings.stale_seconds, wake=True)
    # What is alone on a node may have all of it, else the largest would fit nowhere.
    alone = np.flatnonzero(nodes.tasks == 0)
    free = nodes.capacity * settings.fill_ratio
    free -= need - more
    free[alone] = nodes.capacity[alone]
    refused = without_room(refused, free, amounts(more))
    if not settings.overbooks:
        room = promise_room(nodes.capacity, nodes.allocated, nodes.strictest_class, request.task_class)
        short = without_room(refused, room, request.reserve) != refused
        refused = np.where(short, np.int8(Rejection.OVERBOOKED), refused)
    rows = np.flatnonzero(refused == Rejection.NOT)
    asleep = ~nodes.on[rows]
    cost, added, after = Costs(snapshot, spread).of(
        rows, picked(expected, rows), picked(variance, rows), more, more_variance, asleep
    )
    crowd = _crowd(snapshot, request)[rows]
    order = rising(cost)
    order = order[np.argsort(crowd[order], kind="stable")]

    def explain(row: int) -> tuple[str, ...]:
        at = int(np.searchsorted(rows, row))
        reasons = [_watts(float(added[at]), rows.size, asleep=bool(asleep[at]))]
        reasons.extend(_fills(after[at], nodes.capacity[row], settings.confidence))
        if crowd[at]:
            reasons.append(f"{crowd[at]} more of its service would fail together with it")
        return tuple(reasons)

    def needs(row: int) -> tuple[Action, ...]:
        if nodes.on[row]:
            return ()
        return (PowerOn(node=nodes.names[row], reasons=("no node that is on has room",)),)

    return Ranking(
        rows=rows[order],
        scores=-(cost + _CROWD_WATTS * crowd)[order],
        score_is="watts that it costs, its part of the idle watts included, times -1",
        refused=refused,
        explain=explain,
        needs=needs,
    )


def _wanted(request: Request, settings: LeastWattsSettings) -> tuple[Floats, Floats]:
    """What the request is expected to use and by how much it strays; of memory, its envelope."""
    demand, mean, reserve = (np.array(four(each)) for each in (request.demand, request.mean, request.reserve))
    variance = np.array(request.variance)
    if not request.known and not variance.any():
        part = best_guess(reserve, demand) * np.array(settings.unknown_ratio)
        return part, square(part)
    expected = best_guess(mean, demand, reserve)
    expected[MEMORY] = best_guess(demand, reserve)[MEMORY]
    return expected, variance


def _crowd(snapshot: Snapshot, request: Request) -> Rows:
    """How many of the request's service would fail together with it on each node, if that matters."""
    none = np.zeros(len(snapshot.nodes.names), dtype=np.intp)
    service = snapshot.services.index.get(request.service or "", NOWHERE)
    if not request.spread or service == NOWHERE:
        return none
    instances, domain = snapshot.instances(service), snapshot.nodes.domain
    told = domain != NOWHERE
    by_domain = np.bincount(domain[told], weights=instances[told], minlength=1).astype(np.intp)
    return np.where(told, by_domain[domain], instances)


def _watts(added: float, of: int, *, asleep: bool) -> str:
    if np.isnan(added):
        return f"what it adds is not known: the node has told no power curve; {of} nodes have room"
    how = " with its idle watts, as it must be switched on" if asleep else ""
    return f"adds {added:.1f} W there{how}; {of} nodes have room"


def _fills(after: Floats, capacity: Floats, confidence: float) -> list[str]:
    taken = share(after, capacity)
    cores = f" of {capacity[0]:g} cores with {confidence:.0%} confidence"
    return [
        f"{resource} would be at {taken[place]:.0%}{cores if not place else ''}"
        for place, resource in enumerate(RESOURCES)
        if capacity[place] > 0
    ]


LEAST_WATTS = Policy(
    name="least-watts",
    summary="fewest watts added, where every resource suffices with a stated confidence",
    settings=LeastWattsSettings,
    place=place,
    rebalance=rebalance,
)
