"""Questions about containers of an application: one more replica, or all of it at once."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from collector.live.live_tables import LiveTables
from collector.policies.table import POLICIES
from collector.snapshot.tables import Snapshot
from tests.collector.api.test_hints import ALWAYS_NEW, NEED, Asker, asking, names, sample
from tests.collector.builders import Clock, container
from tests.collector.policies.applications import delays_of
from wire.messages import ContainerState

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
        return replace(taken, delays=delays_of([REGIONS[name] for name in taken.nodes.names]))

    patch.setattr(LiveTables, "snapshot", snapshot)


def web(**labels: str) -> ContainerState:
    return container("shop-web-1", service="shop/web", labels=BOUND | labels)


async def send_cluster(asker: Asker, *containers: ContainerState) -> None:
    """Four nodes in three regions; the containers are on the first."""
    await asker.send(
        sample("eu-1", 1.0, containers=containers), *(sample(name, 1.0) for name in list(REGIONS)[1:])
    )


# --- One container -------------------------------------------------------------------------------


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
        }
    ]
    assert answer["notes"] == []


async def test_a_new_service_joins_an_application_by_name_or_by_labels(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker, web())
    for question in ({"application": "shop"}, {"labels": SHOP}, {"labels": {"wattpack.app": "shop"}}):
        answer = await asker.hint(policy="spread", service="shop/mail", reserve=NEED, **question)
        assert [each["node"] for each in answer["refused"]] == ["us-1"], question
    alone = await asker.hint(policy="spread", service="mail", reserve=NEED)
    assert alone["refused"] == []


async def test_the_smaller_of_two_bounds_counts_and_only_for_those_who_talk(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker, web())
    asked = {"policy": "spread", "service": "shop/mail", "reserve": NEED, "application": "shop"}
    near = await asker.hint(**asked, delay_max_seconds=0.05)
    assert set(names(near)) == {"eu-1", "eu-2"}
    assert set(names(await asker.hint(**asked, labels={"wattpack.delay-max": "50ms"}))) == {"eu-1", "eu-2"}
    free = await asker.hint(**asked, talks_to=["elsewhere"])
    assert len(names(free)) == 4, "it does not talk to the web server"
    assert set(names(await asker.hint(**asked, talks_to=["web"]))) == {"eu-1", "eu-2", "na-1"}


async def test_a_reserved_replica_counts_before_it_runs(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch)
    await send_cluster(asker)
    asked = {"policy": "spread", "reserve": NEED, "application": "new", "delay_max_seconds": 0.05}
    first = await asker.hint(**asked, service="a", exclude=["eu-1", "eu-2", "na-1"], reserve_seconds=60)
    assert first["reservation"]["node"] == "us-1"
    assert set(names(await asker.hint(**asked, service="b"))) == {"us-1", "na-1"}


async def test_without_measured_times_a_bound_refuses_nothing_and_the_answer_says_so(asker: Asker) -> None:
    await send_cluster(asker, web())
    answer = await asker.hint(policy="spread", service="shop/web", reserve=NEED)
    assert (len(names(answer)), answer["refused"]) == (4, [])
    assert answer["notes"] == ["round-trip times are not measured: set mesh.enabled"]
    assert (await asker.hint(policy="spread", service="mail", reserve=NEED))["notes"] == []


@pytest.mark.parametrize("bad", [0, -1, "fast"])
async def test_a_bound_is_a_positive_number(asker: Asker, bad: object) -> None:
    problem = await asker.refusal(service="web", delay_max_seconds=bad)
    assert "delay_max_seconds" in str(problem)
