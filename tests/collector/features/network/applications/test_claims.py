"""Which application a service belongs to, and whose labels decide that."""

from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import numpy as np
import pytest

from collector.common.applications import ApplicationTraits, application_traits, parse_delay
from collector.config import CollectorConfig, DriverConfig, PlacementConfig
from collector.features.network.applications.table import Applications
from collector.features.network.settings import ApplicationRule
from collector.observe.registry import Registry
from collector.observe.updates import Allocation
from collector.snapshot.tables import Snapshot
from tests.collector.builders import START, container, partial_report, report
from wire.messages import ContainerState

EAGER = PlacementConfig(snapshot_seconds=0.0)
NAN4 = (float("nan"),) * 4


def compose(project: str, service: str, **labels: str) -> ContainerState:
    """A container of a Compose project, as the agent reports it."""
    names = {"com.docker.compose.project": project, "com.docker.compose.service": service}
    marked = {f"wattpack.{key.replace('_', '-')}": value for key, value in labels.items()}
    return container(f"{project}-{service}-1", service=f"{project}/{service}", labels=names | marked)


def make_registry(**sections: Any) -> Registry:
    return Registry(CollectorConfig(placement=EAGER, **sections))


def taken(registry: Registry, now: float = START) -> tuple[Snapshot, Applications]:
    snapshot = registry.tables.snapshot(now)
    applications = snapshot.part(Applications)
    assert applications is not None
    return snapshot, applications


def members(registry: Registry) -> dict[str, list[str]]:
    """The services of each application."""
    snapshot, found = taken(registry)
    return {
        name: [snapshot.services.names[each] for each in found.services_of(row)]
        for row, name in enumerate(found.names)
    }


def bounds(registry: Registry) -> dict[str, float]:
    _, found = taken(registry)
    return dict(zip(found.names, found.delay_max.tolist(), strict=True))


# --- Labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("85ms", 0.085), ("0.085s", 0.085), ("0.085", 0.085), ("500 us", 0.0005), ("2", 2.0), (".5s", 0.5)],
)
def test_a_bound_is_a_time_with_a_unit_or_in_seconds(text: str, seconds: float) -> None:
    assert parse_delay(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "fast", "-1ms", "1h", "ms", "0", "0ms", "nan", "inf", "1e3"])
def test_an_invalid_bound_counts_as_none(text: str) -> None:
    assert application_traits({"wattpack.app": "shop", "wattpack.delay-max": text}).delay_max == inf


def test_a_label_names_the_application_before_stack_project_and_namespace() -> None:
    stack, project = {"com.docker.stack.namespace": "st"}, {"com.docker.compose.project": "pr"}
    pod = {"io.kubernetes.pod.namespace": "ns"}
    assert application_traits({"wattpack.app": "shop", **stack}).name == "shop@st"
    assert application_traits({"wattpack.app": "st", **stack}).name == "st"
    assert application_traits(stack).name == "st"
    assert application_traits(project).name == "pr"
    assert application_traits(pod).name == "ns"
    assert application_traits({}, "default").name == "default"
    assert application_traits({"wattpack.delay-max": "1ms"}) == ApplicationTraits()


# --- Without an orchestrator -----------------------------------------------------------------------


def test_without_labels_there_are_no_applications() -> None:
    registry = make_registry()
    registry.apply(report(containers=[container("web")]), START)
    assert registry.tables.snapshot(START).part(Applications) is None


def test_a_compose_project_is_an_application_with_the_smallest_bound_of_its_services() -> None:
    registry = make_registry()
    shop = [compose("shop", "web", delay_max="85ms"), compose("shop", "db", delay_max="50ms")]
    registry.apply(report(containers=[*shop, compose("shop", "cache"), container("alone")]), START)
    assert members(registry) == {"shop": ["shop/cache", "shop/db", "shop/web"]}
    assert bounds(registry) == {"shop": pytest.approx(0.05)}
    snapshot, found = taken(registry)
    assert found.application_of(snapshot.services.index["shop"]) == -1, "a service without a project"
    assert not found.links


