"""Where new services start, and what is reserved and done for them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from collector.act.loop import ControlLoop
from collector.act.new_services import NewService
from collector.act.records import Pause
from collector.common.errors import ApiError
from collector.common.orchestrator import NodeView
from collector.decide.policies.actions import Cut
from collector.features.deployments.models import Deployment, DeployRequest
from collector.features.deployments.placement import deploy
from collector.observe.live_tables import LiveTables
from collector.snapshot.tables import Snapshot
from tests.collector.act.builders import FakeDriver, Stage, actor_of, staged, view
from tests.collector.features.energy4cloud.test_make_room import Cutter, Lax
from tests.collector.features.network.applications.clusters import delays_of
from wire.resources import Quantities


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        stage.begin()
        yield stage


async def loop_of(stage: Stage, driver: FakeDriver | None = None) -> ControlLoop:
    return ControlLoop(stage.core, await actor_of(stage, driver or FakeDriver(view_now=view())))


def asked(policy: str = "draps", *, dry: bool = False, **service: Any) -> DeployRequest:
    new = NewService(**{"name": "new", "reserve": Quantities(0.5), **service})
    return DeployRequest(services=(new,), policy=policy, dry=dry)


def reserved(stage: Stage) -> list[str]:
    return sorted(each.sent.node for each in stage.core.reservations.placements(stage.clock.now))


async def test_replicas_are_spread_reserved_and_held(stage: Stage) -> None:
    answer = await deploy(await loop_of(stage), asked(replicas=2))
    assert answer.policy == "draps"
    [service] = answer.services
    assert service.nodes == {"beta": 1, "gamma": 1}, "alpha has a bottleneck"
    assert (service.replicas, service.labels) == (2, {"mark": "held"})
    assert service.constraints == ("node==gamma", "node==beta")
    assert reserved(stage) == ["beta", "gamma"]


@pytest.mark.parametrize("policy", ["net-aware", "draps"])
async def test_more_replicas_than_can_be_reserved_are_refused_at_once(stage: Stage, policy: str) -> None:
    many = tuple(NewService(name=f"s{each}", replicas=1000, application="shop") for each in range(1000))
    with pytest.raises(ApiError, match="the services have 1000000 replicas, limit 10000") as refused:
        await deploy(await loop_of(stage), DeployRequest(services=many, policy=policy, dry=True))
    assert refused.value.problem.field == "$.services"


async def test_a_dry_run_reserves_nothing_and_needs_no_driver(stage: Stage) -> None:
    loop = await loop_of(stage, FakeDriver(name="none", dry=True))
    [service] = (await deploy(loop, asked(dry=True))).services
    assert (service.nodes, service.constraints) == ({"gamma": 1}, ())
    assert reserved(stage) == []
    with pytest.raises(ApiError, match=r"nothing is deployed: driver\.name is none"):
        await deploy(loop, asked())


async def test_while_actions_are_paused_nothing_is_deployed(stage: Stage) -> None:
    loop = await loop_of(stage)
    await loop.actor.situation.journal.set_pause(Pause(since=stage.clock.now))
    with pytest.raises(ApiError, match=r"actions are paused\. Resume them with: wattpack control resume"):
        await deploy(loop, asked())
    assert reserved(stage) == []


async def test_only_the_collector_that_holds_the_lease_deploys(stage: Stage) -> None:
    loop = await loop_of(stage)
    loop.actor.situation.holder = "host-b"
    with pytest.raises(ApiError, match=r"another collector holds the lease: host-b\. Send the request there"):
        await deploy(loop, asked())
    assert reserved(stage) == []


async def test_if_one_service_fits_nowhere_none_is_reserved(stage: Stage) -> None:
    services = (
        NewService(name="small", reserve=Quantities(0.1)),
        NewService(name="huge", reserve=Quantities(99.0)),
    )
    with pytest.raises(
        ApiError, match=r"huge fits on no node: not enough free CPU \(2\); .*bottleneck \(1\)"
    ):
        await deploy(await loop_of(stage), DeployRequest(services=services, policy="draps"))
    assert reserved(stage) == []


async def places(stage: Stage, **service: Any) -> Deployment:
    manager = NodeView(name="beta", is_manager=True)
    state = view()
    nodes = tuple(manager if each.name == "beta" else each for each in state.nodes)
    driver = FakeDriver(view_now=view())
    driver.view_now = type(state)(nodes=nodes, services=state.services, tasks=state.tasks)
    return await deploy(await loop_of(stage, driver), asked(**service))


@pytest.mark.parametrize(
    ("constraints", "node"),
    [
        (("node.hostname==beta",), "beta"),
        (("node.hostname != gamma",), "beta"),
        (("node.role==manager",), "beta"),
        (("node.role!=manager",), "gamma"),
    ],
)
async def test_the_user_s_own_constraints_hold(stage: Stage, constraints: tuple[str, ...], node: str) -> None:
    [service] = (await places(stage, constraints=constraints)).services
    assert service.nodes == {node: 1}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"mode": "global"}, "it runs on every node"),
        ({"replicas": 0}, "it has no replicas"),
        ({"constraints": ("node.platform.os==linux",)}, "only the orchestrator can check its constraint"),
        ({"constraints": ("zone!=a",)}, "only the orchestrator can check its constraint"),
        ({"constraints": ("node.role==boss",)}, "only the orchestrator can check its constraint"),
        ({"constraints": ("node.labels.zone==",)}, "only the orchestrator can check its constraint"),
    ],
)
async def test_services_that_only_the_orchestrator_can_place_are_left_to_it(
    stage: Stage, changes: dict[str, Any], why: str
) -> None:
    [service] = (await places(stage, **changes)).services
    assert service.left_to_orchestrator is not None
    assert why in service.left_to_orchestrator
    assert (service.nodes, service.constraints, service.labels) == ({}, (), {})


SHOP = (
    NewService(name="shop_web", reserve=Quantities(0.5), replicas=2, application="shop"),
    NewService(
        name="shop_db",
        reserve=Quantities(0.5),
        application="shop",
        labels={"wattpack.delay-max": "85ms", "wattpack.talks-to": "web"},
    ),
    NewService(name="shop_logs", mode="global", application="shop"),
)


async def test_a_stack_is_placed_as_a_whole_by_a_policy_that_can(stage: Stage) -> None:
    answer = await deploy(
        await loop_of(stage), DeployRequest(services=SHOP, policy="net-aware", spread=False)
    )
    web, db, logs = answer.services
    [node] = db.nodes
    assert (web.nodes, web.labels) == ({node: 2}, {"mark": "held"})
    assert web.reasons[0].startswith("F = ")
    assert logs.left_to_orchestrator == "it runs on every node"
    assert reserved(stage) == [node] * 3


async def test_replicas_of_a_stack_are_spread_unless_they_may_share_a_node(stage: Stage) -> None:
    web, db, _ = (
        await deploy(await loop_of(stage), DeployRequest(services=SHOP, policy="net-aware"))
    ).services
    assert [*web.nodes.values()] == [1, 1]
    assert db.nodes.keys() <= web.nodes.keys(), "the other service goes to one of these"


async def test_a_stack_that_does_not_fit_as_a_whole_is_not_deployed(stage: Stage) -> None:
    huge = NewService(name="shop_huge", reserve=Quantities(99.0), application="shop")
    with pytest.raises(
        ApiError, match=r"application shop cannot be placed: .*shop_huge.*; needed: .*99 cores"
    ):
        await deploy(await loop_of(stage), DeployRequest(services=(*SHOP, huge), policy="net-aware"))
    assert reserved(stage) == []


async def test_a_stack_is_deployed_within_its_bound_by_every_policy(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = LiveTables.snapshot
    regions = {"alpha": "us", "beta": "us", "gamma": "eu-west"}

    def snapshot(tables: LiveTables, now: float) -> Snapshot:
        taken = take(tables, now)
        return taken.with_part(delays_of([regions[name] for name in taken.nodes.names]))

    monkeypatch.setattr(LiveTables, "snapshot", snapshot)
    first = NewService(name="shop_db", application="shop", constraints=("node.hostname==beta",))
    second = NewService(name="shop_web", application="shop", labels={"wattpack.delay-max": "85ms"})
    for policy in ("draps", "genpack", "net-aware"):
        request = DeployRequest(services=(first, second), policy=policy, dry=True)
        web = (await deploy(await loop_of(stage), request)).services[1]
        assert "gamma" not in web.nodes, policy


async def test_replicas_per_node_are_limited(stage: Stage) -> None:
    request = asked(replicas=3, max_replicas_per_node=1)
    with pytest.raises(ApiError, match=r"new fits on no node: .*the request excludes the node"):
        await deploy(await loop_of(stage), request)


async def test_a_service_is_not_deployed_where_its_containers_would_have_to_be_cut(tmp_path: Path) -> None:
    """Its creator starts all of them with one reservation: in full, they would overbook nodes of class 1."""
    async with staged(tmp_path) as stage:
        strict = Lax(stage, task_class=1)
        strict.send_reports()
        request = asked(
            "energy4cloud", reserve=Quantities(2.0, 1_000_000_000), labels={"wattpack.class": "4"}
        )
        with pytest.raises(ApiError, match="new fits on no node: it fits only after it, or other containers"):
            await deploy(await loop_of(stage, Cutter(strict)), request)
        assert reserved(stage) == []


async def test_room_is_made_before_the_service_starts(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        lax = Lax(stage)
        lax.send_reports()
        driver = Cutter(lax)
        answer = await deploy(
            await loop_of(stage, driver),
            asked("energy4cloud", reserve=Quantities(2.0, 1_000_000_000), labels={"wattpack.class": "1"}),
        )
        [service] = answer.services
        [cut] = driver.orders
        assert isinstance(cut, Cut)
        assert service.nodes == {cut.node: 1}
        assert service.reasons[-1].startswith("room was made by decision ")
        assert reserved(stage) == [cut.node]
