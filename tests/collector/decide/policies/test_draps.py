"""Algorithm 1, algorithm 2, and the cases in which nothing moves."""

from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest

from collector.decide.policies.actions import Move, PowerOn
from collector.decide.policies.draps import DrapsSettings, place, rebalance
from collector.decide.policies.interface import Plan, Rejection, Request
from collector.decide.policies.resolve import beside_timer, resolve
from collector.snapshot.columns import four
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount, random_cluster
from tests.collector.snapshot.builders import NodeFacts, ServiceFacts, TaskFacts, assemble
from wire.resources import Quantities, Resource

SETTINGS = DrapsSettings()
CPU_IS_SHORT, MEMORY_IS_SHORT = (True, False, False, False), (False, True, False, False)
DISK_IS_SHORT = (False, False, True, False)


def node(name: str, cores: float = 0.0, gibibytes: float = 0.0, **facts: Any) -> NodeFacts:
    """A node of ten cores and ten gibibytes that uses so much of them."""
    return NodeFacts(
        **{"name": name, "capacity": amount(10, 10, 10, 10), "used": amount(cores, gibibytes), **facts}
    )


def task(name: str, on: str, cores: float, gibibytes: float = 0.1, **facts: Any) -> TaskFacts:
    return TaskFacts(**{"id": name, "node": on, "used": amount(cores, gibibytes), "service": name, **facts})


def order(snapshot: Snapshot, request: Request) -> list[str]:
    return [snapshot.nodes.names[row] for row in place(snapshot, request, SETTINGS).rows]


def moves(plan: Plan) -> dict[str, str]:
    assert all(isinstance(action, Move) for action in plan.actions)
    return {action.task: action.target for action in plan.actions if isinstance(action, Move)}


def test_a_known_service_goes_where_most_of_its_dominant_resource_is_left() -> None:
    nodes = [node("a", 1, 7), node("b", 5, 1), node("c", 4, 6)]
    services = [
        ServiceFacts(name="web", profiled=True, dominant=0),
        ServiceFacts(name="db", profiled=True, dominant=1),
    ]
    snapshot = assemble(nodes, services=services)
    assert order(snapshot, Request(service="web")) == ["a", "c", "b"]
    assert order(snapshot, Request(service="db")) == ["b", "c", "a"]
    assert order(snapshot, Request(dominant=Resource.MEMORY)) == ["b", "c", "a"]


def test_an_unknown_service_goes_where_most_is_left_on_average() -> None:
    nodes = [node("a", 1, 7), node("b", 5, 1), node("c", 4, 6)]
    snapshot = assemble(nodes, services=[ServiceFacts(name="web", profiled=False, dominant=0)])
    assert order(snapshot, Request(service="web")) == ["b", "a", "c"]
    assert order(snapshot, Request(service="new")) == ["b", "a", "c"]


def test_availability_is_a_share_so_that_large_nodes_do_not_take_all() -> None:
    large = NodeFacts(name="large", capacity=amount(100, 100), used=amount(50, 50))
    assert order(assemble([large, node("small", 4, 4)]), Request()) == ["small", "large"]


def test_nodes_that_fail_a_filter_are_no_candidates() -> None:
    nodes = [node("a", 7.5), node("b", 1), node("c", accepts=False), node("d", bottleneck=MEMORY_IS_SHORT)]
    snapshot = assemble(nodes, [TaskFacts(id="1", node="b", requested=amount(9, 9))])
    ranking = place(snapshot, Request(demand=amount(1, 1), reserve=amount(2, 2)), SETTINGS)
    assert ranking.refused.tolist() == [Rejection.CPU, Rejection.CPU, Rejection.CLOSED, Rejection.BOTTLENECK]


def test_a_node_with_an_unknown_resource_is_never_the_best() -> None:
    silent = NodeFacts(name="a", capacity=Quantities(10.0, 10 * 2**30))
    snapshot = assemble([silent, node("b", used=amount(1, 1, 9, 9))])
    assert order(snapshot, Request(dominant=Resource.DISK)) == ["b", "a"]


