from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.config import CollectorConfig, ControlConfig, PlacementConfig
from collector.decide.policies.table import POLICIES
from collector.main import running
from collector.runtime.parts import Core
from tests.collector.builders import (
    CURVE,
    HEARTBEAT,
    START,
    Client,
    Clock,
    container,
    partial_report,
    settings,
    state,
)
from tests.collector.snapshot.builders import ServiceFacts, service_table
from wire.messages import Alert, Pressure, Report, encode
from wire.resources import RESOURCES, Quantities, Resource

HAS = Quantities(8.0, 16_000_000_000, 1e9, 1e9)
NEED = Quantities(1.0, 1_000_000_000)


def sample(node: str, cores: float = 2.0, *, curve: bool = True, **parts: Any) -> Report:
    """A node that uses this many of its eight cores."""
    heartbeat = msgspec.structs.replace(HEARTBEAT, power_curve=CURVE if curve else None)
    listed = {"state": state(used=Quantities(cores, 4_000_000_000, 0.0, 0.0), capacity=HAS), **parts}
    return partial_report(node, heartbeat=heartbeat, **listed)


class Asker(Client):
    """A running collector, seen from outside and from inside."""

    core: Core

    async def hint(self, **question: Any) -> dict[str, Any]:
        status, answer = await self.post(encode(question), "/v1/hints/placement")
        assert status == 200, answer
        return dict(answer)

    async def refusal(self, path: str = "/v1/hints/placement", **question: Any) -> dict[str, Any]:
        status, answer = await self.post(encode(question), path)
        assert status == 400, answer
        return dict(answer)


ALWAYS_NEW = msgspec.structs.replace(settings(), placement=PlacementConfig(snapshot_seconds=0))


@asynccontextmanager
async def asking(config: CollectorConfig, clock: Clock) -> AsyncIterator[Asker]:
    async with running(config, clock=clock) as collector, aiohttp.ClientSession() as http:
        client = Asker(collector.address.url, http, clock)
        client.core = collector.core
        yield client


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    async with asking(ALWAYS_NEW, Clock()) as client:
        yield client


def names(answer: dict[str, Any]) -> list[str]:
    return [each["node"] for each in answer["nodes"]]


async def test_placement_ranks_nodes_with_figures_and_reasons(asker: Asker) -> None:
    await asker.send(sample("busy", 6.0), sample("calm", 1.0), sample("full", 7.9, curve=False))
    answer = await asker.hint(policy="draps", demand=NEED)
    assert names(answer) == ["calm"]
    (best,) = answer["nodes"]
    nodes = {each["name"]: each for each in await asker.nodes()}
    used = nodes["calm"]["used"]
    assert best["predicted_ratio"]["cpu_ratio"] == pytest.approx((used["cpu_cores"] + 1.0) / 8.0)
    _, what_if = await asker.post(encode({"node": "calm", "envelope": NEED}), "/v1/what-if")
    assert best["added_watts"] == pytest.approx(what_if["estimates"][0]["added_watts"])
    assert best["error_watts"] == pytest.approx(0.1 * best["added_watts"])
    assert (best["watts_unknown"], best["state"]) == (None, "up")
    assert best["confidence"] == pytest.approx(1.0)
    assert any("87.5%" in reason for reason in best["reasons"]), best["reasons"]
    assert [(each["node"], each["why"]) for each in answer["refused"]] == [
        ("busy", "not enough free CPU"),
        ("full", "not enough free CPU"),
    ]
    assert best["admission"]["admitted"]
    assert best["admission"]["limit"] == 0.05
    assert answer["refused_for"] == [{"why": "not enough free CPU", "nodes": 2}]
    assert (answer["assumed"]["basis"], answer["fitting"]) == ("request", 1)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name, each in POLICIES.items() if each.place is not None])
async def test_placement_in_an_empty_cluster(asker: Asker, policy: str) -> None:
    answer = await asker.hint(policy=policy, demand=NEED, reserve=NEED, reserve_seconds=10)
    assert (answer["nodes"], answer["refused"], answer["reservation"]) == ([], [], None)


async def test_the_watts_of_a_hint_are_those_of_its_reasons(asker: Asker) -> None:
    """Also for a container that was never observed, whose reservation is more than it is expected to use."""
    await asker.send(sample("one", 2.0))
    answer = await asker.hint(policy="least-watts", reserve=NEED)
    (only,) = answer["nodes"]
    assert only["reasons"][0].startswith(f"adds {only['added_watts']:.1f} W there")
    (other,) = (await asker.hint(policy="draps", reserve=NEED))["nodes"]
    assert other["added_watts"] == only["added_watts"]


