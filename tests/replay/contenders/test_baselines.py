"""Each baseline by its own rule, with its makers' own figures where they publish some."""

from dataclasses import replace

import pytest

from collector.decide.policies.interface import Policy, Rejection, Request
from collector.snapshot.tables import Snapshot
from replay.contenders.baselines import SpreadSettings
from replay.contenders.table import POLICIES
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble


def node(name: str, **facts: int) -> NodeFacts:
    return NodeFacts(name=name, capacity=amount(8, 8), failures=facts.get("failures", 0))


def task(name: str, on: str, service: str = "other", cores: float = 0.0, gibibytes: float = 0.0) -> TaskFacts:
    return TaskFacts(id=name, node=on, service=service, requested=amount(cores, gibibytes))


def order(policy: Policy, snapshot: Snapshot, request: Request) -> list[str]:
    assert policy.place is not None
    ranking = policy.place(snapshot, request, policy.settings())
    return [snapshot.nodes.names[row] for row in ranking.rows]


def test_spread_counts_tasks_of_the_service_before_tasks() -> None:
    tasks = [task("1", "a", "web"), task("2", "b"), task("3", "b"), task("4", "c")]
    snapshot = assemble([node("a"), node("b"), node("c")], tasks)
    assert order(POLICIES["spread"], snapshot, Request(service="web")) == ["c", "b", "a"]
    assert order(POLICIES["spread"], snapshot, Request(service="new")) == ["a", "c", "b"]


def test_spread_counts_failures_first_but_only_from_five_on() -> None:
    tasks = [task("1", "a"), task("2", "b")]
    snapshot = assemble([node("a"), node("b"), node("c", failures=5), node("d", failures=4)], tasks)
    assert order(POLICIES["spread"], snapshot, Request()) == ["d", "a", "b", "c"]


def test_spread_can_count_every_failure() -> None:
    policy = POLICIES["spread"]
    assert policy.place is not None
    snapshot = assemble([node("a", failures=1), node("b")])
    assert policy.place(snapshot, Request(), SpreadSettings(failures=1)).rows.tolist() == [1, 0]


def test_spread_ignores_what_tasks_use() -> None:
    busy = NodeFacts(name="a", capacity=amount(8, 8), used=amount(8, 8))
    assert order(POLICIES["spread"], assemble([busy, node("b")]), Request(demand=amount(4, 4)))[0] == "a"


def test_binpack_fills_the_fullest_that_fits() -> None:
    tasks = [task("1", "b", cores=2, gibibytes=2), task("2", "c", cores=7, gibibytes=1)]
    snapshot = assemble([node("a"), node("b"), node("c")], tasks)
    assert order(POLICIES["binpack"], snapshot, Request(reserve=amount(1, 1))) == ["c", "b", "a"]
    assert order(POLICIES["binpack"], snapshot, Request(reserve=amount(2, 1))) == ["b", "a"]


def test_first_fit_goes_by_name() -> None:
    snapshot = assemble([node("b"), node("a"), node("c")], [task("1", "a", cores=8)])
    assert order(POLICIES["first-fit"], snapshot, Request(reserve=amount(1, 1))) == ["b", "c"]


def test_round_robin_takes_turns_among_those_that_fit() -> None:
    snapshot = assemble([node("a"), node("b"), node("c")], [task("1", "b", cores=8)])
    request = Request(reserve=amount(1, 1))
    firsts = [order(POLICIES["round-robin"], replace(snapshot, turn=turn), request)[0] for turn in range(4)]
    assert firsts == ["a", "c", "a", "c"]


def test_random_draws_the_same_for_the_same_seed_and_turn_only() -> None:
    snapshot = assemble([node(f"{number:02}") for number in range(20)])
    drawn = {
        (seed, turn): order(POLICIES["random"], replace(snapshot, seed=seed, turn=turn), Request())
        for seed in range(2)
        for turn in range(3)
    }
    assert len({tuple(each) for each in drawn.values()}) == len(drawn)
    assert order(POLICIES["random"], replace(snapshot, seed=1, turn=2), Request()) == drawn[1, 2]


def test_random_is_fair() -> None:
    snapshot = assemble([node("a"), node("b")])
    firsts = [order(POLICIES["random"], replace(snapshot, turn=turn), Request())[0] for turn in range(400)]
    assert 160 < firsts.count("a") < 240


@pytest.mark.parametrize(
    "name",
    ["random", "round-robin", "first-fit", "spread", "binpack", "least-allocated", "most-allocated", "nomad"],
)
def test_nodes_where_the_reservation_does_not_fit_are_refused_with_the_short_resource(name: str) -> None:
    snapshot = assemble([node("a"), node("b")], [task("1", "a", gibibytes=7)])
    policy = POLICIES[name]
    assert policy.place is not None
    ranking = policy.place(snapshot, Request(reserve=amount(1, 2)), policy.settings())
    assert ranking.refused.tolist() == [Rejection.MEMORY, Rejection.NOT]
