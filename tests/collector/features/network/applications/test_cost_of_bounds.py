"""The bound of an application as a constraint, and what it costs."""

from dataclasses import replace

import msgspec

from collector.decide.policies.interface import Rejection, Request
from collector.decide.policies.least_watts.plan import rebalance
from collector.decide.policies.least_watts.policy import place
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import CURVE, amount
from tests.collector.decide.policies.least_watts.builders import DEFAULTS, make_node, make_task, moves_of
from tests.collector.features.network.applications.clusters import in_applications
from tests.collector.snapshot.builders import assemble

_MANY_MOVES = LeastWattsSettings(moves_per_day=1000)


def shop(*regions: str) -> Snapshot:
    """Node b draws less for the same work than a and c."""
    thrifty = msgspec.structs.replace(CURVE, cpu_watts=(0.0, 5.0, 10.0))
    nodes = [make_node("a"), make_node("b", curve=thrifty), make_node("c")]
    tasks = [make_task(name, name, 2, service=f"s{name}") for name in "abc"]
    return in_applications(assemble(nodes, tasks), {"shop": ["sa"]}, regions)


def test_the_bound_is_a_constraint_and_its_watts_are_stated() -> None:
    need = amount(1, 0.1)
    request = Request(demand=need, mean=need, known=True, service="sa")
    near, far = (place(shop("us", region, "us"), request, DEFAULTS) for region in ("us", "eu-north"))
    assert near.best == 1
    assert not any("bound" in each for each in near.explain(1))
    assert far.rows.tolist() == [0, 2]
    assert far.refused[1] == Rejection.DISTANCE
    assert far.explain(0)[-1] == (
        f"b would cost {near.scores[0] - far.scores[0]:.1f} W less, but the round-trip time between b and a"
        " is 135 ms; the bound of application shop is 85 ms"
    )


def test_a_plan_states_what_the_bounds_cost() -> None:
    """Only c has room for the container of a, and is too far from the other one of its application."""
    tasks = [
        make_task("1", "a", 1, service="web"),
        replace(make_task("2", "b", 9, service="web"), movable=False),
        replace(make_task("3", "c", 2, service="other"), movable=False),
    ]
    snapshot = assemble([make_node(name) for name in "abc"], tasks)
    unbounded = rebalance(snapshot, _MANY_MOVES)
    assert moves_of(unbounded) == [("1", "c")]
    plan = rebalance(in_applications(snapshot, {"shop": ["web"]}, ("us", "us", "eu-north")), _MANY_MOVES)
    assert plan.actions == ()
    watts = (plan.watts_after or 0.0) - (unbounded.watts_after or 0.0)
    assert watts > 10
    assert plan.reasons[-1].startswith(f"the bounds of applications cost {watts:.1f} W: ")
    near = rebalance(in_applications(snapshot, {"shop": ["web"]}, ("us", "us", "na")), _MANY_MOVES)
    assert moves_of(near) == [("1", "c")]
    assert not any("bounds" in each for each in near.reasons)