def test_links_connect_the_services_that_labels_name_and_no_others() -> None:
    registry = make_registry()
    shop = [
        compose("shop", "web", talks_to="cache, db,gone"),
        compose("shop", "db"),
        compose("shop", "cache"),
        compose("shop", "mail"),
    ]
    registry.apply(report(containers=shop), START)
    snapshot, found = taken(registry)
    names = snapshot.services.names
    assert {(names[a], names[b]) for a, b in found.links[0]} == {
        ("shop/cache", "shop/web"),
        ("shop/db", "shop/web"),
    }
    assert found.peers_of(snapshot.services.index["shop/mail"]).size == 0


def test_a_label_means_a_service_with_or_without_its_stack_or_namespace() -> None:
    registry = make_registry(applications={"shop": ApplicationRule()})
    services = ["a_b_c", "x/b_c", "b_c", "c", "ab_c_"]
    containers = [
        container(each, service=each, labels={"wattpack.app": "shop", "wattpack.talks-to": "b_c"})
        for each in services
    ]
    registry.apply(report(containers=containers), START)
    snapshot, found = taken(registry)
    row = snapshot.services.index["c"]
    assert {snapshot.services.names[each] for each in found.peers_of(row)} == {"a_b_c", "x/b_c", "b_c"}


def test_in_an_application_with_too_many_links_all_services_talk() -> None:
    registry = make_registry(applications={"a": ApplicationRule()})
    containers = [
        container(f"{each}_x", service=f"{each}_x", labels={"wattpack.app": "a", "wattpack.talks-to": "x"})
        for each in range(250)
    ]
    registry.apply(report(containers=containers), START)
    snapshot, found = taken(registry)
    assert not found.links
    assert found.peers_of(snapshot.services.index["7_x"]).size == 250


def test_labels_that_change_and_containers_that_end_change_the_application() -> None:
    registry = make_registry()
    registry.apply(report(containers=[compose("shop", "web", delay_max="85ms")]), START)
    changed = compose("shop", "web", delay_max="20ms")
    registry.apply(partial_report(sequence=2, containers=(changed, compose("shop", "db"))), START)
    assert bounds(registry) == {"shop": pytest.approx(0.02)}
    registry.apply(partial_report(sequence=3, gone=(changed.id,)), START)
    assert (members(registry), bounds(registry)) == ({"shop": ["shop/db"]}, {"shop": inf})
    registry.apply(partial_report(sequence=4, gone=(compose("shop", "db").id,)), START)
    assert registry.tables.snapshot(START).part(Applications) is None


def test_a_node_does_not_change_the_bound_of_a_service_that_another_node_runs() -> None:
    registry = make_registry()
    registry.apply(report("alpha", containers=[compose("shop", "web", delay_max="85ms")]), START)
    claim = compose("shop", "web", delay_max="1ms")
    registry.apply(report("mallory", containers=[claim, compose("shop", "db", delay_max="1ms")]), START)
    assert bounds(registry) == {"shop": pytest.approx(0.085), "shop@mallory": pytest.approx(0.001)}
    assert members(registry) == {"shop": ["shop/web"], "shop@mallory": ["shop/db"]}
    # Nor while the first node runs none, as between the end of a container and the start of the next.
    registry.apply(partial_report("alpha", sequence=2, gone=(claim.id,)), START)
    registry.apply(partial_report("mallory", sequence=2, containers=(claim,)), START)
    assert bounds(registry)["shop"] == pytest.approx(0.085)
    registry.apply(
        partial_report("alpha", sequence=3, containers=(compose("shop", "web", delay_max="60ms"),)), START
    )
    assert bounds(registry)["shop"] == pytest.approx(0.06)


def test_a_node_does_not_put_a_service_of_another_node_into_an_application() -> None:
    registry = make_registry()
    registry.apply(report("alpha", containers=[container("web", service="web")]), START)
    claim = container("web2", service="web", labels={"wattpack.app": "trap", "wattpack.delay-max": "1ms"})
    registry.apply(report("mallory", containers=[claim]), START)
    assert registry.tables.snapshot(START).part(Applications) is None