def test_a_service_can_be_kept_apart() -> None:
    snapshot = assemble([node("a"), node("b", 5, 5)], [TaskFacts(id="1", node="a", service="web")])
    assert order(snapshot, Request(service="web")) == ["a", "b"]
    assert order(snapshot, Request(service="web", spread=True)) == ["b", "a"]


def test_a_bottleneck_moves_the_costliest_container_of_its_type() -> None:
    nodes = [node("a", 9.5, 5, bottleneck=CPU_IS_SHORT), node("b", 3, 1), node("c", 2, 5)]
    tasks = [task("hog", "a", 5, 1), task("fat", "a", 1, 4), task("small", "a", 2, 0.1)]
    plan = rebalance(assemble(nodes, tasks), SETTINGS)
    assert moves(plan) == {"hog": "c"}
    assert moves(
        rebalance(assemble([replace(nodes[0], bottleneck=MEMORY_IS_SHORT), *nodes[1:]], tasks), SETTINGS)
    ) == {"fat": "b"}


def test_the_container_that_the_alert_names_moves_though_another_seems_to_use_more() -> None:
    short = node("a", 9.5, 5, bottleneck=CPU_IS_SHORT, culprits=("hog", "", "", ""))
    tasks = [task("hog", "a", 2, 1), task("old", "a", 5, 1)]
    plan = rebalance(assemble([short, node("b", 2)], tasks), SETTINGS)
    assert moves(plan) == {"hog": "b"}
    assert plan.actions[0].reasons[0] == (
        "a is short of cpu (95.0% used); the alert names this one, which uses 21.1% of what is used there, "
        "and 15.8% must go for the alert to close"
    )


@pytest.mark.parametrize(
    "held",
    [{"movable": False}, {"settled_seconds": 5.0, "came_from": "b"}],
    ids=["it must stay", "it was moved here a moment ago"],
)
def test_if_the_named_container_may_not_move_the_one_that_uses_the_most_does(held: dict[str, Any]) -> None:
    short = node("a", 9.5, 5, bottleneck=CPU_IS_SHORT, culprits=("hog", "", "", ""))
    tasks = [task("hog", "a", 5, **held), task("other", "a", 2), task("small", "a", 1)]
    assert moves(rebalance(assemble([short, node("b", 2)], tasks), SETTINGS)) == {"other": "b"}


def test_a_new_container_that_the_alert_names_does_not_drive_out_the_older_ones() -> None:
    short = node("a", 9.5, 5, bottleneck=CPU_IS_SHORT, culprits=("hog", "", "", ""))
    tasks = [task("hog", "a", 5, settled_seconds=5.0, age_seconds=5.0), task("old", "a", 2)]
    assert moves(rebalance(assemble([short, node("b", 2)], tasks), SETTINGS)) == {"hog": "b"}
    unnamed = replace(short, culprits=("", "", "", ""))
    assert moves(rebalance(assemble([unnamed, node("b", 2)], tasks), SETTINGS)) == {"old": "b"}


def test_two_alerts_that_name_one_container_move_it_once_and_nothing_else() -> None:
    short = node("a", 9.5, 9.5, bottleneck=(True, True, False, False), culprits=("hog", "hog", "", ""))
    tasks = [task("hog", "a", 5, 5), task("old", "a", 2, 2)]
    plan = rebalance(assemble([short, node("b", 2)], tasks), SETTINGS)
    assert moves(plan) == {"hog": "b"}
    assert plan.left == ()


def test_two_alerts_of_a_node_count_what_leaves_for_the_other() -> None:
    both = {"bottleneck": (True, True, False, False), "excess": (0.5, 0.4, 0.0, 0.0)}
    tasks = [task("hog", "a", 5, 2), task("fat", "a", 1, 3), task("old", "a", 1, 2)]
    plan = rebalance(assemble([node("a", 9.5, 9.5, **both), node("b", 2)], tasks), SETTINGS)
    assert moves(plan) == {"hog": "b", "fat": "b"}
    assert plan.left == ()


