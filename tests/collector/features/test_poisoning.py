"""One node reports what it likes about services that others run: answers stay those of the others."""

from typing import Any

import msgspec
import pytest

from collector.analysis.bottlenecks import BottleneckKind
from collector.features.sizing.jobs import SizingJob
from tests.collector.builders import START, partial_report
from tests.collector.features.small_cluster import HEARTBEAT, SmallCluster, heartbeat, small_cluster, usage_of
from wire.messages import ContainerUsage, Event, EventKind
from wire.resources import Quantities
from wire.sketch import Sketch, bin_of

MOST = 1_000_000

pytestmark = pytest.mark.slow


def one_heartbeat(**changes: Any) -> Any:
    """All samples that a message can hold, of 12 cores."""
    usage = ContainerUsage("id-of-mallory-0", cpu=Sketch({bin_of(12.0) + place: MOST for place in range(10)}))
    return heartbeat("mallory", 0, 12.0, usage=[usage], **changes)


async def test_one_heartbeat_of_one_node_takes_over_no_service() -> None:
    async with small_cluster() as cluster:
        await cluster.run_honest()
        before, fitting = await cluster.service(), await cluster.fitting()
        await cluster.client.send(one_heartbeat())
        after = await cluster.service()
        assert after["envelope"] == before["envelope"]
        assert after["dominant"]["resource"] == before["dominant"]["resource"]
        assert set(fitting) <= set(await cluster.fitting())
        found = []
        for _ in range(3):
            cluster.later(60)
            found += [each.finding for each in await cluster.collector.analysis.detect() if each.is_open]
        [outlier] = [each for each in found if each.kind is BottleneckKind.OUTLIER]
        assert outlier.subject == "mallory"
        assert "shop" in outlier.evidence


async def test_one_heartbeat_changes_no_size_even_if_it_was_counted_before() -> None:
    async with small_cluster() as cluster:
        await cluster.run_honest()
        before = (await cluster.answers())["/v1/sizes"]
        await cluster.client.send(one_heartbeat())
        await cluster.collector.core.part(SizingJob).run_once()
        after = (await cluster.answers())["/v1/sizes"]
        assert after == before


async def test_a_memory_kill_that_an_outlier_claims_raises_no_size() -> None:
    async with small_cluster() as cluster:
        await cluster.run_honest()
        before = (await cluster.answers())["/v1/sizes"]
        kill = Event(EventKind.OUT_OF_MEMORY, START, container="id-of-mallory-0")
        claim = one_heartbeat(limit=Quantities(None, 60 << 30))
        await cluster.client.send(claim)
        await cluster.service()
        await cluster.client.send(partial_report("mallory", sequence=2, events=(kill,)))
        assert (await cluster.answers())["/v1/sizes"] == before


@pytest.mark.parametrize("sample_seconds", [0.0, 1e-3, 1.0, 86_400.0])
async def test_samples_count_for_no_longer_than_the_time_that_passed(sample_seconds: float) -> None:
    async with small_cluster() as cluster:
        await cluster.run_honest(nodes=1)
        before = (await cluster.service())["observed_seconds"]
        claim = msgspec.structs.replace(HEARTBEAT, sample_seconds=sample_seconds)
        await cluster.client.send(one_heartbeat(heartbeat=claim))
        assert (await cluster.service())["observed_seconds"] <= before + 3600


async def test_a_node_counts_with_no_more_containers_than_the_others() -> None:
    """What it claims is plausible for one container, but it claims to run hundreds."""
    async with small_cluster() as cluster:
        await cluster.run_honest(nodes=10)
        before, size_before = await cluster.service(), await used_cores(cluster)
        for beat in range(12):
            await cluster.beat(heartbeat("mallory", beat, 1.0, containers=300, image="evil:1"))
        after = await cluster.service()
        assert await used_cores(cluster) == pytest.approx(size_before, rel=0.1)
        assert after["envelope"]["p50"]["cpu_cores"] == pytest.approx(
            before["envelope"]["p50"]["cpu_cores"], rel=0.05
        )
        assert after["image"] == before["image"]


async def used_cores(cluster: SmallCluster) -> float:
    [size] = (await cluster.answers())["/v1/sizes"]["sizes"]
    return float(size["cpu"]["used"])


async def test_capacity_is_bounded_by_a_setting_and_by_that_of_the_others() -> None:
    capacity = Quantities(100_000.0, 2**60, 1e15, 1e15)
    async with small_cluster() as cluster:
        await cluster.run_honest()
        before = await cluster.service()
        await cluster.client.send(heartbeat("mallory", 0, 100_000.0, capacity=capacity))
        [mallory] = [each for each in await cluster.client.nodes() if each["name"] == "mallory"]
        assert mallory["capacity"]["cpu_cores"] == cluster.collector.core.config.limits.max_node_cpu_cores
        assert mallory["refused"]["capacity"]
        after = await cluster.service()
        assert after["envelope"] == before["envelope"]
        whole = cluster.collector.core.analysis.latest.capacity
        assert whole.amounts[0] == 24 * 16.0


async def test_an_honest_node_with_a_few_times_the_load_counts() -> None:
    async with small_cluster() as cluster:
        for beat in range(12):
            await cluster.beat(*(heartbeat(f"node{number}", beat, 0.5 + number / 4) for number in range(5)))
        found = await cluster.service()
        assert found["envelope"]["max"]["cpu_cores"] == pytest.approx(1.6, rel=0.05)
        assert not cluster.collector.core.analysis.latest.outliers


async def test_reports_that_waited_in_a_spool_lose_no_samples() -> None:
    async with small_cluster() as cluster:
        await cluster.run_honest(nodes=1, beats=range(1))
        cluster.later(12 * 300)
        await cluster.client.send(*(heartbeat("node00", beat) for beat in range(1, 13)))
        assert (await cluster.service())["observed_seconds"] == 13 * 300
        [node] = await cluster.client.nodes()
        assert not node["refused"]


def test_usage_is_what_the_samples_say() -> None:
    usage = usage_of("x", 0.5)
    assert usage.cpu is not None
    assert usage.cpu.quantile(0.5) == pytest.approx(0.5, rel=0.03)
