"""A collector on a real VictoriaMetrics, beside one on SQLite that gets the same reports."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from collector.analysis.usage import BUCKET_SECONDS
from collector.config import CollectorConfig, PullConfig, StoreConfig
from collector.main import running
from collector.runtime.parts import Core
from collector.serve.ingest import store_reports
from tests.collector.builders import HEARTBEAT, altered, container, partial_report, settings, state
from tests.collector.features.prometheus.waiting import until
from tests.collector.listed import list_containers
from tests.lab.stores.victoria import VictoriaMetrics, victoria_metrics
from tests.lab.waiting import eventually
from wire.messages import ContainerUsage, Report
from wire.resources import RESOURCES
from wire.sketch import Sketch

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES, CONTAINERS, HEARTBEATS, SAMPLES = 3, 4, 12, 100
HEARTBEAT_SECONDS = 300.0
PATIENCE_SECONDS = 30.0


def sketch(random: Random, scale: float) -> Sketch:
    """A hundred samples with now and then a burst, as containers have them."""
    made = Sketch()
    for _ in range(SAMPLES):
        burst = 20 if random.random() < 0.03 else 1
        made.add(0.0 if random.random() < 0.1 else burst * scale * random.lognormvariate(0, 0.7))
    return made


def spoken(random: Random, until: float) -> list[list[Report]]:
    """Heartbeat by heartbeat, what a few nodes say in an hour."""
    rounds = []
    for beat in range(HEARTBEATS):
        at = until - (HEARTBEATS - 1 - beat) * HEARTBEAT_SECONDS
        rounds.append(
            [
                partial_report(
                    f"node-{node}",
                    sequence=beat + 1,
                    at=at,
                    state=state(),
                    containers=tuple(container(f"web-{node}-{each}") for each in range(CONTAINERS)),
                    heartbeat=msgspec.structs.replace(
                        HEARTBEAT,
                        usage=tuple(
                            ContainerUsage(
                                f"id-of-web-{node}-{each}",
                                *(sketch(random, scale) for scale in (0.05, 5e7, 1e4, 1e5)),
                            )
                            for each in range(CONTAINERS)
                        ),
                    ),
                )
                for node in range(NODES)
            ]
        )
    return rounds


def on_store(path: Path, url: str) -> CollectorConfig:
    plain = settings(path)
    return msgspec.structs.replace(
        plain,
        history=msgspec.structs.replace(plain.history, store="prometheus"),
        store=StoreConfig(url=url),
        pull=altered(PullConfig(interval_seconds=1.0), settle_seconds=0.0, backfill_hours=3.0),
    )


def clock_within_a_bucket() -> Callable[[], float]:
    """The time, or a while before it, so that the reported hour and the test itself lie in one bucket.

    A collector that gets a heartbeat counts all of it where it ends, one that reads the store each sample in
    its own bucket: across the border of two they differ by what one heartbeat tells.
    """
    margin_seconds = 600.0
    reported_seconds = HEARTBEATS * HEARTBEAT_SECONDS
    into_bucket = time.time() % BUCKET_SECONDS
    fits = reported_seconds + margin_seconds < into_bucket < BUCKET_SECONDS - margin_seconds
    behind_seconds = 0.0 if fits else reported_seconds + 3 * margin_seconds
    return lambda: time.time() - behind_seconds


@asynccontextmanager
async def collector(config: CollectorConfig, clock: Callable[[], float]) -> AsyncIterator[Core]:
    async with running(config, clock=clock) as started:
        yield started.core


def statistics(core: Core) -> dict[tuple[str, str], Any]:
    """What each container's samples come to, per resource: percentiles, maximum, mean, envelope."""
    return {
        (node, container): ring.statistics
        for node, entry in core.registry._entries.items()
        for container, ring in entry.usage.rings.items()
    }


def samples(core: Core) -> list[int]:
    return [each.samples for each in list_containers(core.registry, core.clock())]


def unsent(core: Core) -> int:
    waiting = core.history.stats().outbox
    assert waiting is not None
    return waiting.reports


async def test_a_new_collector_restores_from_the_store_what_sqlite_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.features.prometheus.jobs._VISIBLE_SECONDS", 1.0)
    clock = clock_within_a_bucket()
    rounds = spoken(Random(7), clock())  # noqa: S311 - the same in every run
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(collector(settings(tmp_path / "plain.db"), clock))

        def started(address: str = "127.0.0.1:0") -> VictoriaMetrics:
            return stack.enter_context(victoria_metrics(tmp_path / "data", address))

        with victoria_metrics(tmp_path / "data") as first:
            one = await stack.enter_async_context(collector(on_store(tmp_path / "one.db", first.url), clock))
            for reports in rounds[:6]:
                await store_reports(plain, reports)
                await store_reports(one, reports)
            await until(lambda: unsent(one) == 0)
        for reports in rounds[6:9]:
            await store_reports(plain, reports)
            await store_reports(one, reports)
        await until(lambda: bool(one.outages.problems))
        assert "connection refused" in one.outages.problems[0]
        again = await asyncio.to_thread(started, first.host)
        for reports in rounds[9:]:
            await store_reports(plain, reports)
            await store_reports(one, reports)
        await until(lambda: unsent(one) == 0 and not one.outages.problems)

        await asyncio.to_thread(again.flush)
        two = await stack.enter_async_context(collector(on_store(tmp_path / "two.db", again.url), clock))
        await until(lambda: samples(two) == [HEARTBEATS * SAMPLES] * NODES * CONTAINERS)
        expected = statistics(plain)
        for core in (one, two):
            found = statistics(core)
            assert found.keys() == expected.keys()
            for key, values in expected.items():
                assert values.shape[0] == len(RESOURCES)
                np.testing.assert_allclose(found[key], values, rtol=0.01, err_msg=str(key))
        await check_present(one, two)
        await check_quantile_in_the_store(again, plain)


async def check_present(one: Core, two: Core) -> None:
    """Side by side, both know the same nodes; the second one by the store alone."""
    now = one.clock()
    for ours, theirs in zip(
        list_containers(one.registry, now), list_containers(two.registry, now), strict=True
    ):
        assert (ours.node, ours.name, ours.used, ours.power) == (
            theirs.node,
            theirs.name,
            theirs.used,
            theirs.power,
        )


async def check_quantile_in_the_store(store: VictoriaMetrics, plain: Core) -> None:
    """A query to the store itself returns the same percentile."""
    asked = 'quantile_over_time(0.9, wattpack_container_cpu_cores_sampled{id="id-of-web-0-0"}[4h])'
    [(_, p90)] = await asyncio.to_thread(eventually, lambda: store.query(asked), PATIENCE_SECONDS)
    [web] = list_containers(plain.registry, plain.clock(), name="web-0-0")
    assert p90 == pytest.approx(web.envelope.p90.cpu_cores, rel=0.01)


async def test_a_store_takes_few_series_per_container(tmp_path: Path) -> None:
    rounds = spoken(Random(7), time.time())  # noqa: S311 - the same in every run
    with victoria_metrics() as store:
        async with collector(on_store(tmp_path / "db", store.url), time.time) as core:
            for reports in rounds:
                await store_reports(core, reports)
            await until(lambda: unsent(core) == 0)
        await asyncio.to_thread(store.flush)
        [(_, series)] = await asyncio.to_thread(
            eventually,
            lambda: store.query('count(last_over_time({__name__=~"wattpack_container_.*"}[2h]))'),
            PATIENCE_SECONDS,
        )
        assert series / (NODES * CONTAINERS) <= 22
