"""Applications placed as a whole, by every policy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.common.applications import ApplicationTraits
from collector.decide.policies.interface import Objective, Policy, Request
from collector.decide.policies.resolve import PolicyChoice
from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.in_turn import place_application
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import Snapshot
from replay.contenders.table import POLICIES
from tests.collector.decide.policies.clusters import amount
from tests.collector.features.network.applications.clusters import (
    REGIONS,
    delays_in,
    delays_of,
    in_applications,
)
from tests.collector.features.network.applications.states import random_state
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

placing = pytest.mark.parametrize(
    "policy", [each for each in POLICIES.values() if each.place], ids=lambda policy: policy.name
)
net = pytest.mark.parametrize("name", ["net-aware", "net-optimal"])
SHOP = ApplicationTraits("shop", 0.085)


def choose(name: str) -> PolicyChoice:
    return PolicyChoice(POLICIES[name], POLICIES[name].settings())


def cluster(regions: str = "aabb", cores: float = 2.0) -> Snapshot:
    """Nodes n0 to n3; regions `a` and `b` are 100 ms from each other."""
    places = ["us" if each == "a" else "eu-west" for each in regions]
    nodes = [NodeFacts(name=f"n{row}", capacity=amount(cores, 8.0)) for row in range(len(regions))]
    return assemble(nodes).with_part(delays_of(places))


def pods(count: int, service: str = "web", **more: object) -> list[Request]:
    one = Request(service=service, reserve=amount(1.0, 1.0), application=SHOP, image=service)
    return [replace(one, **more)] * count  # type: ignore[arg-type]


@net
def test_an_application_goes_to_few_nodes_with_its_images_within_the_bound(name: str) -> None:
    snapshot = cluster().with_part(ImageTable.of_nodes([[], [], ["web"], ["web", "db"]]))
    answer = place_application(snapshot, [*pods(2), *pods(1, "db")], choose(name))
    assert (sorted(answer.nodes[:2]), answer.nodes[2]) in ((["n2", "n2"], "n3"), (["n2", "n3"], "n3"))
    assert answer.objective == Objective(
        value=1 / 3, absent_images=0, containers=3, nodes_in_use=2, candidates=4
    )
    assert answer.round_trip_seconds == pytest.approx(0.001)
    assert answer.reasons == (
        "F = 0.333: 0 of 3 containers on nodes without their image, 2 nodes in use of 4 that could be used",
        "the longest round-trip time between its nodes is 1 ms, the bound is 85 ms",
    )


@net
def test_of_placements_with_the_same_f_the_nearest_nodes_are_taken(name: str) -> None:
    regions = [region for region in REGIONS for _ in range(3)]
    nodes = [NodeFacts(name=f"n{row}", capacity=amount(2.0, 8.0)) for row in range(len(regions))]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(regions))
        snapshot = assemble(nodes).with_part(delays_of([regions[each] for each in order]))
        answer = place_application(snapshot, pods(6), choose(name))
        assert answer.objective is not None
        assert answer.objective.nodes_in_use == 3
        assert answer.round_trip_seconds == pytest.approx(0.001)


@placing
def test_nothing_is_placed_if_not_all_fit_within_the_bound(policy: Policy) -> None:
    answer = place_application(cluster(), pods(5), PolicyChoice(policy, policy.settings()))
    assert answer.nodes == ()
    assert answer.objective is None
    assert answer.why_not == (
        "found no nodes within 85 ms of each other with room for all 5 containers: 1 would not fit"
    )
    assert answer.needed == (
        "1 core and 1074 MB more free on nodes within 85 ms of n0, n1",
        "or a bound of at least 100 ms",
    )


@net
def test_a_container_that_fits_nowhere_is_named_with_the_reasons(name: str) -> None:
    large = pods(1, "db", reserve=amount(3.0, 1.0))
    answer = place_application(cluster(), [*pods(1), *large], choose(name))
    assert answer.why_not == "nodes have room for 0 of 1 container of db: not enough free CPU (4 nodes)"
    assert answer.needed == ("room for 1 more container with 3 cores and 1074 MB",)


@net
def test_running_members_count_for_bound_and_nodes_in_use(name: str) -> None:
    nodes = [NodeFacts(name=f"n{row}", capacity=amount(2.0, 8.0)) for row in range(4)]
    member = TaskFacts(id="1", node="n2", service="db", requested=amount(2.0, 1.0))
    snapshot = in_applications(
        assemble(nodes, [member]), {"shop": ["db"]}, ["us", "us", "eu-west", "eu-west"]
    )
    answer = place_application(snapshot, pods(2), choose(name))
    assert answer.nodes == ("n3", "n3")
    assert answer.objective is not None
    assert answer.objective.nodes_in_use == 2
    too_many = place_application(snapshot, pods(3), choose(name))
    assert too_many.why_not is not None
    assert "the round-trip time to a node of its application exceeds the bound" in too_many.why_not


@net
def test_without_round_trip_times_the_answer_says_so(name: str) -> None:
    answer = place_application(cluster().without_part(Delays), pods(5), choose(name))
    assert len(answer.nodes) == 5
    assert "round-trip times are not measured: set mesh.enabled" in answer.reasons


@net
def test_only_services_that_talk_must_be_near(name: str) -> None:
    requests = [
        *pods(2, "a", application=ApplicationTraits("shop", 0.085, ("b",))),
        *pods(2, "b"),
        *pods(2, "c"),
        *pods(1, "d", application=ApplicationTraits("shop", 0.085, ("c",))),
    ]
    answer = place_application(cluster(), requests, choose(name))
    region = {"n0": "us", "n1": "us", "n2": "eu", "n3": "eu"}
    assert len({region[node] for node in answer.nodes[:4]}) == 1
    assert len({region[node] for node in answer.nodes[4:]}) == 1
    assert (
        place_application(
            cluster(), [replace(each, application=SHOP) for each in requests], choose(name)
        ).nodes
        == ()
    )


@net
def test_containers_that_are_to_be_spread_share_a_node_only_if_they_must(name: str) -> None:
    spread = pods(2, spread=True)
    assert len({*place_application(cluster(), spread, choose(name)).nodes}) == 2
    assert len({*place_application(cluster(), pods(2), choose(name)).nodes}) == 1
    assert len(place_application(cluster(), pods(4, spread=True), choose(name)).nodes) == 4


def test_a_policy_that_places_in_turn_begins_elsewhere_if_it_must() -> None:
    snapshot = cluster("abbb")
    answer = place_application(snapshot, pods(4), choose("first-fit"))
    assert answer.nodes == ("n1", "n1", "n2", "n2")


@placing
@given(seed=st.integers(0, 999))
@settings(max_examples=25)
def test_all_or_nothing_within_room_and_bound(policy: Policy, seed: int) -> None:
    snapshot, requests = random_state(seed, nodes=8, pods=6)
    answer = place_application(snapshot, requests, PolicyChoice(policy, policy.settings()))
    assert len(answer.nodes) in (0, len(requests))
    assert (answer.why_not is None) == bool(answer.nodes)
    assert bool(answer.needed) == (not answer.nodes)
    delays, images = delays_in(snapshot), snapshot.part(ImageTable)
    rows = [snapshot.nodes.index[name] for name in answer.nodes]
    members = snapshot.tasks.node[snapshot.tasks.service >= 0].tolist()
    for one in rows:
        for other in [*rows, *members]:
            assert delays.from_node(one)[other] <= requests[0].application.delay_max + 1e-9
    taken = snapshot.nodes.allocated.copy()
    for row, request in zip(rows, requests, strict=bool(rows)):
        taken[row, :2] += [request.reserve.cpu_cores or 0.0, request.reserve.memory_bytes or 0]
    assert (taken[rows, :2] <= snapshot.nodes.capacity[rows, :2] * (1 + 1e-6)).all()
    if rows:
        absent = (
            sum(not images.on_nodes(each.image or "")[row] for row, each in zip(rows, requests, strict=True))
            if images
            else 0
        )
        in_use = len({*rows, *members})
        assert answer.objective is not None
        others = answer.objective.candidates - 1
        assert answer.objective.value == pytest.approx(absent / len(rows) + (in_use - 1) / others)


@placing
def test_a_container_that_no_node_accepts_needs_a_node_that_does(policy: Policy) -> None:
    closed = assemble([NodeFacts(name="n", capacity=amount(2.0, 2.0), accepts=False)])
    answer = place_application(closed, [Request(service="web")], PolicyChoice(policy, policy.settings()))
    assert answer.why_not is not None
    assert answer.why_not.startswith(
        "nodes have room for 0 of 1 container of web: the node accepts no containers"
    )
    assert answer.needed == ("a node that accepts it",)
    none = place_application(assemble([]), pods(2), PolicyChoice(policy, policy.settings()))
    assert none.needed == ("room for 2 more containers with 1 core and 1074 MB each",)