def test_the_services_of_a_node_that_is_removed_are_free() -> None:
    registry = make_registry()
    registry.apply(report("alpha", containers=[compose("shop", "web", delay_max="85ms")]), START)
    later = START + 7 * 3600
    beta = report("beta", at=later, containers=[compose("shop", "web", delay_max="20ms")])
    registry.apply(beta, later)
    registry.drop_old(later)
    registry.apply(partial_report("beta", sequence=2, at=later, containers=(*beta.containers,)), later)
    _, found = taken(registry, later)
    assert dict(zip(found.names, found.delay_max, strict=True)) == {"shop": pytest.approx(0.02)}


def test_an_application_that_the_settings_name_spans_nodes_with_their_bound() -> None:
    shop = ApplicationRule(delay_max_seconds=0.04)
    registry = make_registry(applications={"shop": shop, "blog": ApplicationRule()})
    registry.apply(report("alpha", containers=[compose("shop", "web", delay_max="85ms")]), START)
    registry.apply(report("beta", containers=[compose("shop", "db"), compose("blog", "a")]), START)
    registry.apply(report("gamma", containers=[compose("blog", "b", delay_max="9ms")]), START)
    assert members(registry) == {"blog": ["blog/a", "blog/b"], "shop": ["shop/db", "shop/web"]}
    assert bounds(registry) == {"blog": pytest.approx(0.009), "shop": pytest.approx(0.04)}


# --- With an orchestrator --------------------------------------------------------------------------


def listed(node: str, service: str, namespace: str = "", **labels: str) -> Allocation:
    return Allocation(
        node=node,
        container=f"id-of-{service}",
        requested=NAN4,
        allocated=NAN4,
        labels=labels,
        namespace=namespace,
    )


def test_with_an_orchestrator_what_it_lists_counts_and_spans_nodes() -> None:
    registry = make_registry(driver=DriverConfig(name="swarm"))
    for node, service in (("alpha", "shop_web"), ("beta", "shop_db")):
        registry.apply(report(node, containers=[container(service, service=service)]), START)
    stack = {"com.docker.stack.namespace": "shop"}
    bound = {"wattpack.delay-max": "85ms"}
    registry.tables.put_allocations(
        [listed("alpha", "shop_web", **stack, **bound), listed("beta", "shop_db", **stack)]
    )
    assert members(registry) == {"shop": ["shop_db", "shop_web"]}
    assert bounds(registry) == {"shop": pytest.approx(0.085)}
    trap = {**stack, "wattpack.delay-max": "1ms"}
    claims = [container(each, service=each, labels=trap) for each in ("shop_web", "shop_evil")]
    registry.apply(report("mallory", containers=claims), START)
    assert bounds(registry) == {"shop": pytest.approx(0.085), "shop@mallory": pytest.approx(0.001)}
    assert members(registry)["shop"] == ["shop_db", "shop_web"]


@pytest.mark.parametrize(
    ("service", "namespace", "labels"),
    [
        ("evil", "", {"wattpack.app": "shop"}),
        ("evil", "", {"com.docker.stack.namespace": "shop"}),
        ("evil", "", {"com.docker.stack.namespace": "shop", "wattpack.app": "shop"}),
        ("evil_web", "", {"com.docker.stack.namespace": "evil", "wattpack.app": "shop"}),
        ("shopping", "", {"com.docker.compose.project": "shop"}),
        ("evil/web", "evil", {"wattpack.app": "shop"}),
        ("evil/web", "evil", {"com.docker.stack.namespace": "shop"}),
        ("shop", "", {"wattpack.app": "shop"}),
        ("shop_evil_web", "", {"com.docker.stack.namespace": "shop_evil", "wattpack.app": "shop"}),
    ],
)
def test_labels_of_a_tenant_change_no_application_of_another(
    service: str, namespace: str, labels: dict[str, str]
) -> None:
    registry = make_registry(driver=DriverConfig(name="swarm"))
    owner = {"com.docker.stack.namespace": "shop", "wattpack.delay-max": "85ms"}
    tenant = {**labels, "wattpack.delay-max": "1us", "wattpack.talks-to": "shop_web"}
    for node, name in (("alpha", "shop_web"), ("beta", service)):
        registry.apply(report(node, containers=[container(name, service=name)]), START)
    registry.tables.put_allocations(
        [listed("alpha", "shop_web", **owner), listed("beta", service, namespace, **tenant)]
    )
    assert members(registry)["shop"] == ["shop_web"]
    assert bounds(registry)["shop"] == pytest.approx(0.085)