async def test_unknown_watts_are_null_with_a_reason(asker: Asker) -> None:
    await asker.send(sample("dark", curve=False), sample("listed"))
    answer = await asker.hint(policy="draps", reserve=NEED)
    dark, listed = answer["nodes"]
    assert (dark["added_watts"], dark["error_watts"]) == (None, None)
    assert "not reported a power curve" in dark["watts_unknown"]
    assert listed["added_watts"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name, each in POLICIES.items() if each.place is not None])
async def test_stale_or_unknown_nodes_never_rank_first(asker: Asker, policy: str) -> None:
    await asker.send(
        sample("a-silent", 0.1),
        partial_report("b-untold", heartbeat=HEARTBEAT, state=state(used=Quantities(), capacity=HAS)),
    )
    asker.clock.now += 20.0
    await asker.send(
        partial_report("b-untold", sequence=2, at=asker.clock.now),
        sample("c-up", 3.0),
    )
    answer = await asker.hint(policy=policy, demand=NEED, reserve=NEED)
    assert names(answer)[0] == "c-up"
    late = {each["node"]: " ".join(each["reasons"]) for each in answer["nodes"][1:]}
    late |= {each["node"]: each["why"] for each in answer["refused"]}
    assert late.keys() == {"a-silent", "b-untold"}
    if "a-silent" in names(answer):
        assert "ranked last: its last report is 20 s old" in late["a-silent"]


async def test_placement_uses_the_learned_envelope(asker: Asker) -> None:
    facts = ServiceFacts(
        name="shop",
        profiled=True,
        dominant=RESOURCES.index(Resource.MEMORY),
        confidence=0.9,
        envelope=Quantities(2.0, 3_000_000_000, 10.0, 20.0),
        mean=Quantities(1.0, 2_000_000_000, 1.0, 2.0),
        image="example/web:1",
    )
    asker.core.registry.tables.put_services(service_table([facts]))
    await asker.send(sample("alpha"))
    answer = await asker.hint(service="shop", policy="draps")
    assert answer["assumed"]["basis"] == "service"
    assert answer["assumed"]["demand"] == msgspec.to_builtins(facts.envelope)
    assert answer["nodes"][0]["predicted_ratio"]["cpu_ratio"] == pytest.approx(3.0 / 8.0)
    assert "of memory available, the service's dominant resource" in answer["nodes"][0]["reasons"][0]
    answer = await asker.hint(service="shop-2", image="example/web:1")
    assert answer["assumed"]["basis"] == "image"
    assert "the same image, service shop" in answer["assumed"]["explanation"]
    answer = await asker.hint(service="shop", demand={"cpu_cores": 0.5})
    assert answer["assumed"]["basis"] == "request"
    assert answer["assumed"]["demand"] == msgspec.to_builtins(facts.envelope) | {"cpu_cores": 0.5}


async def test_placement_names_a_guessed_or_missing_need(asker: Asker) -> None:
    await asker.send(sample("alpha"))
    answer = await asker.hint(service="new", reserve=NEED)
    assert (answer["assumed"]["basis"], answer["assumed"]["demand"]) == ("guess", msgspec.to_builtins(NEED))
    answer = await asker.hint(service="new")
    assert answer["assumed"]["basis"] == "nothing"
    assert answer["nodes"][0]["confidence"] is None


async def test_reserve_defaults_to_that_of_running_instances(asker: Asker) -> None:
    promised = Quantities(1.0, 100_000_000)
    await asker.send(sample("alpha", containers=(container(limit=promised),)))
    answer = await asker.hint(service="shop")
    assert answer["assumed"]["reserve"] == msgspec.to_builtins(promised)


async def test_constraints_and_exclusions_reject_nodes(asker: Asker) -> None:
    await asker.send(sample("a"), sample("b"), sample("c", containers=(container(),)))
    answer = await asker.hint(demand=NEED, constraints=["node!=a"], avoid=["shop"], refused="all")
    assert names(answer) == ["b"]
    assert [each["node"] for each in answer["refused"]] == ["a", "c"]
    answer = await asker.hint(demand=NEED, constraints=["node==a"])
    assert names(answer) == ["a"]
    answer = await asker.hint(demand=NEED, exclude=["a", "b"])
    assert names(answer) == ["c"]
    assert {"why": "the request excludes the node", "nodes": 2} in answer["refused_for"]


