"""The bound of applications, for every policy: rules written out here, not taken from the code under test."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.common.applications import ApplicationTraits
from collector.common.liveness import Liveness
from collector.decide.policies.actions import Kill, Move, Start
from collector.decide.policies.interface import Policy, Ranking, Rejection, Request
from collector.features.network.applications.distance import describe_distance
from collector.features.network.applications.table import applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import NOWHERE, Snapshot
from replay.contenders.baselines import FIRST_FIT
from replay.contenders.table import POLICIES
from tests.collector.decide.policies.clusters import amount, random_cluster, random_request
from tests.collector.features.network.applications.clusters import (
    delays_in,
    delays_of,
    in_applications,
    random_applications,
)
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

placing = pytest.mark.parametrize(
    "policy", [each for each in POLICIES.values() if each.place], ids=lambda policy: policy.name
)
moving = pytest.mark.parametrize(
    "policy", [each for each in POLICIES.values() if each.rebalance], ids=lambda policy: policy.name
)
REGIONS = ("us", "eu-north", "na", "us")
SOME = (0.1, 1e8, 0.0, 0.0)
NEAR = ApplicationTraits(delay_max=0.01)


def shop(links: list[tuple[str, str]] | None = None) -> Snapshot:
    """Nodes a to d; `web` runs on a in the US, `db` on c in Canada."""
    nodes = [NodeFacts(name=name, capacity=amount(4.0, 8.0)) for name in "abcd"]
    tasks = [
        TaskFacts(id="1", node="a", service="web", requested=amount(1.0, 1.0)),
        TaskFacts(id="2", node="c", service="db", requested=amount(1.0, 1.0)),
    ]
    return in_applications(assemble(nodes, tasks), {"shop": ["web", "db"]}, REGIONS, links=links or [])


def rank(snapshot: Snapshot, **request: object) -> Ranking:
    assert FIRST_FIT.place is not None
    return FIRST_FIT.place(snapshot, Request(reserve=amount(1.0, 1.0), **request), FIRST_FIT.settings())  # type: ignore[arg-type]


def test_a_new_replica_stays_within_the_bound_of_all_members() -> None:
    ranking = rank(shop(), service="web")
    assert ranking.refused.tolist() == [0, Rejection.DISTANCE, 0, 0]
    assert describe_distance(shop(), Request(service="web"), 1) == (
        "the round-trip time between b and a is 135 ms; the bound of application shop is 85 ms"
    )
    assert rank(shop(), service="other").rows.size == 4
    assert rank(shop(), service="other", application=ApplicationTraits("shop")).rows.tolist() == [0, 2, 3]
    assert rank(shop(), service="web", application=ApplicationTraits(delay_max=0.001)).rows.size == 0
    assert rank(shop(), service="other", application=ApplicationTraits("other", 0.001)).rows.size == 4


def test_only_members_that_talk_count_if_links_are_given() -> None:
    assert rank(shop([("web", "web")]), service="db", application=NEAR).rows.size == 4
    assert rank(shop([("web", "db")]), service="web", application=NEAR).rows.tolist() == [2]
    assert rank(shop(), service="web", application=ApplicationTraits("", 0.01, ("db",))).rows.tolist() == [2]


def test_an_unknown_time_does_not_satisfy_a_bound_and_both_nodes_are_named() -> None:
    snapshot = shop().with_part(delays_of(("us", "nowhere", "na", "us")))
    assert rank(snapshot, service="web").rows.tolist() == [0, 2, 3]
    assert describe_distance(snapshot, Request(service="web"), 1) == (
        "the round-trip time between b and a is unknown; the bound of application shop is 85 ms"
    )


def test_members_on_a_node_that_is_down_do_not_keep_others_from_being_placed() -> None:
    snapshot = shop()
    liveness = snapshot.nodes.liveness.copy()
    liveness[0] = Liveness.DOWN
    down = replace(snapshot, nodes=replace(snapshot.nodes, liveness=liveness))
    down = down.with_part(delays_of(("?", "na", "na", "na")))
    assert rank(down, service="web").rows.tolist() == [1, 2, 3]


def test_without_round_trip_times_bounds_refuse_nothing() -> None:
    assert rank(shop().without_part(Delays), service="web").rows.size == 4


def test_a_pending_member_counts() -> None:
    task = PendingTask(
        node="b",
        service="cache",
        allocated=SOME,
        envelope=SOME,
        mean=SOME,
        variance=SOME,
        task_class=1,
        application=ApplicationTraits("shop"),
    )
    alone = replace(shop(), tasks=assemble([], []).tasks)
    assert rank(alone, service="web").rows.size == 4
    assert rank(with_pending(alone, [task], 1), service="web").rows.tolist() == [1]


@placing
@given(seed=st.integers(0, 499))
@settings(max_examples=50)
def test_no_policy_ranks_a_node_beyond_the_bound(policy: Policy, seed: int) -> None:
    assert policy.place is not None
    snapshot = random_applications(random_cluster(seed), seed)
    request = random_request(seed)
    delays, applications = delays_in(snapshot), applications_in(snapshot)
    ranking = policy.place(snapshot, request, policy.settings())
    service = snapshot.services.index.get(request.service or "", NOWHERE)
    application = applications.application_of(service)
    for row in ranking.rows.tolist():
        for peer in applications.peers_of(service).tolist():
            for node in snapshot.tasks.node[snapshot.tasks.service == peer].tolist():
                seconds = delays.from_node(row)[node]
                assert seconds <= applications.delay_max[application] + 1e-9


def apart(snapshot: Snapshot, home: np.ndarray) -> Iterator[tuple[str, str, float]]:
    """Pairs of members that are further from each other than the bound, and how far; infinite if unknown."""
    applications, delays, tasks = applications_in(snapshot), delays_in(snapshot), snapshot.tasks
    for one in range(len(tasks.ids)):
        service = int(tasks.service[one])
        bound = applications.delay_max[applications.application_of(service)]
        for other in range(one + 1, len(tasks.ids)):
            if tasks.service[other] in applications.peers_of(service) and NOWHERE not in home[[one, other]]:
                seconds = delays.from_node(int(home[one]))[home[other]]
                if not seconds <= bound + 1e-9:
                    yield tasks.ids[one], tasks.ids[other], float(np.nan_to_num(seconds, nan=np.inf))


@moving
@given(seed=st.integers(0, 499))
@settings(max_examples=50)
def test_no_plan_moves_members_further_apart(policy: Policy, seed: int) -> None:
    """At no step: each moved container is within the bound, or no further from the others than before."""
    assert policy.rebalance is not None
    snapshot = random_applications(random_cluster(seed, classes=4, calm=False, queue=True), seed)
    home = snapshot.tasks.node.copy()
    for action in policy.rebalance(snapshot, policy.settings()).actions:
        if isinstance(action, Move | Kill | Start):
            task = snapshot.tasks.index[action.task]
            before = max(
                (far for one, other, far in apart(snapshot, home) if action.task in (one, other)), default=0
            )
            home[task] = NOWHERE if action.target is None else snapshot.nodes.index[action.target]
            after = [far for one, other, far in apart(snapshot, home) if action.task in (one, other)]
            assert all(far <= before for far in after), action
