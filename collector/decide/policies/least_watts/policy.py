"""Wattpack's own policy: where a task adds the fewest watts, on nodes that are short no longer than accepted.

A node's watts come from its own power curve. The cost of a task is the power that it adds to the node, and
its share of the node's idle power: what it takes of the scarcest resource, of all that is taken there. So a
task that uses what others leave is cheap, and full nodes come before those that might soon be empty. A node
that is off, or empty and could be switched off, costs all of its idle power.
"""

import numpy as np

from collector.common.arrays import Codes, Floats
from collector.common.text import counted
from collector.decide.policies.actions import Action, PowerOn
from collector.decide.policies.filters import (
    describe_refusal,
    eligible_unfiltered,
    reject_filtered,
    reject_strained,
    without_room,
)
from collector.decide.policies.interface import Policy, Ranking, Rejection, Request
from collector.decide.policies.least_watts.cost import UNKNOWN_WATTS, Carried, Costs, with_margin
from collector.decide.policies.least_watts.margins import Margins, learn
from collector.decide.policies.least_watts.plan import rebalance
from collector.decide.policies.least_watts.settings import KNOB, LeastWattsSettings
from collector.decide.policies.least_watts.usage import (
    Usage,
    expected_shares,
    request_need,
    sums_with_pending,
    sums_without_pending,
    usable,
)
from collector.decide.policies.overbooking import reject_overbooked
from collector.decide.policies.scoring import instances_near, same_domain, stable_argsort
from collector.decide.policies.stability import may_sleep
from collector.snapshot.power_curves import picked
from collector.snapshot.tables import Snapshot
from wire.resources import RESOURCES

_CROWD_WATTS = 10 * UNKNOWN_WATTS
"""Cost of each instance of the same service in the failure domain of a node, if the service is to spread."""
_SMALL = 0.005
"""A smaller margin is not worth a mention."""


def place(snapshot: Snapshot, request: Request, settings: LeastWattsSettings) -> Ranking:
    """Rank the nodes where the request fits by the watts that it costs there."""
    nodes = snapshot.nodes
    usage, margins = learn(snapshot, settings)
    spread = margins.deviations
    shares = expected_shares(snapshot, usage)
    more, more_variance = request_need(request, usage, shares)
    expected, variance = sums_with_pending(snapshot, usage, shares)
    variance, more_variance = variance * margins.together, more_variance * margins.together
    with_it = expected + more
    need = with_margin(with_it, variance + more_variance, spread)
    refused = _refused(snapshot, request, settings, usage, need, more)
    rows = np.flatnonzero(refused == Rejection.NOT)
    asleep = ~nodes.on[rows] | ((nodes.tasks[rows] == 0) & may_sleep(snapshot)[rows])
    costs = Costs(snapshot, spread)
    carried = _carried(snapshot, costs, usage, shares, margins)
    cost, added = costs.of(
        rows,
        Carried(carried.filled[rows], carried.watts[rows]),
        picked(with_it, rows),
        picked(need, rows),
        asleep,
    )
    crowd = instances_near(snapshot, request.service)[rows] if request.spread else np.zeros(rows.size)
    order = stable_argsort(cost)
    order = order[np.argsort(crowd[order], kind="stable")]
    refused = reject_filtered(snapshot, request, refused)
    is_open = refused[rows[order]] == Rejection.NOT
    cheaper, order = order[~is_open], order[is_open]

    def explain(row: int) -> tuple[str, ...]:
        at = int(np.searchsorted(rows, row))
        idle_watts = float(nodes.power.idle_watts[row]) if asleep[at] else 0.0
        idle = _idle_power(idle_watts, on=bool(nodes.on[row]))
        reasons = [_watts(float(added[at]), order.size, idle)]
        margin = (need[row] - expected[row] - more) / nodes.known_capacity[row]
        reasons.append(_keeps_free(margin, settings.short_ratio))
        if crowd[at]:
            reasons.append(same_domain(crowd[at]))
        if cheaper.size and cost[cheaper[0]] < cost[at] < UNKNOWN_WATTS:
            other = int(rows[cheaper[0]])
            why = describe_refusal(snapshot, request, int(refused[other]), other)
            less = f"{cost[at] - cost[cheaper[0]]:.1f} W"
            reasons.append(f"{nodes.names[other]} would cost {less} less, but {why}")
        return tuple(reasons)

    def needs(row: int) -> tuple[Action, ...]:
        if nodes.on[row]:
            return ()
        return (PowerOn(node=nodes.names[row], reasons=("no node that is on has room",)),)

    return Ranking(
        rows=rows[order],
        scores=-(cost + _CROWD_WATTS * crowd)[order],
        score_is="minus the watts that the container costs, its share of the node's idle power included",
        refused=refused,
        explain=explain,
        needs=needs,
    )