@pytest.mark.parametrize(("cores", "expected"), [(0.8, {}), (1.0, {"hog": "b"})])
def test_if_the_agent_does_not_say_what_must_go_at_least_the_hysteresis_must(
    cores: float, expected: dict[str, str]
) -> None:
    """The usage that is known here is of another time, or another agent's."""
    short = node("a", 8, bottleneck=CPU_IS_SHORT)
    tasks = [task("hog", "a", cores), task("data", "a", 7, movable=False)]
    assert moves(rebalance(assemble([short, node("b")], tasks), SETTINGS)) == expected


def test_an_alert_that_is_about_to_close_moves_nothing() -> None:
    short = node("a", 8, bottleneck=CPU_IS_SHORT, excess=(0.0, 0.0, 0.0, 0.0))
    plan = rebalance(assemble([short, node("b")], [task("hog", "a", 5)]), SETTINGS)
    assert (plan.actions, plan.left) == ((), ("the alert about cpu of a is about to close",))


def test_many_middling_containers_form_a_set_and_trifles_do_not() -> None:
    """A plan of twenty moves: each must take a twentieth of what must go."""
    short = node("a", 10, bottleneck=CPU_IS_SHORT, excess=(0.2, 0.0, 0.0, 0.0))
    middling = [task(f"web-{number}", "a", 0.4) for number in range(25)]
    assert len(moves(rebalance(assemble([short, node("b")], middling), SETTINGS))) == 5
    data = task("data", "a", 7, movable=False)
    for cores, planned in ((0.11, 2), (0.09, 0)):
        tasks = [data, task("web", "a", 1.95), *(task(f"small-{number}", "a", cores) for number in range(9))]
        assert len(moves(rebalance(assemble([short, node("b")], tasks), SETTINGS))) == planned


def test_a_container_without_which_the_others_suffice_does_not_move() -> None:
    short = node("a", 10, bottleneck=CPU_IS_SHORT, culprits=("hog", "", "", ""), excess=(0.2, 0.0, 0.0, 0.0))
    tasks = [task("hog", "a", 0.6), task("other", "a", 2.5), task("data", "a", 6.9, movable=False)]
    assert moves(rebalance(assemble([short, node("b")], tasks), SETTINGS)) == {"other": "b"}


def test_a_known_service_goes_by_its_dominant_resource_not_by_the_short_one() -> None:
    nodes = [node("a", 9.5, 5, bottleneck=CPU_IS_SHORT), node("b", 3, 1), node("c", 2, 5)]
    known = [ServiceFacts(name="hog", profiled=True, dominant=1)]
    assert moves(rebalance(assemble(nodes, [task("hog", "a", 4)], known), SETTINGS)) == {"hog": "b"}


