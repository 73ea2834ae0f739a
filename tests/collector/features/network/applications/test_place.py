"""One more container by `net-aware`, which `net-optimal` places the same way."""

from dataclasses import replace

import pytest

from collector.common.applications import ApplicationTraits
from collector.decide.policies.interface import Request, Stability
from collector.features.network.applications.images import ImageTable
from collector.features.network.policies import place
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.features.network.applications.clusters import in_applications
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

REGIONS = ("us", "us", "na", "eu-north", "us")


def shop(images: tuple[str, ...] = (), bound: float = 0.085) -> Snapshot:
    """Member `db` runs on n0, which is full; n2 is 32 ms away, n3 135 ms."""
    nodes = [NodeFacts(name=f"n{row}", capacity=amount(2.0, 8.0)) for row in range(len(REGIONS))]
    member = TaskFacts(id="1", node="n0", service="db", requested=amount(2.0, 1.0))
    snapshot = in_applications(assemble(nodes, [member]), {"shop": ["db"]}, REGIONS, bound=bound)
    return snapshot.with_part(
        ImageTable.of_nodes([["web"] if name in images else [] for name in snapshot.nodes.names])
    )


def ranked(snapshot: Snapshot, **more: object) -> list[str]:
    request = replace(
        Request(service="web", application=ApplicationTraits("shop"), image="web", reserve=amount(1.0, 1.0)),
        **more,  # type: ignore[arg-type]
    )
    return [snapshot.nodes.names[row] for row in place(snapshot, request, Stability()).rows]


def test_of_nodes_with_the_same_f_the_nearest_to_the_members_comes_first() -> None:
    assert ranked(shop()) == ["n1", "n4", "n2"]
    assert ranked(shop(bound=1.0)) == ["n1", "n4", "n2", "n3"]


def test_a_node_with_the_image_comes_before_nearer_ones() -> None:
    assert ranked(shop(("n2",))) == ["n2", "n1", "n4"]


def test_a_node_that_the_application_uses_comes_first() -> None:
    snapshot = shop()
    assert ranked(snapshot, reserve=amount(0.0, 1.0))[0] == "n0"


def test_reasons_have_f_and_the_distance() -> None:
    snapshot = shop(("n2",))
    request = Request(
        service="web", application=ApplicationTraits("shop"), image="web", reserve=amount(1.0, 1.0)
    )
    ranking = place(snapshot, request, Stability())
    assert ranking.explain(2) == (
        "F = 0.250: the node has the image",
        "application shop: would be node 2 in use",
        "at most 32 ms from its members, the bound is 85 ms",
    )
    assert -ranking.scores[0] == pytest.approx(1 / 4, abs=1e-6)


def test_another_failure_domain_comes_first_for_a_service_to_spread() -> None:
    nodes = [NodeFacts(name=name, capacity=amount(2.0, 8.0), domain=name) for name in "ab"]
    task = TaskFacts(id="1", node="a", service="web", requested=amount(0.5, 1.0))
    snapshot = in_applications(assemble(nodes, [task]), {"shop": ["web"]}, ("us", "us"))
    one, spread = (Request(service="web", reserve=amount(0.5, 1.0), spread=each) for each in (False, True))
    assert place(snapshot, one, Stability()).rows.tolist() == [0, 1]
    assert place(snapshot, spread, Stability()).rows.tolist() == [1, 0]