def _refused(  # noqa: PLR0913, PLR0917 - question and prediction
    snapshot: Snapshot,
    request: Request,
    settings: LeastWattsSettings,
    usage: Usage,
    need: Floats,
    more: Floats,
) -> Codes:
    """The first reason against each node, the filters of features apart.

    `need` is the need of each node with the request, margins included, and `more` the expected use of the
    request.
    """
    nodes = snapshot.nodes
    refused = eligible_unfiltered(snapshot, request, stale_seconds=settings.stale_seconds, wake=True)
    refused = reject_strained(nodes, refused)
    free = snapshot.cached("usable", lambda: usable(snapshot, usage)) - need + more
    # The only task of a node may use all of it: otherwise the largest would fit nowhere.
    empty = np.flatnonzero(nodes.tasks == 0)
    free[empty] = np.where(usage.constrains, nodes.capacity[empty], np.nan)
    refused = without_room(refused, free, more)
    return refused if settings.overbooks else reject_overbooked(snapshot, request, refused)


def _carried(snapshot: Snapshot, costs: Costs, usage: Usage, shares: Floats, margins: Margins) -> Carried:
    """What nodes carry already: once per snapshot, and again for the few nodes with pending tasks."""
    key = "carried", *margins.deviations.tolist(), *margins.together.tolist()

    def without_pending() -> Carried:
        expected, variance = sums_without_pending(snapshot, usage)
        return costs.carried(expected, variance * margins.together)

    def with_pending() -> Carried:
        carried = Carried(*(each.copy() for each in snapshot.cached(key, without_pending)))
        rows = np.unique(snapshot.pending.nodes)
        expected, variance = (picked(each, rows) for each in sums_with_pending(snapshot, usage, shares))
        carried.filled[rows], carried.watts[rows] = costs.carried(expected, variance * margins.together, rows)
        return carried

    return snapshot.cached_with_pending(key, with_pending)


def _idle_power(watts: float, *, on: bool) -> str:
    """Describe why the idle power of a node counts; empty if it does not, or is unknown."""
    if not watts > 0:
        return ""
    if not on:
        return f", {watts:.1f} W of it idle power, because it must be switched on"
    return f"; its idle power of {watts:.1f} W counts too, because it is empty and could be switched off"


def _watts(added: float, of: int, idle: str) -> str:
    room = f"{counted(of, 'node')} with room"
    if np.isnan(added):
        return f"the added power is unknown: the node has no power curve; {room}"
    return f"adds {added:.1f} W there{idle}; {room}"


def _keeps_free(margin: Floats, short_ratio: float) -> str:
    """Describe the margin for variation; the expected use itself is part of the hint."""
    free = [
        f"{margin[place]:.0%} of {each}" for place, each in enumerate(RESOURCES) if margin[place] > _SMALL
    ]
    kept = f"keeps {', '.join(free)} free for variation" if free else "needs no margin for variation"
    return f"{kept}: short at most {short_ratio:.1%} of the time"


LEAST_WATTS = Policy(
    name="least-watts",
    summary="fewest watts added, on nodes that are short no longer than accepted",
    for_whom="clusters of any kind that should draw less power; the default",
    settings=LeastWattsSettings,
    knob=KNOB,
    has_margins=True,
    place=place,
    rebalance=rebalance,
)
