import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from collector.analysis.usage import BUCKET_SECONDS, bucket_at
from collector.common.errors import HistoryUnavailable
from collector.common.reported_alerts import AlertState
from collector.config import PullConfig
from collector.features.prometheus.jobs import Puller
from collector.features.prometheus.reader import STORE_GAP
from collector.features.prometheus.schema import ALERT, INFO, SAMPLED_AT, USAGE_METRICS
from collector.features.prometheus.writer import SampleWriter
from collector.history.interface import PULLED
from collector.history.promql import Client
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.runtime.parts import Core
from collector.serve.api.containers import Container
from collector.serve.ingest import store_reports
from tests.collector.analysis.sketches import sketches
from tests.collector.builders import (
    HEARTBEAT,
    START,
    Clock,
    altered,
    container,
    partial_report,
    report,
    settings,
    state,
)
from tests.collector.features.prometheus.tiny import TinyStore
from tests.collector.listed import list_alerts, list_containers, list_nodes
from wire.messages import ContainerUsage
from wire.resources import Resource
from wire.sketch import Sketch

MINUTE, HOUR = 60.0, 3600.0
EVERY_SECONDS = 15.0


class Reading:
    """A collector that reads from a store, and a clock to turn."""

    def __init__(self, core: Core, clock: Clock, store: TinyStore, **pull: Any) -> None:
        self.core, self.clock, self.store = core, clock, store
        self.settings = altered(PullConfig(interval_seconds=EVERY_SECONDS), settle_seconds=0.0, **pull)
        self.puller = Puller(core, cast("Client", store), self.settings)

    async def look(self, at: float) -> None:
        self.clock.now = at
        await self.puller.pull(asyncio.get_running_loop().time() + 60)

    async def restart(self) -> None:
        self.puller = Puller(self.core, cast("Client", self.store), self.settings)
        await self.puller.restore()

    def containers(self) -> list[Container]:
        return list_containers(self.core.registry, self.clock.now)


@pytest.fixture
async def reading() -> AsyncIterator[Reading]:
    config, clock = settings(), Clock()
    async with open_sqlite(config.history) as history:
        yield Reading(Core(config, Registry(config), history, clock), clock, TinyStore(), backfill_hours=2.0)


def scrape(
    store: TinyStore, at: float, *, cores: float = 0.5, node: str = "alpha", short: bool = False
) -> None:
    """What Prometheus gets of an agent with one container."""
    who = {"instance": node, "job": "agents", "id": "id-of-web", "name": "web"}
    store.put(at, at, __name__=SAMPLED_AT, instance=node, job="agents")
    store.put(at, 2.0, __name__="wattpack_node_cpu_cores", instance=node, job="agents")
    store.put(at, float(short), __name__=ALERT, instance=node, job="agents", resource="cpu")
    store.put(at, 1.0, __name__=INFO, runtime="docker", service="shop", **who)
    store.put(at, at, __name__="wattpack_container_cpu_seconds_total", **who)
    store.put(at, cores, __name__=USAGE_METRICS[Resource.CPU], **who)


async def test_a_scraped_node_equals_one_that_reports(reading: Reading) -> None:
    scrape(reading.store, START, cores=0.7)
    await reading.look(START + 5)
    [node] = list_nodes(reading.core.registry, START + 5)
    assert (node.name, node.boot, node.used.cpu_cores, node.sampled_at) == ("alpha", PULLED, 2.0, START)
    assert STORE_GAP in node.gaps
    [web] = reading.containers()
    assert (web.name, web.service, web.used.cpu_cores) == ("web", "shop", 0.7)


async def test_every_sample_counts_once_whatever_the_timing_of_pulls_and_scrapes(reading: Reading) -> None:
    for number in range(240):
        scrape(reading.store, START + number * 15, cores=0.1 if number % 10 else 0.9)
        if number % 3 == 0:
            await reading.look(START + number * 15 + number % 7)
    await reading.look(START + HOUR)
    [web] = reading.containers()
    assert web.samples == 240
    assert web.envelope.p90.cpu_cores == pytest.approx(0.1, rel=0.01)
    [node] = list_nodes(reading.core.registry, START + HOUR)
    assert node.sample_seconds == pytest.approx(15)


async def test_samples_of_an_outage_are_read_later(reading: Reading) -> None:
    for number in range(480):
        scrape(reading.store, START + number * 15)
    await reading.look(START + MINUTE)
    reading.store.away = True
    with pytest.raises(HistoryUnavailable):
        await reading.look(START + HOUR)
    reading.store.away = False
    await reading.look(START + 2 * HOUR)
    [web] = reading.containers()
    assert web.samples == 480
    assert reading.store.widest_seconds <= 1800, "an answer must not be too large"


async def test_a_first_start_reads_the_past_and_a_restart_only_new_samples(
    reading: Reading,
) -> None:
    for number in range(480):
        scrape(reading.store, START + number * 15)
    await reading.look(START + 2 * HOUR - 10)
    assert [each.samples for each in reading.containers()] == [480]
    scrape(reading.store, START + 2 * HOUR)
    await reading.restart()
    await reading.look(START + 2 * HOUR + 20)
    assert [each.samples for each in reading.containers()] == [481]