async def test_reservation_counts_until_its_container_starts(asker: Asker) -> None:
    await asker.send(sample("a"), sample("b"))
    chosen = []
    for _ in range(4):
        answer = await asker.hint(service="new", demand=NEED, policy="draps", reserve_seconds=60)
        assert answer["reservation"]["node"] == answer["nodes"][0]["node"]
        chosen.append(answer["reservation"]["node"])
    assert chosen == ["a", "b", "a", "b"]
    _, kept = await asker.ask("/v1/hints/reservations")
    assert [each["node"] for each in kept["reservations"]] == chosen
    assert kept["reservations"][0]["expires_at"] == START + 60
    answer = await asker.hint(demand=Quantities(0.1), policy="draps")
    assert "includes 2 pending placements" in answer["nodes"][0]["reasons"]
    asker.clock.now += 10.0
    come = (container("one", service="new"), container("two", service="new"))
    await asker.send(
        sample("a", sequence=2, containers=come), partial_report("b", sequence=2, at=asker.clock.now)
    )
    await asker.hint(demand=NEED)
    _, kept = await asker.ask("/v1/hints/reservations")
    assert [each["node"] for each in kept["reservations"]] == ["b", "b"]


async def test_reservation_can_be_released_once(asker: Asker) -> None:
    await asker.send(sample("a"))
    kept = (await asker.hint(demand=NEED, reserve_seconds=60))["reservation"]
    url = f"{asker.url}/v1/hints/reservations?id={kept['id']}"
    async with asker.http.delete(url) as answer:
        assert (answer.status, await answer.json()) == (200, kept)
    async with asker.http.delete(url) as answer:
        assert answer.status == 404
    assert (await asker.ask("/v1/hints/reservations"))[1] == {"reservations": []}


async def test_node_that_a_container_was_moved_from_is_rejected(asker: Asker) -> None:
    await asker.send(sample("a", 0.5), sample("b", 3.0))
    asker.core.reservations.keep_from_returning("shop", "a", until=START + 300)
    answer = await asker.hint(service="shop", demand=NEED, policy="draps")
    assert names(answer) == ["b"]
    assert answer["refused"] == [
        {"node": "a", "why": "the service was just moved away from the node", "admission": None}
    ]
    assert names(await asker.hint(service="other", demand=NEED, policy="draps")) == ["a", "b"]


@pytest.mark.parametrize(
    ("question", "field", "hint"),
    [
        ({"policy": "best"}, "$.policy", "choose one of least-watts"),
        ({"reserve": {"cpu_cores": -2}}, "$.reserve.cpu_cores", "reserve.cpu_cores must be a number >= 0.0"),
        ({"service": 3}, "$.service", "service must be a text"),
        ({"constraints": ["disk"]}, "$.constraints", "label==value"),
        ({"constraints": ["cores>=4"]}, "$.constraints", "label>number"),
        ({"settings": {"fil_ratio": 1}, "policy": "draps"}, "$.settings", "did you mean 'fill_ratio'?"),
        ({"settings": {"fill_ratio": 2}, "policy": "draps"}, "$.settings.fill_ratio", "<= 1"),
        ({"settings": {"fill_ratio": 0.95}, "policy": "draps"}, "$.settings", "must be below relieve_ratio"),
        ({"class": 5}, "$.class", "<= 4"),
        ({"nodes": 5}, "$", "nodes"),
    ],
)
async def test_invalid_placement_question_names_the_error(
    asker: Asker, question: dict[str, Any], field: str, hint: str
) -> None:
    refusal = await asker.refusal(**question)
    assert refusal["field"] == field
    assert hint in refusal["detail"]


async def test_configured_policy_settings_are_the_default() -> None:
    configured = msgspec.structs.replace(ALWAYS_NEW, policies={"draps": {"fill_ratio": 0.2}})
    async with asking(configured, Clock()) as asker:
        await asker.send(sample("a", 1.0))
        assert names(await asker.hint(policy="draps", demand=NEED)) == []
        more = {"fill_ratio": 0.8}
        assert names(await asker.hint(policy="draps", demand=NEED, settings=more)) == ["a"]


async def test_a_policy_to_compare_with_is_not_for_a_cluster(asker: Asker) -> None:
    refusal = await asker.refusal("/v1/hints/rebalance", policy="spread")
    assert "there is no policy 'spread'" in refusal["detail"]
    assert "one of least-watts, draps" in refusal["detail"]
    assert "`wattpack replay` only" in refusal["detail"]


def alarmed(node: str, containers: Sequence[Any]) -> Report:
    return sample(node, 7.9, alerts=(Alert(Resource.CPU, START, "busy"),), containers=tuple(containers))


async def test_a_plan_moves_a_container_off_the_bottleneck(asker: Asker) -> None:
    hungry = container("hungry", used=Quantities(3.0, 1_000_000), started_at=START - 5000)
    other = container("other", used=Quantities(1.0, 1_000_000), started_at=START - 5000)
    await asker.send(alarmed("hot", (hungry, other)), sample("cool", 1.0))
    status, plan = await asker.post(encode({"policy": "draps"}), "/v1/hints/rebalance")
    assert status == 200
    (move,) = plan["actions"]
    assert (move["kind"], move["name"], move["node"], move["target"]) == ("move", "hungry", "hot", "cool")
    status, plan = await asker.post(encode({"policy": "draps", "moves": 0}), "/v1/hints/rebalance")
    assert (plan["actions"], plan["left"]) == ([], ["hot stays short of cpu: a plan has at most 0 moves"])


