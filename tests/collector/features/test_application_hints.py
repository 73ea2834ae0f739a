"""Questions about containers of an application: one more replica, or all of it at once."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from collector.common.errors import ApiError
from collector.decide.policies.table import POLICIES
from collector.features.network.routes import ApplicationQuestion, place_containers
from collector.features.network.settings import ApplicationRule
from collector.observe.live_tables import LiveTables
from collector.serve.web.scopes import Caller, Scope
from collector.snapshot.tables import Snapshot
from tests.collector.builders import Clock, container, partial_report
from tests.collector.features.network.applications.clusters import delays_of
from tests.collector.serve.api.test_hints import ALWAYS_NEW, NEED, Asker, asking, names, sample
from wire.messages import ContainerState, encode
from wire.resources import Quantities

SHOP = {"com.docker.compose.project": "shop"}
BOUND = {**SHOP, "wattpack.delay-max": "85ms"}
REGIONS = {"eu-1": "eu-west", "eu-2": "eu-west", "na-1": "na", "us-1": "us"}
"""82 ms from Europe to the north-east, 100 ms to the rest."""


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    async with asking(ALWAYS_NEW, Clock()) as client:
        yield client


def measured(patch: pytest.MonkeyPatch) -> None:
    """Let snapshots have the round-trip times between the regions of nodes."""
    take = LiveTables.snapshot

    def snapshot(tables: LiveTables, now: float) -> Snapshot:
        taken = take(tables, now)
        return taken.with_part(delays_of([REGIONS[name] for name in taken.nodes.names]))

    patch.setattr(LiveTables, "snapshot", snapshot)


def web(**labels: str) -> ContainerState:
    return container("shop-web-1", service="shop/web", labels=BOUND | labels)


async def send_cluster(asker: Asker, *containers: ContainerState) -> None:
    """Four nodes in three regions; the containers are on the first."""
    await asker.send(
        sample("eu-1", 1.0, containers=containers), *(sample(name, 1.0) for name in list(REGIONS)[1:])
    )


# --- Those that run -------------------------------------------------------------------------------


async def test_applications_are_listed_with_their_nodes_and_how_far_apart_these_are(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await asker.ask("/v1/applications") == (200, {"applications": [], "next": None})
    await send_cluster(asker, web(), container("blog", service="blog", labels={"wattpack.app": "blog"}))
    _, blind = await asker.ask("/v1/applications")
    assert [(each["name"], each["farthest"], each["within_bound"]) for each in blind["applications"]] == [
        ("blog@blog", None, None),
        ("shop", None, None),
    ]
    measured(monkeypatch)
    rules = {"shop": ApplicationRule()}
    async with asking(msgspec.structs.replace(ALWAYS_NEW, applications=rules), Clock()) as wide:
        await send_cluster(wide, web())
        mail = container("mail", service="shop/mail", labels=SHOP)
        await wide.send(partial_report("us-1", sequence=2, containers=(mail,)))
        _, answer = await wide.ask("/v1/applications")
        assert answer["applications"] == [
            {
                "name": "shop",
                "services": ["shop/mail", "shop/web"],
                "nodes": {"eu-1": 1, "us-1": 1},
                "delay_max_seconds": 0.085,
                "farthest": {"nodes": ["eu-1", "us-1"], "seconds": 0.1},
                "within_bound": False,
            }
        ]
        await wide.send(partial_report("eu-1", sequence=2, containers=(web(**{"wattpack.talks-to": "db"}),)))
        _, linked = await wide.ask("/v1/applications")
        [shop] = linked["applications"]
        assert (shop["farthest"], shop["within_bound"]) == (None, True), "they do not talk"


# --- One container -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name, each in POLICIES.items() if each.place is not None])
async def test_a_replica_of_a_running_application_stays_within_its_bound(
    asker: Asker, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker, web())
    answer = await asker.hint(policy=policy, service="shop/web", demand=NEED, reserve=NEED)
    assert set(names(answer)) == {"eu-1", "eu-2", "na-1"}
    assert answer["refused"] == [
        {
            "node": "us-1",
            "why": "the round-trip time between us-1 and eu-1 is 100 ms; the bound of application shop is"
            " 85 ms",
            "admission": None,
        }
    ]
    assert answer["notes"] == []


async def test_a_new_service_joins_an_application_by_name_or_by_labels(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker, web())
    for question in ({"application": "shop"}, {"labels": SHOP}, {"labels": {"wattpack.app": "shop"}}):
        answer = await asker.hint(policy="draps", service="shop/mail", reserve=NEED, **question)
        assert [each["node"] for each in answer["refused"]] == ["us-1"], question
    alone = await asker.hint(policy="draps", service="mail", reserve=NEED)
    assert alone["refused"] == []


async def test_the_smaller_of_two_bounds_counts_and_only_for_those_who_talk(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker, web())
    asked = {"policy": "draps", "service": "shop/mail", "reserve": NEED, "application": "shop"}
    near = await asker.hint(**asked, delay_max_seconds=0.05)
    assert set(names(near)) == {"eu-1", "eu-2"}
    assert set(names(await asker.hint(**asked, labels={"wattpack.delay-max": "50ms"}))) == {"eu-1", "eu-2"}
    free = await asker.hint(**asked, talks_to=["elsewhere"])
    assert len(names(free)) == 4, "it does not talk to the web server"
    assert set(names(await asker.hint(**asked, talks_to=["web"]))) == {"eu-1", "eu-2", "na-1"}


@pytest.mark.parametrize("policy", ["draps", "net-aware", "least-watts"])
async def test_kube_scheduler_gets_nodes_within_the_bound_of_the_namespace(
    asker: Asker, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    pod = {"io.kubernetes.pod.namespace": "shop", "wattpack.delay-max": "85ms"}
    await send_cluster(asker, container("web", service="shop/web", labels=pod, runtime="containerd"))
    described = {"metadata": {"name": "db-0", "namespace": "shop"}, "spec": {"containers": [{"image": "db"}]}}
    body = encode({"Pod": described, "NodeNames": list(REGIONS)})
    _, found = await asker.post(body, f"/v1/kubernetes/filter?policy={policy}")
    assert found["NodeNames"] == ["eu-1", "eu-2", "na-1"]
    assert found["FailedAndUnresolvableNodes"] == {
        "us-1": "the round-trip time to a node of its application exceeds the bound, or is unknown"
    }
    _, scores = await asker.post(body, f"/v1/kubernetes/prioritize?policy={policy}")
    assert {each["Host"]: each["Score"] for each in scores}["us-1"] == 0


async def test_a_node_that_claims_an_application_changes_no_answer_about_that_of_another(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker, web())
    asked = {"policy": "draps", "service": "shop/web", "reserve": NEED}
    before = await asker.hint(**asked)
    bound = {"wattpack.delay-max": "1ms", "wattpack.talks-to": "trap"}
    claims = [
        msgspec.structs.replace(web(**bound), id="fake"),
        container("trap", service="shop/trap", labels=SHOP | bound),
    ]
    await asker.send(partial_report("us-1", sequence=2, containers=tuple(claims)))
    after = await asker.hint(**asked)
    assert (set(names(after)), after["refused"]) == (set(names(before)), before["refused"])
    _, listed = await asker.ask("/v1/applications")
    assert {each["name"]: each["nodes"] for each in listed["applications"]} == {
        "shop": {"eu-1": 1},
        "shop@us-1": {"us-1": 1},
    }


async def test_a_reserved_replica_counts_before_it_runs(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker)
    asked = {"policy": "draps", "reserve": NEED, "application": "new", "delay_max_seconds": 0.05}
    first = await asker.hint(**asked, service="a", exclude=["eu-1", "eu-2", "na-1"], reserve_seconds=60)
    assert first["reservation"]["node"] == "us-1"
    assert set(names(await asker.hint(**asked, service="b"))) == {"us-1", "na-1"}


async def test_without_measured_times_a_bound_refuses_nothing_and_the_answer_says_so(asker: Asker) -> None:
    await send_cluster(asker, web())
    answer = await asker.hint(policy="draps", service="shop/web", reserve=NEED)
    assert (len(names(answer)), answer["refused"]) == (4, [])
    assert answer["notes"] == ["round-trip times are not measured: set mesh.enabled"]
    assert (await asker.hint(policy="draps", service="mail", reserve=NEED))["notes"] == []


@pytest.mark.parametrize("bad", [0, -1, "fast"])
async def test_a_bound_is_a_positive_number(asker: Asker, bad: object) -> None:
    problem = await asker.refusal(service="web", delay_max_seconds=bad)
    assert "delay_max_seconds" in str(problem)


# --- A whole application --------------------------------------------------------------------------

SERVICES = (
    {"service": "shop_web", "replicas": 3, "reserve": NEED, "image": "web:1"},
    {"service": "shop_db", "reserve": NEED, "image": "db:1"},
)
WHOLE = {"application": "shop", "services": SERVICES, "delay_max_seconds": 0.05}
PATH = "/v1/hints/application"


async def placed(asker: Asker, **question: Any) -> dict[str, Any]:
    status, answer = await asker.post(encode(WHOLE | question), PATH)
    assert status == 200, answer
    return dict(answer)


def nodes_of(answer: dict[str, Any]) -> dict[str, dict[str, int]]:
    return dict(answer["services"])


async def test_an_application_goes_to_few_near_nodes_that_have_its_images(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker)
    await asker.send(partial_report("eu-2", sequence=2, images=("web:1", "docker.io/library/db:1")))
    answer = await placed(asker, policy="net-aware")
    assert nodes_of(answer) == {"shop_web": {"eu-2": 3}, "shop_db": {"eu-2": 1}}
    assert (answer["placed"], answer["why_not"], answer["policy"]) == (True, None, "net-aware")
    objective = answer["objective"]
    assert (objective["value"], objective["absent_images"], objective["nodes_in_use"]) == (0.0, 0, 1)
    assert (objective["containers"], objective["candidates"]) == (4, 4)
    assert (answer["delay_max_seconds"], answer["round_trip_seconds"]) == (0.05, 0.0)
    assert answer["reservations"] == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name, each in POLICIES.items() if each.place is not None])
async def test_every_policy_places_an_application_within_its_bound(
    asker: Asker, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker)
    large = Quantities(3.0, 1_000_000_000)
    services = [{"service": f"s{number}", "reserve": large, "demand": large} for number in range(3)]
    answer = await placed(asker, policy=policy, services=services, delay_max_seconds=0.085)
    used = {node for nodes in answer["services"].values() for node in nodes}
    assert answer["placed"], answer["why_not"]
    assert len(used) > 1
    assert not {"us-1"} <= used or not used & {"eu-1", "eu-2"}, used
    assert answer["round_trip_seconds"] <= 0.085


@pytest.mark.parametrize("policy", ["net-aware", "draps"])
async def test_containers_of_a_service_are_spread_if_asked(
    asker: Asker, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker)
    answer = await placed(asker, policy=policy, spread=True, delay_max_seconds=0.085)
    assert set(nodes_of(answer)["shop_web"].values()) == {1}
    assert len(nodes_of(answer)["shop_web"]) == 3


async def test_what_runs_already_counts_and_only_what_talks_must_be_near(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker, container("db", service="shop_db", labels={"wattpack.app": "shop"}))
    web = {"service": "shop_web", "reserve": NEED, "exclude": ["eu-1", "eu-2"]}
    refused = await placed(asker, policy="net-aware", services=[web])
    assert not refused["placed"]
    free = await placed(asker, policy="net-aware", services=[web | {"talks_to": ["mail"]}])
    assert free["placed"], "it talks to another service only"
    bound = {"wattpack.delay-max": "85ms"}
    near = await placed(asker, policy="net-aware", services=[web | {"labels": bound}], delay_max_seconds=None)
    assert (nodes_of(near), near["delay_max_seconds"]) == ({"shop_web": {"na-1": 1}}, 0.085)


async def test_nothing_is_placed_when_it_does_not_fit_and_the_answer_says_what_is_needed(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker)
    large = {"service": "big", "replicas": 4, "reserve": Quantities(6.0, 1_000_000_000)}
    for policy in ("net-aware", "draps"):
        answer = await placed(asker, policy=policy, services=[large], reserve_seconds=60)
        assert (answer["placed"], answer["services"], answer["objective"]) == (False, {}, None)
        assert "within 50 ms of each other" in answer["why_not"]
        assert answer["needed"]
        assert answer["reservations"] == []
    _, listed = await asker.ask("/v1/hints/reservations")
    assert listed["reservations"] == []


async def test_places_are_reserved_for_all_containers_or_none(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker)
    answer = await placed(asker, policy="net-aware", reserve_seconds=60)
    assert sorted(each["service"] for each in answer["reservations"]) == ["shop_db", *["shop_web"] * 3]
    [node] = {each["node"] for each in answer["reservations"]}
    assert nodes_of(answer) == {"shop_web": {node: 3}, "shop_db": {node: 1}}
    monkeypatch.setattr("collector.decide.reservations.MAX_PLACEMENTS", 6)
    status, problem = await asker.post(encode(WHOLE | {"reserve_seconds": 60}), PATH)
    assert (status, problem["field"]) == (429, "$.reserve_seconds")
    _, listed = await asker.ask("/v1/hints/reservations")
    assert len(listed["reservations"]) == 4


async def test_a_read_token_may_ask_where_but_not_reserve(asker: Asker) -> None:
    await send_cluster(asker)
    question = msgspec.convert(WHOLE | {"policy": "net-aware"}, ApplicationQuestion)
    assert (await place_containers(asker.core, question, Caller(Scope.READ))).placed
    with pytest.raises(ApiError, match="a read token cannot reserve nodes"):
        await place_containers(
            asker.core, msgspec.structs.replace(question, reserve_seconds=60), Caller(Scope.READ)
        )


async def test_without_measured_times_an_application_is_placed_and_the_answer_says_so(asker: Asker) -> None:
    await send_cluster(asker)
    answer = await placed(asker, policy="net-aware")
    assert answer["placed"]
    assert answer["notes"] == ["round-trip times are not measured: set mesh.enabled"]
    assert not any("not measured" in each for each in answer["reasons"])


@pytest.mark.parametrize(
    ("question", "where", "what"),
    [
        ({"services": []}, "$.services", "length >= 1"),
        (
            {"services": [{"service": "a", "replicas": 120}, {"service": "b", "replicas": 120}]},
            "$.services",
            "240 containers, limit 200",
        ),
        ({"services": [{"service": "a"}, {"service": "a"}]}, "$.services", "a is listed twice"),
        ({"services": [{"service": "a", "constraints": ["zone"]}]}, "$.constraints", "invalid constraint"),
        ({"policy": "fastest"}, "$.policy", "fastest"),
        ({"delay_max_seconds": 0}, "$.delay_max_seconds", "> 0"),
        ({"service": "a"}, "$", "unknown field `service`"),
    ],
)
async def test_an_invalid_question_is_an_error_about_its_field(
    asker: Asker, question: dict[str, Any], where: str, what: str
) -> None:
    problem = await asker.refusal(PATH, **(WHOLE | question))
    assert problem["field"] == where
    assert what in problem["detail"]