@pytest.mark.slow
@pytest.mark.parametrize("looks", [(1,), (1, 4, 90), tuple(range(-60, 121))], ids=["late", "some", "often"])
async def test_samples_weigh_by_their_own_time_whenever_they_are_read(
    reading: Reading, looks: tuple[int, ...]
) -> None:
    border = (bucket_at(START) + 1) * BUCKET_SECONDS
    for number in range(-240, 240):
        scrape(reading.store, border + number * 15, cores=0.1 if number < 0 else 0.9)
    for number in looks:
        await reading.look(border + number * 15 + 4)
    await reading.look(border + 240 * 15)
    held = reading.core.registry._entries["alpha"].usage.rings["id-of-web"].buckets
    assert {bucket: sum(sketches(packed)[0].bins.values()) for bucket, packed in held.items()} == {
        bucket_at(border) - 1: 240,
        bucket_at(border): 240,
    }


async def test_reading_the_past_does_not_change_the_present(reading: Reading) -> None:
    scrape(reading.store, START, cores=0.1)
    scrape(reading.store, START + HOUR, cores=0.9)
    await reading.look(START + HOUR)
    [web] = reading.containers()
    assert (web.used.cpu_cores, web.samples) == (0.9, 2)
    assert [node.complete for node in list_nodes(reading.core.registry, START + HOUR)] == [True]
    assert reading.core.counters.sequence_gaps == 0


async def test_a_node_that_is_scraped_no_longer_falls_silent(reading: Reading) -> None:
    scrape(reading.store, START)
    await reading.look(START + 1)
    for later in range(15, 240, 15):
        # The store still shows its last scrape.
        await reading.look(START + later)
    assert reading.core.registry.window_ends(START + 240) == []


async def test_a_node_that_reports_here_is_not_pulled(reading: Reading) -> None:
    await store_reports(reading.core, [report(containers=[container("own")])])
    scrape(reading.store, START)
    await reading.look(START + 1)
    assert [(each.name, each.samples) for each in reading.containers()] == [("own", 0)]


async def test_alerts_open_and_close_with_the_agents_metric(reading: Reading) -> None:
    scrape(reading.store, START, short=True)
    scrape(reading.store, START + 15, short=True)
    scrape(reading.store, START + 30)
    for later in (0, 15):
        await reading.look(START + later)
        [alert] = list_alerts(reading.core.registry, START + later)
        assert (alert.state, alert.resource, alert.opened_at) == (AlertState.OPEN, Resource.CPU, START)
    await reading.look(START + 30)
    [alert] = list_alerts(reading.core.registry, START + 30)
    assert (alert.state, alert.closed_at) == (AlertState.CLOSED, START + 30)


async def test_samples_that_another_collector_wrote_are_all_read(reading: Reading) -> None:
    scribe = SampleWriter()
    sketches = [Sketch({number: 3, number + 9: 1}, zeros=2) for number in range(-90, -70)]
    for number, sketch in enumerate(sketches):
        usage = (ContainerUsage("id-of-web", cpu=sketch),)
        spoken = partial_report(
            sequence=number + 1,
            at=START + number * 300,
            state=state(),
            containers=(container("web"),),
            heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage),
        )
        reading.store.write(scribe, spoken)
        await reading.look(START + number * 300 + 100)
    # What is there may take a while to be seen, so it is counted once it must be.
    assert [each.samples for each in reading.containers()] == [sum(each.count for each in sketches[:-1])]
    reading.store.write(scribe, partial_report(sequence=99, at=START + 20 * 300))
    await reading.look(START + 20 * 300)
    [web] = reading.containers()
    assert web.used == container("web").used
    assert web.samples == sum(sketch.count for sketch in sketches)


async def test_a_node_label_of_ones_own_is_used(reading: Reading) -> None:
    reading = Reading(reading.core, reading.clock, reading.store, node_label="host")
    reading.store.put(START, START, __name__=SAMPLED_AT, instance="10.0.0.1:9640", host='al"pha.x')
    reading.store.put(START, 2.0, __name__="wattpack_node_cpu_cores", host='al"pha.x')
    reading.store.put(START, 3.0, __name__="wattpack_node_cpu_cores", host='al"phaxx')
    await reading.look(START)
    [node] = list_nodes(reading.core.registry, START)
    assert (node.name, node.used.cpu_cores) == ('al"pha.x', 2.0)


async def test_numbers_that_make_no_sense_are_left_out_and_named(reading: Reading) -> None:
    scrape(reading.store, START)
    reading.store.put(START, -1.0, __name__="wattpack_node_load_1m", instance="alpha")
    who = {"instance": "alpha", "id": "id-of-odd"}
    reading.store.put(START, 1.0, __name__=INFO, **who)
    reading.store.put(START, -5.0, __name__="wattpack_container_cpu_seconds_total", **who)
    await reading.look(START)
    [node] = list_nodes(reading.core.registry, START)
    assert {gap.what for gap in node.gaps} == {"node", "container id-of-odd", STORE_GAP.what}
    assert [each.name for each in reading.containers()] == ["web"]


async def test_an_outage_of_the_store_is_logged_once_at_its_start_and_end(
    reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "collector.common.outages")
    looks = 0

    async def pause(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        reading.store.away = 3 <= looks < 6
        if looks == 9:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await reading.puller.run(sleep=pause)
    assert [record.message for record in caplog.records] == [
        "cannot pull nodes from http://tiny: connection refused; retrying",
        "http://tiny answers again: pulling nodes",
    ]