async def test_a_plan_against_alerts_is_that_of_the_control_loop() -> None:
    """The policy on the timer fills nodes: moves that it would undo are not offered either."""
    config = msgspec.structs.replace(ALWAYS_NEW, control=ControlConfig(timer_policy="least-watts"))
    hungry = container("hungry", used=Quantities(3.0, 1_000_000), started_at=START - 5000)
    async with asking(config, Clock()) as asker:
        await asker.send(alarmed("hot", (hungry,)), sample("cool", 1.0))
        _, plan = await asker.post(encode({"policy": "draps"}), "/v1/hints/rebalance")
        (left,) = plan["left"]
        assert (plan["actions"], left.endswith("the policy on the timer decides how full nodes are")) == (
            [],
            True,
        )
        _, plan = await asker.post(
            encode({"policy": "draps", "settings": {"usage_alerts": True}}), "/v1/hints/rebalance"
        )
        assert [each["name"] for each in plan["actions"]] == ["hungry"]


async def test_a_plan_says_why_it_leaves_a_container(asker: Asker) -> None:
    hungry = container("hungry", used=Quantities(3.0, 1_000_000), started_at=START - 5000)
    await asker.send(alarmed("hot", (hungry,)), sample("cool", 1.0))
    _, plan = await asker.post(encode({"policy": "draps", "why": "hungry"}), "/v1/hints/rebalance")
    assert plan["why"]["planned"] == plan["actions"]
    _, plan = await asker.post(
        encode({"policy": "draps", "moves": 0, "why": "hungry"}), "/v1/hints/rebalance"
    )
    (obstacle,) = plan["why"]["obstacles"]
    assert (obstacle["kind"], obstacle["change"]) == (
        "budget",
        "a later plan, or more moves and moves_per_day",
    )
    refusal = await asker.refusal("/v1/hints/rebalance", why="cold")
    assert (refusal["field"], refusal["detail"]) == (
        "$.why",
        "there is no node or container 'cold': did you mean 'cool'?",
    )


async def test_a_plan_without_a_target_has_a_reason(asker: Asker) -> None:
    await asker.send(alarmed("hot", ()))
    _, plan = await asker.post(encode({"policy": "draps"}), "/v1/hints/rebalance")
    assert plan["actions"] == []
    assert "no container is left there to move" in plan["left"][0]


@pytest.mark.parametrize(
    ("strain", "why"),
    [
        ({"disk_busy_ratio": 0.95}, "a resource of the node is busy, or waited for, most of the time"),
        ({"pressure": Pressure(disk_ratio=0.9), "disk_busy_ratio": 0.6}, "busy, or waited for"),
        ({"iowait_ratio": 0.9}, "busy, or waited for"),
        ({"pressure": Pressure(memory_ratio=0.9)}, "busy, or waited for"),
        ({"pressure": Pressure(disk_ratio=0.9), "disk_busy_ratio": 0.1}, None),
        ({"pressure": Pressure(cpu_ratio=0.9)}, None),
        ({"disk_busy_ratio": 0.7}, None),
    ],
)
async def test_default_hint_leaves_out_nodes_whose_disk_or_memory_is_waited_for(
    asker: Asker, strain: dict[str, Any], why: str | None
) -> None:
    used = Quantities(0.5, 4_000_000_000, 0.0, 0.0)
    await asker.send(sample("strained", state=state(used=used, capacity=HAS, **strain)), sample("calm", 2.0))
    answer = await asker.hint(reserve=NEED)
    if why is None:
        assert set(names(answer)) == {"calm", "strained"}
    else:
        assert names(answer) == ["calm"]
        assert why in answer["refused"][0]["why"]


async def test_default_hint_leaves_out_nodes_with_an_open_alert(asker: Asker) -> None:
    for resource in RESOURCES:
        await asker.send(sample(f"short-of-{resource}", 0.5, alerts=(Alert(resource, START, "short"),)))
    await asker.send(sample("calm", 4.0))
    answer = await asker.hint(reserve=NEED)
    assert names(answer) == ["calm"]
    assert answer["refused_for"] == [{"why": "the node has a bottleneck", "nodes": 4}]


async def test_policies_are_listed_with_their_settings(asker: Asker) -> None:
    _, answer = await asker.ask("/v1/policies")
    listed = {each["name"]: each for each in answer["policies"]}
    assert listed.keys() == POLICIES.keys()
    assert answer["default"] in listed
    assert listed["draps"]["settings"]["moves"]["default"] == 20
    assert (listed["draps"]["places"], listed["draps"]["plans"]) == (True, True)
    assert all(each["for_whom"] for each in listed.values())