def test_the_settings_say_which_services_of_others_belong_to_an_application() -> None:
    rule = ApplicationRule(services=("shop_*", "pay_web"))
    registry = make_registry(driver=DriverConfig(name="swarm"), applications={"shop": rule})
    services = ("shop_web", "pay_web", "evil_web")
    for service in services:
        registry.apply(report(f"on-{service}", containers=[container(service, service=service)]), START)
    registry.tables.put_allocations(
        [listed(f"on-{service}", service, **{"wattpack.app": "shop"}) for service in services]
    )
    assert members(registry) == {"shop": ["pay_web", "shop_web"], "shop@evil_web": ["evil_web"]}


def member_nodes(registry: Registry, service: str) -> list[str]:
    snapshot, applications = taken(registry)
    tasks = applications.tasks_of(snapshot, np.array([snapshot.services.index[service]]))
    return sorted(snapshot.nodes.names[row] for row in snapshot.tasks.node[tasks])


def test_a_container_that_the_orchestrator_does_not_list_is_no_member_of_an_application_with_a_bound() -> (
    None
):
    registry = make_registry(driver=DriverConfig(name="swarm"))
    for node in ("alpha", "beta", "mallory"):
        registry.apply(report(node, containers=[container(f"web-{node}", service="shop_web")]), START)
    stack = {"com.docker.stack.namespace": "shop"}
    allocations = [
        replace(listed(node, "shop_web", **stack), container=f"id-of-web-{node}")
        for node in ("alpha", "beta")
    ]
    registry.tables.put_allocations(allocations)
    assert member_nodes(registry, "shop_web") == ["alpha", "beta", "mallory"], "no bound, no change"
    bounded = {**stack, "wattpack.delay-max": "85ms"}
    registry.tables.put_allocations([replace(each, labels=bounded) for each in allocations])
    assert member_nodes(registry, "shop_web") == ["alpha", "beta"]


def test_without_an_orchestrator_members_run_on_the_node_that_claims_or_were_moved_by_the_collector() -> None:
    for rules in ({}, {"shop": ApplicationRule()}):
        registry = make_registry(driver=DriverConfig(name="docker"), applications=rules)
        web = compose("shop", "web", delay_max="85ms")
        registry.apply(report("alpha", containers=[web]), START)
        registry.apply(report("mallory", containers=[msgspec.structs.replace(web, id="fake")]), START)
        registry.apply(report("beta", containers=[msgspec.structs.replace(web, id="moved")]), START)
        move = Allocation(node="beta", container="moved", requested=NAN4, allocated=NAN4, came_from="alpha")
        claim = Allocation(node="mallory", container="fake", requested=NAN4, allocated=NAN4)
        registry.tables.put_allocations([move, claim])
        expected = ["alpha", "beta", "mallory"] if rules else ["alpha", "beta"]
        assert member_nodes(registry, "shop/web") == expected


def test_what_an_orchestrator_lists_replaces_what_a_node_claimed_before() -> None:
    registry = make_registry(driver=DriverConfig(name="kubernetes"))
    claim = container("web", service="prod/web", labels={"wattpack.app": "x", "wattpack.delay-max": "1ms"})
    registry.apply(report("alpha", containers=[claim]), START)
    registry.tables.put_allocations([listed("alpha", "web", namespace="prod")])
    assert (members(registry), bounds(registry)) == ({"prod": ["prod/web"]}, {"prod": inf})


def test_the_engines_of_single_hosts_are_no_orchestrator() -> None:
    registry = make_registry(driver=DriverConfig(name="docker"))
    registry.apply(report("alpha", containers=[container("web", service="web")]), START)
    registry.apply(report("mallory", containers=[container("x", service="web")]), START)
    registry.tables.put_allocations([listed("mallory", "x", **{"wattpack.app": "trap"})])
    assert registry.tables.snapshot(START).part(Applications) is None
