"""Nursery, young and old: where containers go, and which nodes are emptied and switched on or off."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from collector.common.liveness import Liveness
from collector.config import CollectorConfig
from collector.decide.policies.actions import Move, PowerOff, PowerOn
from collector.decide.policies.interface import Plan, Rejection, Request
from collector.features.genpack.live import NodeEfficiency
from collector.features.genpack.phase import GenPackSettings, generations
from collector.features.genpack.policies import place, rebalance
from collector.snapshot.tables import Generation, Snapshot
from tests.collector.decide.policies.clusters import CURVE, amount
from tests.collector.snapshot.builders import NodeFacts, ServiceFacts, TaskFacts, assemble

NURSERY, YOUNG, OLD = Generation.NURSERY, Generation.YOUNG, Generation.OLD
SETTINGS = GenPackSettings()
CPU_HEAVY, MEMORY_HEAVY = amount(2, 1), amount(1, 2)


def node(name: str, generation: Generation, **facts: Any) -> NodeFacts:
    return NodeFacts(**{"name": name, "capacity": amount(6, 6), "generation": generation, **facts})


def asleep(name: str, generation: Generation, **facts: Any) -> NodeFacts:
    return node(name, generation, on=False, liveness=Liveness.DOWN, report_age_seconds=1e6, **facts)


def task(name: str, on: str, need: Any = CPU_HEAVY, **facts: Any) -> TaskFacts:
    return TaskFacts(
        **{"id": name, "node": on, "envelope": need, "observed_seconds": 60.0, "age_seconds": 100.0, **facts}
    )


def order(snapshot: Snapshot, request: Request) -> list[str]:
    return [snapshot.nodes.names[row] for row in place(snapshot, request, SETTINGS).rows]


def moves(plan: Plan) -> dict[str, str]:
    return {action.task: action.target for action in plan.actions if isinstance(action, Move)}


def switched(plan: Plan) -> dict[str, bool]:
    return {
        action.node: isinstance(action, PowerOn)
        for action in plan.actions
        if isinstance(action, PowerOn | PowerOff)
    }


def test_unknown_services_go_to_the_nursery_and_known_ones_skip_it() -> None:
    snapshot = assemble([node("n", NURSERY), node("o", OLD), node("y", YOUNG)])
    assert order(snapshot, Request(demand=CPU_HEAVY)) == ["n", "y", "o"]
    assert order(snapshot, Request(demand=CPU_HEAVY, known=True)) == ["y", "n", "o"]


def test_young_nodes_are_packed_and_the_nursery_is_spread() -> None:
    nodes = [node("n1", NURSERY), node("n2", NURSERY), node("y1", YOUNG), node("y2", YOUNG)]
    snapshot = assemble(nodes, [task("a", "n1"), task("b", "y2")])
    assert order(snapshot, Request(demand=CPU_HEAVY))[:2] == ["n2", "n1"]
    assert order(snapshot, Request(demand=CPU_HEAVY, known=True))[:2] == ["y2", "y1"]


def test_nodes_without_room_for_the_envelope_are_refused() -> None:
    snapshot = assemble([node("y", YOUNG)], [task("a", "y", amount(5, 1))])
    assert place(snapshot, Request(demand=CPU_HEAVY, known=True), SETTINGS).refused.tolist() == [
        Rejection.CPU
    ]


def test_the_reservation_stands_for_an_unknown_demand() -> None:
    snapshot = assemble([node("n", NURSERY)], [task("a", "n", amount(5, 1))])
    assert place(snapshot, Request(reserve=CPU_HEAVY), SETTINGS).refused.tolist() == [Rejection.CPU]
    assert place(snapshot, Request(reserve=CPU_HEAVY, known=True), SETTINGS).refused.tolist() == [
        Rejection.NOT
    ]


def test_a_node_that_is_off_is_switched_on_before_another_generation_is_used() -> None:
    snapshot = assemble([node("n", NURSERY), asleep("y1", YOUNG), node("y2", YOUNG)], [task("a", "y2")])
    ranking = place(snapshot, Request(demand=amount(5, 1), known=True), SETTINGS)
    assert [snapshot.nodes.names[row] for row in ranking.rows] == ["y1", "n"]
    assert ranking.needs(1) == (PowerOn(node="y1", reasons=("no node that is on has room",)),)
    assert ranking.needs(0) == ()


def test_a_service_can_be_kept_apart() -> None:
    nodes = [
        node("y1", YOUNG, domain="east"),
        node("y2", YOUNG, domain="east"),
        node("y3", YOUNG, domain="west"),
    ]
    snapshot = assemble(nodes, [task("a", "y1", service="web")])
    request = Request(demand=CPU_HEAVY, known=True, service="web", spread=True)
    assert order(snapshot, request) == ["y3", "y1", "y2"]


def test_the_motivating_example_is_placed_whole_by_a_phase() -> None:
    """Twelve containers, profiled in a nursery, move to three young nodes; spread and binpack place ten."""
    arriving = [CPU_HEAVY] * 4 + [MEMORY_HEAVY] * 2 + [CPU_HEAVY] * 2 + [MEMORY_HEAVY] * 4
    tasks = [task(f"{number:02}", "n", need, age_seconds=700.0) for number, need in enumerate(arriving)]
    nodes = [node("n", NURSERY, capacity=amount(64, 64)), *(node(f"y{number}", YOUNG) for number in range(3))]
    plan = rebalance(assemble(nodes, tasks), SETTINGS)
    assert len(moves(plan)) == 12
    assert set(moves(plan).values()) == {"y0", "y1", "y2"}
    assert not plan.left


@pytest.mark.parametrize(
    ("facts", "on", "target"),
    [
        ({"age_seconds": 599.0}, "n", None),
        ({"age_seconds": 600.0}, "n", "y"),
        ({"age_seconds": 600.0, "observed_seconds": 0.0}, "n", None),
        ({"age_seconds": 600.0, "movable": False}, "n", None),
        ({"age_seconds": 1799.0}, "y", None),
        ({"age_seconds": 1800.0}, "y", "o"),
        ({"age_seconds": 1800.0, "settled_seconds": 60.0}, "y", None),
        ({"age_seconds": 1e9}, "o", None),
    ],
)
def test_containers_that_run_long_enough_move_to_the_next_generation(
    facts: dict[str, Any], on: str, target: str | None
) -> None:
    snapshot = assemble([node("n", NURSERY), node("o", OLD), node("y", YOUNG)], [task("a", on, **facts)])
    assert moves(rebalance(snapshot, SETTINGS)) == ({} if target is None else {"a": target})


def test_an_idle_node_is_switched_off_but_never_the_nursery() -> None:
    nodes = [
        node("n", NURSERY),
        node("o", OLD, curve=CURVE),
        node("y", YOUNG),
        node("z", YOUNG, accepts=False),
    ]
    plan = rebalance(assemble(nodes, [task("a", "y")]), SETTINGS)
    assert switched(plan) == {"o": False}
    assert [action.gain_watts for action in plan.actions if isinstance(action, PowerOff)] == [20.0]


def test_a_node_that_receives_a_container_in_the_plan_is_not_switched_off() -> None:
    plan = rebalance(
        assemble([node("n", NURSERY), node("y", YOUNG)], [task("a", "n", age_seconds=700.0)]), SETTINGS
    )
    assert moves(plan) == {"a": "y"}
    assert switched(plan) == {}


def test_the_most_efficient_node_with_room_is_switched_on_before_a_move_to_it() -> None:
    hungry = msgspec.structs.replace(CURVE, idle_watts=200.0)
    nodes = [
        node("n", NURSERY),
        asleep("y1", YOUNG, curve=hungry),
        asleep("y2", YOUNG, curve=CURVE),
        asleep("y3", YOUNG, curve=CURVE, capacity=amount(1, 1)),
    ]
    plan = rebalance(assemble(nodes, [task("a", "n", age_seconds=700.0)]), SETTINGS)
    assert moves(plan) == {"a": "y2"}
    assert switched(plan) == {"y2": True}
    assert isinstance(plan.actions[0], PowerOn)


def test_containers_without_room_are_listed_in_the_plan() -> None:
    nodes = [node("n", NURSERY), node("y", YOUNG, capacity=amount(1, 1))]
    plan = rebalance(assemble(nodes, [task("a", "n", age_seconds=700.0)]), SETTINGS)
    assert moves(plan) == {}
    assert plan.left == ("no young node has room for 1 container",)


def test_a_node_whose_containers_fit_elsewhere_is_emptied_and_switched_off() -> None:
    nodes = [node("y1", YOUNG, curve=CURVE), node("y2", YOUNG, curve=CURVE), node("y3", YOUNG, curve=CURVE)]
    tasks = [task("a", "y1"), task("b", "y1"), task("c", "y2", MEMORY_HEAVY)]
    plan = rebalance(assemble([*nodes, node("n", NURSERY)], tasks), SETTINGS)
    assert moves(plan) == {"c": "y1"}
    assert switched(plan) == {"y2": False, "y3": False}
    assert plan.watts_before is None  # The nursery has no power curve.


def test_a_node_is_not_emptied_in_part_nor_where_it_does_not_pay() -> None:
    nodes = [node("n", NURSERY, curve=CURVE), *(node(name, YOUNG, curve=CURVE) for name in ("y1", "y2"))]
    pinned = [task("a", "y1", amount(4, 1)), task("b", "y2"), task("c", "y2", movable=False)]
    assert moves(rebalance(assemble(nodes, pinned), SETTINGS)) == {}
    big = [
        task(name, on, need, mean=need)
        for name, on, need in (("a", "y1", amount(4, 1)), ("b", "y2", amount(2, 1)))
    ]
    assert moves(rebalance(assemble(nodes, big), SETTINGS)) == {"b": "y1"}
    assert moves(rebalance(assemble(nodes, big), GenPackSettings(payback_seconds=1.0))) == {}


def test_the_largest_containers_leave_a_node_whose_envelopes_exceed_the_limit() -> None:
    nodes = [node("n", NURSERY), node("y1", YOUNG), node("y2", YOUNG)]
    tasks = [task("a", "y1", amount(4, 1)), task("b", "y1", amount(3, 1)), task("c", "y2", amount(2, 1))]
    assert moves(rebalance(assemble(nodes, tasks), SETTINGS)) == {"a": "y2"}


def test_a_node_with_a_bottleneck_is_relieved_but_receives_nothing() -> None:
    short = (True, False, False, False)
    nodes = [node("n", NURSERY), node("y1", YOUNG, bottleneck=short), node("y2", YOUNG)]
    outgrown = [task("a", "y1", amount(4, 1)), task("b", "y1", amount(3, 1))]
    assert moves(rebalance(assemble(nodes, outgrown), SETTINGS)) == {"a": "y2"}
    profiled = [task("a", "y1", amount(1, 1)), task("b", "n", amount(1, 1), age_seconds=700.0)]
    assert moves(rebalance(assemble(nodes, profiled), SETTINGS)) == {"b": "y2"}


def test_reasons_are_whole_sentences() -> None:
    nodes = [node("n", NURSERY), node("y", YOUNG)]
    plan = rebalance(assemble(nodes, [task("a", "n", age_seconds=700.0)]), SETTINGS)
    assert plan.reasons == ("move 1 of 1 container from nursery to young nodes: age at least 600 s",)
    assert plan.actions[0].reasons[:-1] == (
        "the container is old enough for young nodes: age at least 600 s",
        "y is the fullest young node with room",
    )


def test_budget_of_moves_limits_the_plan_and_is_named() -> None:
    tasks = [task(f"{number}", "n", amount(0.5, 0.5), age_seconds=700.0) for number in range(5)]
    plan = rebalance(assemble([node("n", NURSERY), node("y", YOUNG)], tasks), GenPackSettings(moves=3))
    assert len(moves(plan)) == 3
    assert plan.left == ("2 more moves not planned: a plan has at most 3",)


def twelve(**curves: float) -> list[NodeFacts]:
    """Nodes without generations, the most efficient last; idle watts by name."""
    return [
        NodeFacts(
            name=f"n{number:02}",
            capacity=amount(8, 8),
            curve=msgspec.structs.replace(CURVE, idle_watts=curves.get(f"n{number:02}", 100.0 - number)),
        )
        for number in range(12)
    ]


def new(number: int, on: str = "n00", **facts: Any) -> TaskFacts:
    return task(f"new-{number}", on, amount(4, 4), **facts)


def test_without_assigned_generations_the_most_efficient_nodes_are_old() -> None:
    assert generations(assemble(twelve()), SETTINGS).tolist() == [NURSERY] + [YOUNG] * 8 + [OLD] * 3


@pytest.mark.parametrize(
    ("arrived", "nursery"), [(0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 5), (100, 5)]
)
def test_the_nursery_grows_with_the_containers_to_profile(arrived: int, nursery: int) -> None:
    """Up to five of twelve nodes, as in the paper: half of the nursery stays free for what arrives next."""
    found = generations(assemble(twelve(), [new(number) for number in range(arrived)]), SETTINGS)
    assert found.tolist() == [NURSERY] * nursery + [YOUNG] * (9 - nursery) + [OLD] * 3


def test_only_containers_that_need_a_profile_are_counted_for_the_nursery() -> None:
    known = ServiceFacts(name="known", profiled=True)
    tasks = [new(number, service="known") for number in range(6)]
    tasks += [task(f"old-{number}", "n00", amount(4, 4), age_seconds=700.0) for number in range(6)]
    assert generations(assemble(twelve(), tasks, [known]), SETTINGS).tolist().count(NURSERY) == 1


@pytest.mark.parametrize(
    "facts",
    [
        {"on": False, "liveness": Liveness.DOWN, "report_age_seconds": 1e6},
        {"liveness": Liveness.DOWN, "report_age_seconds": 1e6},
        {"accepts": False},
        {"curve": None},
    ],
    ids=["off", "down", "drained", "no curve"],
)
@pytest.mark.parametrize("count", [12, 3])
def test_the_nursery_is_a_usable_node_of_known_watts_if_there_is_one(
    facts: dict[str, Any], count: int
) -> None:
    nodes = twelve()[:count]
    nodes[0] = replace(nodes[0], **facts)
    found = generations(assemble(nodes), SETTINGS)
    assert np.flatnonzero(found == NURSERY).tolist() == [1]
    assert np.count_nonzero(found == OLD) == count // 4 + (count == 3)


def test_a_node_full_of_settled_containers_is_no_nursery_while_another_is_free() -> None:
    settled = [
        task(f"{row}-{part}", f"n{row:02}", age_seconds=700.0) for row in range(2) for part in range(3)
    ]
    found = generations(assemble(twelve(), settled), SETTINGS)
    assert np.flatnonzero(found == NURSERY).tolist() == [2]
    every = [task(f"{row}-{part}", f"n{row:02}", age_seconds=700.0) for row in range(12) for part in range(3)]
    assert np.flatnonzero(generations(assemble(twelve(), every), SETTINGS) == NURSERY).tolist() == [0]


def test_a_node_that_cannot_run_containers_does_not_join_the_nursery() -> None:
    nodes = twelve()
    nodes[1] = replace(nodes[1], accepts=False)
    found = generations(assemble(nodes, [new(1), new(2)]), SETTINGS)
    assert np.flatnonzero(found == NURSERY).tolist() == [0, 2]


def test_a_node_with_settled_containers_does_not_join_the_nursery() -> None:
    settled = task("settled", "n01", age_seconds=700.0)
    snapshot = assemble(twelve(), [settled, new(1), new(2)])
    assert np.flatnonzero(generations(snapshot, SETTINGS) == NURSERY).tolist() == [0, 2]
    assert "settled" not in moves(rebalance(snapshot, SETTINGS))


class Observed:
    """What the feature keeps, and the snapshots that it adds to."""

    def __init__(self) -> None:
        self.part = NodeEfficiency(CollectorConfig())

    def generations(self, *, restart: bool = False, **idle_watts: float) -> list[int]:
        if restart:
            watts, self.part = self.part.watts, NodeEfficiency(CollectorConfig())
            self.part.watts = watts
        snapshot = assemble(twelve(**idle_watts))
        part = self.part.snapshot_part(snapshot)
        assert part is not None
        found: list[int] = generations(snapshot.with_part(part), SETTINGS).tolist()
        return found


def test_small_changes_of_the_watts_of_a_node_change_no_generation() -> None:
    """Learned curves change all the time; the containers of a node should not move each time."""
    observed = Observed()
    first = observed.generations()
    assert observed.generations(n08=90.0, n09=92.0) == first
    assert observed.generations(n08=90.0, n09=92.0, restart=True) == first
    assert Observed().generations(n08=90.0, n09=92.0) != first


def test_a_node_whose_watts_change_much_gets_another_generation_and_keeps_it() -> None:
    observed = Observed()
    first = observed.generations()
    changed = observed.generations(n11=400.0)
    assert (first[11], changed[11]) == (OLD, NURSERY)
    assert observed.generations(n11=370.0) == changed


def test_a_node_whose_curve_is_unknown_for_a_while_keeps_its_generation() -> None:
    observed = Observed()
    first = observed.generations()
    unknown = assemble([replace(each, curve=None) for each in twelve()])
    part = observed.part.snapshot_part(unknown)
    assert part is not None
    assert generations(unknown.with_part(part), SETTINGS).tolist() == first


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [NURSERY]), (2, [YOUNG, NURSERY]), (3, [OLD, YOUNG, NURSERY])],
)
def test_a_small_cluster_has_a_nursery_first(count: int, expected: list[Generation]) -> None:
    nodes = [NodeFacts(name=str(number), capacity=amount(8, 8)) for number in range(count)]
    assert generations(assemble(nodes), SETTINGS).tolist() == expected


def test_shares_that_leave_nothing_still_leave_a_nursery() -> None:
    nodes = [NodeFacts(name=str(number), capacity=amount(8, 8)) for number in range(4)]
    found = generations(assemble(nodes), GenPackSettings(young_share=1.0, old_share=1.0))
    assert found.tolist().count(NURSERY) == 1


def test_if_some_nodes_have_a_generation_the_others_are_young() -> None:
    nodes = [node("a", Generation.ANY), node("b", OLD)]
    assert generations(assemble(nodes), SETTINGS).tolist() == [YOUNG, OLD]