def test_a_service_is_spread_over_nodes_that_do_not_run_it_yet() -> None:
    nodes = [node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b", 1), node("c", 4)]
    tasks = [task("1", "a", 3, service="web"), task("2", "b", 0.1, service="web")]
    assert moves(rebalance(assemble(nodes, tasks), SETTINGS)) == {"1": "c"}


def test_a_global_service_goes_where_it_fits_best() -> None:
    nodes = [node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b", 1), node("c", 4)]
    tasks = [task("1", "a", 3, service="web"), *(task(f"on-{on}", on, 0.1, service="web") for on in "bc")]
    assert moves(rebalance(assemble(nodes, tasks), SETTINGS)) == {"1": "b"}


def test_without_room_nothing_moves_and_the_plan_says_why() -> None:
    nodes = [node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b", 6), node("c", accepts=False)]
    plan = rebalance(assemble(nodes, [task("hog", "a", 5)]), SETTINGS)
    assert plan.actions == ()
    assert [each.split(";")[0] for each in plan.left] == [
        "a stays short of cpu: no node without the service has room for hog"
    ]


def test_closed_nodes_are_the_reason_and_not_that_all_run_the_service() -> None:
    nodes = [node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b", accepts=False)]
    plan = rebalance(assemble(nodes, [task("hog", "a", 5)]), SETTINGS)
    assert [each.split(";")[0] for each in plan.left] == [
        "a stays short of cpu: no node that accepts containers has room for hog"
    ]


def test_a_node_that_is_off_is_woken_only_where_none_that_is_on_has_room() -> None:
    short, asleep = node("a", 9.5, bottleneck=CPU_IS_SHORT), node("c", on=False)
    hog = task("hog", "a", 5)
    assert moves(rebalance(assemble([short, node("b", 1), asleep], [hog]), SETTINGS)) == {"hog": "b"}
    wake, move = rebalance(assemble([short, node("b", 6), asleep], [hog]), SETTINGS).actions
    assert isinstance(wake, PowerOn)
    assert wake.node == "c"
    assert isinstance(move, Move)
    assert (move.task, move.target) == ("hog", "c")


def test_two_alerts_do_not_switch_the_same_node_on_twice() -> None:
    nodes = [node(name, 9.5, bottleneck=CPU_IS_SHORT) for name in "ab"]
    tasks = [task(f"web-{name}", name, 3, service="web") for name in "ab"]
    plan = rebalance(assemble([*nodes, node("c", on=False)], tasks), SETTINGS)
    assert [type(action) for action in plan.actions] == [PowerOn, Move]
    assert [each.split(";")[0] for each in plan.left] == [
        "b stays short of cpu: no node without the service has room for web-b"
    ]


def test_the_target_must_not_become_the_next_bottleneck() -> None:
    """Neither a node with an open alert, nor one that would be filled above `relieve_ratio`."""
    short = node("a", 9.5, bottleneck=CPU_IS_SHORT)
    hog = [task("hog", "a", 3)]
    assert moves(rebalance(assemble([short, node("b", 4.9)], hog), SETTINGS)) == {"hog": "b"}
    assert moves(rebalance(assemble([short, node("b", 6.1)], hog), SETTINGS)) == {}
    assert moves(rebalance(assemble([short, node("b", bottleneck=DISK_IS_SHORT)], hog), SETTINGS)) == {}


def test_a_node_that_is_filled_further_than_placements_do_relieves_if_no_other_has_room() -> None:
    """A container that needs more than `fill_ratio` of any node may fill one up to `relieve_ratio`."""
    short = node("a", 9.9, bottleneck=CPU_IS_SHORT)
    hog = [task("hog", "a", 8.3), task("steady", "a", 1.6)]
    empty, fuller = node("b"), node("c", 0.6)
    assert moves(rebalance(assemble([short, empty, fuller], hog), SETTINGS)) == {"hog": "b"}
    large = node("d", 0.6, capacity=amount(20, 10))
    assert moves(rebalance(assemble([short, large, empty], hog), SETTINGS)) == {"hog": "d"}


def test_a_move_that_only_moves_the_bottleneck_is_left() -> None:
    nodes = [node("a", 2, bottleneck=CPU_IS_SHORT), node("b", 1)]
    assert moves(rebalance(assemble(nodes, [task("hog", "a", 2)]), SETTINGS)) == {}


def test_two_alerts_do_not_fill_the_same_gap() -> None:
    nodes = [node("a", 9.6, bottleneck=CPU_IS_SHORT), node("b", 9.5, bottleneck=CPU_IS_SHORT), node("c", 4)]
    plan = rebalance(assemble(nodes, [task("1", "a", 3), task("2", "b", 3)]), SETTINGS)
    assert moves(plan) == {"1": "c"}
    assert [each.split(";")[0] for each in plan.left] == [
        "b stays short of cpu: no node without the service has room for 2"
    ]


def test_the_costliest_that_may_move_is_moved() -> None:
    nodes = [node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b")]
    tasks = [
        task("pinned", "a", 5, movable=False),
        task("new", "a", 4, settled_seconds=10.0),
        task("c", "a", 2),
    ]
    assert moves(rebalance(assemble(nodes, tasks), SETTINGS)) == {"c": "b"}
    plan = rebalance(assemble(nodes, tasks[:2]), SETTINGS)
    assert [each.split(";")[0] for each in plan.left] == [
        "a stays short of cpu: none of its 2 containers may move now"
    ]


def test_a_bottleneck_without_containers_is_explained() -> None:
    plan = rebalance(assemble([node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b")], []), SETTINGS)
    assert plan.left == ("a stays short of cpu: no container is left there to move",)


def test_a_container_is_not_sent_back() -> None:
    nodes = [node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b"), node("c", 4)]
    moved = task("hog", "a", 3, came_from="b", settled_seconds=700.0)
    assert moves(rebalance(assemble(nodes, [moved]), SETTINGS)) == {"hog": "c"}


@pytest.mark.parametrize("short", [CPU_IS_SHORT, DISK_IS_SHORT])
def test_resource_of_unknown_capacity_can_still_be_relieved(
    short: tuple[bool, bool, bool, bool],
) -> None:
    known_capacity = Quantities(10.0, 10 * 2**30)
    nodes = [
        node("a", 9.5, capacity=known_capacity, bottleneck=short),
        node("b", 5, 5, capacity=known_capacity),
        node("c", 1, 1, capacity=known_capacity),
    ]
    hog = task("hog", "a", 2, used=amount(2, 0.1, 1, 1))
    assert moves(rebalance(assemble(nodes, [hog]), SETTINGS)) == {"hog": "c"}


def test_nothing_moves_if_what_may_move_could_not_close_the_alert() -> None:
    """The culprit must stay; the others use hardly anything of what is short."""
    tasks = [task("data", "a", 8, movable=False), *(task(f"small-{n}", "a", 0.2) for n in range(5))]
    short = node("a", 9.5, bottleneck=CPU_IS_SHORT, culprits=("data", "", "", ""))
    plan = rebalance(assemble([short, node("b")], tasks), SETTINGS)
    assert plan.actions == ()
    (why,) = plan.left
    assert why == (
        "a stays short of cpu: the containers that can move elsewhere use too little of what is used there: "
        "15.8% must go for the alert to close; what would help: a limit for data, which uses 84.2% of it; "
        "the label wattpack.move=allowed on it, if it may run elsewhere; "
        "services there with the label wattpack.optional=true, which stop in an overload"
    )


def test_several_containers_move_if_only_together_they_close_the_alert() -> None:
    tasks = [task("data", "a", 6, movable=False), *(task(f"web-{n}", "a", 1.0 - n / 10) for n in range(3))]
    short = node("a", 9.5, bottleneck=CPU_IS_SHORT, culprits=("data", "", "", ""))
    assert moves(rebalance(assemble([short, node("b")], tasks), SETTINGS)) == {"web-0": "b", "web-1": "b"}


def test_no_part_of_a_set_of_moves_is_planned_if_the_rest_has_no_room() -> None:
    tasks = [task("data", "a", 6, movable=False), *(task(f"web-{n}", "a", 1.0 - n / 10) for n in range(3))]
    short = node("a", 9.5, bottleneck=CPU_IS_SHORT, culprits=("data", "", "", ""))
    almost_full = node("b", 7.9)
    plan = rebalance(assemble([short, almost_full, node("c", on=False, accepts=False)], tasks), SETTINGS)
    assert plan.actions == ()
    assert len(plan.left) == 1


@pytest.mark.parametrize("excess", [0.05, 0.2, 0.4])
def test_the_agent_says_how_much_must_go(excess: float) -> None:
    """The level at which an alert closes is a setting of the agent."""
    tasks = [task(f"web-{n}", "a", 1.0) for n in range(9)]
    short = node("a", 9.5, bottleneck=CPU_IS_SHORT, excess=(excess, 0.0, 0.0, 0.0))
    plan = rebalance(assemble([short, node("b")], tasks), SETTINGS)
    assert len(moves(plan)) == -(-excess * 9.5 // 1.0)


def test_an_alert_about_a_busy_disk_is_judged_by_its_time_and_not_by_its_throughput() -> None:
    """Many small requests: the disk is busy all the time, and transfers little."""
    on_disk: dict[str, Any] = {
        "bottleneck": DISK_IS_SHORT,
        "by_time": DISK_IS_SHORT,
        "culprits": ("", "", "db", ""),
    }
    short = node("a", used=amount(1, 1, 0.6), busy=(nan, nan, 0.96, nan), **on_disk)
    streams = node("b", used=amount(1, 1, 5), busy=(nan, nan, 0.1, nan))
    seeks = node("c", used=amount(1, 1, 0.1), busy=(nan, nan, 0.7, nan))
    tasks = [
        task("db", "a", 1, used=amount(1, 1, 0.3)),
        task("other", "a", 0.1, used=amount(0.1, 0.1, 0.1)),
    ]
    plan = rebalance(assemble([short, streams, seeks], tasks), SETTINGS)
    assert moves(plan) == {"db": "b"}
    first, second, _ = plan.actions[0].reasons
    assert first.startswith("a is short of disk (96.0% busy or waited for); ")
    assert second == "b has the most disk available of any node without the service (90.0%)"
    assert moves(rebalance(assemble([short, seeks], tasks), SETTINGS)) == {}


@pytest.mark.parametrize(("part", "expected"), [(0.97, {}), (0.5, {"hog": "b"})])
def test_a_container_that_would_be_waited_for_anywhere_stays(part: float, expected: dict[str, str]) -> None:
    """Else it moves from node to node, and opens the same alert on each."""
    short = node(
        "a",
        used=amount(2, 2, 7),
        bottleneck=DISK_IS_SHORT,
        by_time=DISK_IS_SHORT,
        excess=(0, 0, 1 / 3, 0),
        busy=(nan, nan, 0.7, nan),
    )
    hog = task("hog", "a", 0.1, used=amount(0.1, 0.1, 7 * part))
    assert moves(rebalance(assemble([short, node("b"), node("c")], [hog]), SETTINGS)) == expected


@pytest.mark.parametrize(("cores", "expected"), [(10, {}), (20, {"hog": "b"})])
def test_a_container_that_waits_for_cpus_moves_where_it_has_enough(
    cores: float, expected: dict[str, str]
) -> None:
    waits: dict[str, Any] = {"bottleneck": CPU_IS_SHORT, "by_time": CPU_IS_SHORT, "excess": (0.2, 0, 0, 0)}
    short = node("a", 7.5, busy=(0.75, nan, nan, nan), **waits)
    target = node("b", 0.1, capacity=amount(cores, 10, 10, 10))
    assert moves(rebalance(assemble([short, target], [task("hog", "a", 7.2)]), SETTINGS)) == expected


@pytest.mark.parametrize(
    ("busy", "expected"),
    [((nan, nan, 0.1, nan), {"hog": "b"}), ((nan, nan, 0.7, nan), {}), ((nan, 0.9, 0.1, nan), {})],
    ids=["calm", "its disk would be busy", "it is busy"],
)
def test_an_alert_does_not_make_another_resource_of_the_target_busy(
    busy: tuple[float, ...], expected: dict[str, str]
) -> None:
    short = node("a", used=amount(9.5, 2, 1), bottleneck=CPU_IS_SHORT, busy=(nan, nan, 0.6, nan))
    hog = task("hog", "a", 3, used=amount(3, 0.1, 0.9))
    assert moves(rebalance(assemble([short, node("b", 1, 1, busy=busy)], [hog]), SETTINGS)) == expected


def test_of_nodes_where_nobody_waits_for_a_cpu_the_one_with_the_most_of_it_free_is_chosen() -> None:
    waits = node("a", 8, busy=(0.7, nan, nan, nan), bottleneck=CPU_IS_SHORT, by_time=CPU_IS_SHORT)
    plan = rebalance(
        assemble([waits, node("b", 5), node("c", 3), node("d", 4)], [task("1", "a", 2)]), SETTINGS
    )
    assert moves(plan) == {"1": "c"}


def test_the_alert_of_which_the_largest_share_must_go_comes_first() -> None:
    """Tasks that wait half of the time can be worse than a node that is used to nine tenths."""
    waits = node(
        "b",
        8,
        busy=(0.6, nan, nan, nan),
        bottleneck=CPU_IS_SHORT,
        by_time=CPU_IS_SHORT,
        excess=(0.3, 0, 0, 0),
    )
    nodes = [node("a", 9.1, bottleneck=CPU_IS_SHORT, excess=(0.12, 0, 0, 0)), waits, node("c", 4)]
    plan = rebalance(assemble(nodes, [task("1", "a", 3), task("2", "b", 3)]), SETTINGS)
    assert moves(plan) == {"2": "c"}


def test_alerts_about_use_are_left_to_a_policy_on_the_timer_that_decides_how_full_nodes_are() -> None:
    full = node("full", 9.5, bottleneck=CPU_IS_SHORT)
    waits = node("waits", 8, busy=(0.7, nan, nan, nan), bottleneck=CPU_IS_SHORT, by_time=CPU_IS_SHORT)
    cluster = assemble([full, waits, node("calm", 3)], [task("1", "full", 3), task("2", "waits", 3)])
    alone = resolve("draps", {}, "rebalance")
    beside = beside_timer(alone, resolve("least-watts", {}, "rebalance"), {})
    assert beside is not None
    plan = beside.rebalance(cluster)
    assert moves(plan) == {"2": "calm"}
    assert plan.left == (
        "the alert about cpu of full is about its use: the policy on the timer decides how full nodes are",
    )
    other_timers = (None, alone)
    assert all(beside_timer(alone, timer, {}) is alone for timer in other_timers)
    told = {"usage_alerts": True}
    assert beside_timer(resolve("draps", told), resolve("least-watts", {}), told) == resolve("draps", told)


def test_a_container_that_fits_nowhere_does_not_use_up_the_budget_of_moves() -> None:
    nodes = [node("a", 9.5, bottleneck=CPU_IS_SHORT), node("b", 5)]
    tasks = [task("hog", "a", 5), task("other", "a", 2)]
    assert moves(rebalance(assemble(nodes, tasks), DrapsSettings(moves=1))) == {"other": "b"}


def test_the_target_is_compared_with_the_source_as_it_was_before_the_set() -> None:
    nodes = [node("a", 10, bottleneck=CPU_IS_SHORT, excess=(0.2, 0, 0, 0)), node("b", 6.5)]
    tasks = [task("1", "a", 1.2), task("2", "a", 1.2), task("data", "a", 7, movable=False)]
    assert moves(rebalance(assemble(nodes, tasks), SETTINGS)) == {"1": "b", "2": "b"}


def test_budget_of_moves_limits_the_plan_and_is_named() -> None:
    nodes = [node("a", 9.6, bottleneck=CPU_IS_SHORT), node("b", 9.5, bottleneck=CPU_IS_SHORT), node("c")]
    plan = rebalance(assemble(nodes, [task("1", "a", 3), task("2", "b", 3)]), DrapsSettings(moves=1))
    assert moves(plan) == {"1": "c"}
    assert plan.left == ("b stays short of cpu: a plan has at most 1 move",)


@pytest.mark.slow
def test_what_leaves_a_node_is_always_enough_to_close_one_of_its_alerts() -> None:
    """In random clusters: together the share that must go, and each container its part of a full plan."""
    moved = 0
    for seed in range(100):
        draw = np.random.default_rng([seed, 3])
        cluster = random_cluster(seed, calm=False)
        must_go = {each.name: draw.uniform(0.05, 0.6, 4) for each in cluster.nodes}
        nodes = [replace(each, excess=tuple(must_go[each.name].tolist())) for each in cluster.nodes]
        leaving: dict[str, list[str]] = {}
        for action in rebalance(assemble(nodes, cluster.tasks, cluster.services), SETTINGS).actions:
            if isinstance(action, Move):
                leaving.setdefault(action.node, []).append(action.task)
        for source in (each for each in nodes if each.name in leaving):
            there = {each.id: four(each.used) for each in cluster.tasks if each.node == source.name}
            used = np.fmax(four(source.used), np.nansum(list(there.values()), axis=0)).clip(1e-9)
            parts = np.nan_to_num([there[each] / used for each in leaving[source.name]])
            enough = (parts.sum(axis=0) >= must_go[source.name] - 1e-6) & np.array(source.bottleneck)
            assert enough.any()
            least = must_go[source.name] / SETTINGS.moves - 1e-9
            assert (parts >= least)[:, source.bottleneck].any(axis=1).all()
            moved += 1
    assert moved > 10
