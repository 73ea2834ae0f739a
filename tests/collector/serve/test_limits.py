"""One node that claims too much: its surplus is refused and shown, and every other node is untouched."""

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.analysis.envelopes import Statistic
from collector.config import CollectorConfig, LimitsConfig
from collector.history.interface import GroupBy
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.writer import SqliteWriter
from collector.main import running
from collector.observe.limits.node_account import Limit
from collector.serve.ingest import store_reports
from tests.collector.builders import (
    CURVE,
    HEARTBEAT,
    START,
    Client,
    Clock,
    altered,
    apply_report,
    collecting,
    container,
    partial_report,
    report,
    settings,
    state,
)
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Event,
    EventKind,
    Gap,
    NodePower,
    PowerSource,
    Report,
)
from wire.resources import Quantities, Resource
from wire.sketch import Sketch, bin_of

LIMITS = altered(
    LimitsConfig(max_containers=20, max_node_watts=1000.0),
    bytes_per_container=(1 << 17) // 20,
    max_new_containers_per_hour=40,
    max_labels=5,
)


def limited(path: Path | str = ":memory:", **constants: Any) -> CollectorConfig:
    return msgspec.structs.replace(settings(path), limits=altered(LIMITS, **constants))


def many(count: int, prefix: str = "flood", **changes: Any) -> list[ContainerState]:
    return [container(f"{prefix}{number}", **changes) for number in range(count)]


def honest(node: str = "alpha", sequence: int = 1, at: float = START) -> Report:
    usage = (ContainerUsage("id-of-web", cpu=Sketch({bin_of(0.25): 100})),)
    whole = report(node, sequence=sequence, at=at, containers=[container()])
    return msgspec.structs.replace(whole, heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage))


async def listed(collector: Client, node: str) -> dict[str, Any]:
    [found] = [each for each in await collector.nodes() if each["name"] == node]
    return found


async def test_a_node_over_its_limits_loses_the_surplus_and_the_others_nothing() -> None:
    async with collecting(limited()) as collector:
        await collector.send(honest())
        before = await listed(collector, "alpha")
        await collector.send(report("mallory", containers=many(25)))
        mallory = await listed(collector, "mallory")
        assert (mallory["containers"], mallory["refused"]) == (20, {"containers": 5})
        assert await listed(collector, "alpha") == before
        assert before["refused"] == {}
        status, text = await _text(collector, "/metrics")
        assert status == 200
        assert 'wattpack_collector_refused_total{limit="containers",node="mallory"} 5.0' in text
        assert 'node="alpha"' not in text


async def test_a_node_over_its_limits_has_an_alert() -> None:
    clock = Clock()
    async with running(limited(), clock=clock) as collector:
        registry = collector.core.registry
        registry.limits.apply(report("mallory", containers=many(25)), clock.now)
        [opened] = await collector.analysis.detect()
        assert (opened.finding.kind, opened.finding.subject) == ("limit", "mallory")
        assert "containers (5)" in opened.finding.evidence
        clock.now += 3600
        [closed] = await collector.analysis.detect()
        assert closed.closed_at == clock.now


async def test_new_names_are_limited_per_hour() -> None:
    async with collecting(limited()) as collector:
        for sequence in range(1, 5):
            flood = many(20, f"wave{sequence}-")
            await collector.send(report("mallory", sequence=sequence, containers=flood))
        mallory = await listed(collector, "mallory")
        assert mallory["containers"] == 0
        assert mallory["refused"] == {"new_containers": 40}
        collector.clock.now += 3600
        await collector.send(report("mallory", sequence=9, containers=many(20, "later")))
        assert (await listed(collector, "mallory"))["containers"] == 20


async def test_a_running_container_is_not_new_again() -> None:
    async with collecting(limited()) as collector:
        for sequence in range(1, 20):
            await collector.send(report("alpha", sequence=sequence, containers=many(20)))
        assert (await listed(collector, "alpha"))["refused"] == {}


@pytest.mark.parametrize(
    ("flood", "refused"),
    [
        ({"labels": {f"label{number}": "x" for number in range(9)}}, {"labels": 4}),
        ({"labels": {f"{number}": "x" * 1000 for number in range(5)}, "image": "i" * 1000}, {}),
    ],
)
async def test_labels_are_limited_and_those_of_wattpack_stay(
    flood: dict[str, Any], refused: dict[str, int]
) -> None:
    labels = flood["labels"] | {"wattpack.class": "3"}
    surplus = {limit: count + 1 for limit, count in refused.items()} or {"labels": 1}
    async with collecting(limited()) as collector:
        await collector.send(report("mallory", containers=[container(**(flood | {"labels": labels}))]))
        [found] = await collector.containers()
        assert len(found["labels"]) == 5
        assert found["labels"]["wattpack.class"] == "3"
        assert (await listed(collector, "mallory"))["refused"] == surplus


async def test_the_memory_of_a_node_is_limited() -> None:
    labels = {f"{number}": "x" * 1000 for number in range(5)}
    async with collecting(limited()) as collector:
        await collector.send(report("mallory", containers=many(20, labels=labels)))
        mallory = await listed(collector, "mallory")
        assert mallory["containers"] == LIMITS.max_bytes // 9000
        assert mallory["refused"] == {"bytes": 20 - mallory["containers"]}


async def test_characters_that_take_more_than_a_byte_count_for_what_they_take() -> None:
    labels = {f"{number}": "\N{GRINNING FACE}" * 1000 for number in range(5)}
    async with collecting(limited()) as collector:
        await collector.send(report("mallory", containers=many(20, labels=labels)))
        assert (await listed(collector, "mallory"))["containers"] <= LIMITS.max_bytes // 23_000


async def test_claims_are_bounded_by_the_capacity_of_the_node() -> None:
    usage = (ContainerUsage("id-of-web", cpu=Sketch({4000: 500_000}), memory=Sketch({2200: 500_000})),)
    claim = report("mallory", containers=[container(used=Quantities(1e6, 2**60))])
    claim = msgspec.structs.replace(claim, heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage))
    async with collecting(limited()) as collector:
        await collector.send(claim)
        [found] = await collector.containers()
        assert found["used"]["cpu_cores"] == 4.0
        assert found["used"]["memory_bytes"] == 8_000_000_000
        assert found["envelope"]["p90"]["cpu_cores"] == pytest.approx(4.0, rel=0.02)
        assert found["envelope"]["p90"]["memory_bytes"] == pytest.approx(8e9, rel=0.02)
        assert (await listed(collector, "mallory"))["refused"] == {"capacity": 2, "samples": 1}


async def test_claimed_samples_do_not_outweigh_those_of_the_others() -> None:
    """One node claims a million samples of a service that forty others run."""
    usage = (ContainerUsage("id-of-many", cpu=Sketch({bin_of(4.0): 900_000})),)
    claim = report("mallory", containers=[container("many")])
    claim = msgspec.structs.replace(claim, heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage))
    day = 24 * 3600 // 3
    async with running(limited(), clock=Clock()) as collector:
        registry = collector.core.registry
        for number in range(40):
            mine = (ContainerUsage(f"id-of-web{number}", cpu=Sketch({bin_of(0.25): day})),)
            fair = report(f"node{number}", containers=[container(f"web{number}")])
            fair = msgspec.structs.replace(fair, heartbeat=msgspec.structs.replace(HEARTBEAT, usage=mine))
            apply_report(registry, fair, START)
        apply_report(registry, claim, START)
        found = await collector.analysis.analyse()
        need = found.services["shop"].quantities(Statistic.ENVELOPE).cpu_cores
        assert need == pytest.approx(0.25, rel=0.02)


@pytest.mark.slow
async def test_an_honest_large_node_is_within_the_defaults() -> None:
    labels = {f"com.docker.compose.label{number}": "some value of usual length" for number in range(20)}
    clock = Clock()
    async with running(settings(), clock=clock) as collector:
        for sequence in range(1, 13):
            churn = many(200, f"job{sequence}-", labels=labels) + many(300, labels=labels)
            usage = tuple(
                ContainerUsage(each.id, cpu=Sketch(dict.fromkeys(range(-300, 0, 5), 2))) for each in churn
            )
            large = report("ci", sequence=sequence, at=START + 300 * sequence, containers=churn)
            large = msgspec.structs.replace(large, heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage))
            await store_reports(collector.core, [large])
            clock.now += 300
        registry = collector.core.registry
        assert (registry.container_count(), registry.limits.refused()) == (500, {})


@pytest.mark.slow
async def test_a_history_that_holds_a_flood_does_not_fill_the_memory_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    flood = 3000
    with closing(open_for_writing(str(path))) as connection:
        writer = SqliteWriter(connection, 6 * 3600.0)
        usage = tuple(ContainerUsage(f"id-of-flood{number}", cpu=Sketch({3: 5})) for number in range(flood))
        claims = [report("mallory", containers=many(flood))]
        claims += [partial_report("mallory", sequence=2, gone=tuple(each.id for each in many(10)))]
        claims += [
            partial_report(
                "mallory", boot="first", sequence=3 + number, containers=tuple(many(flood, "more"))
            )
            for number in range(3)
        ]
        heartbeat = msgspec.structs.replace(HEARTBEAT, usage=usage)
        claims[0] = msgspec.structs.replace(claims[0], heartbeat=heartbeat)
        writer.add([([honest(), *claims], START)])
    async with running(limited(path), clock=Clock(START + 10)) as collector:
        core = collector.core
        stored = await core.history.load_state(LIMITS)
        assert sum(len(each.report.containers) for each in stored.reports) <= 1 + LIMITS.max_containers
        kept = await core.history.load_usage(core.registry.names(), LIMITS)
        assert all(len(body) <= flood for _, body in kept.pending)
        assert core.registry.container_count() <= 1 + LIMITS.max_containers
        [alpha] = core.registry.nodes(core.clock(), node="alpha")
        assert list(alpha.run.containers) == ["id-of-web"]
        assert alpha.usage_of("id-of-web").samples == 100


async def test_a_history_with_a_value_that_is_not_valid_does_not_stop_the_start(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(open_for_writing(str(path))) as connection:
        writer = SqliteWriter(connection, 6 * 3600.0)
        absurd = msgspec.structs.replace(HEARTBEAT, sample_seconds=1e17)
        usage = (ContainerUsage("id-of-web", cpu=Sketch({3: 2**40})),)
        claims = [
            msgspec.structs.replace(report("mallory", containers=[container()]), heartbeat=absurd),
            msgspec.structs.replace(
                report("eve", containers=[container(limit=Quantities(1e200)), container("fine")]),
                heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage),
            ),
        ]
        writer.add([([honest(), *claims], START)])
    async with running(limited(path), clock=Clock(START + 10)) as collector:
        assert sorted(collector.core.registry.names()) == ["alpha", "eve", "mallory"]
        found = await collector.analysis.analyse()
        assert found.services["shop"].quantities(Statistic.ENVELOPE).cpu_cores == pytest.approx(
            0.25, rel=0.02
        )


async def _text(collector: Client, path: str) -> tuple[int, str]:
    async with collector.http.get(collector.url + path) as answer:
        return answer.status, await answer.text()


async def test_reports_without_end_and_without_a_heartbeat_are_bounded() -> None:
    clock = Clock()
    async with running(limited(), clock=clock) as collector:
        registry = collector.core.registry
        gone = tuple(f"gone{number}" for number in range(20_000))
        for sequence in range(1, 4):
            names = tuple(f"{sequence}-{name}" for name in gone)
            registry.apply(partial_report("mallory", sequence=sequence, gone=names), clock.now)
        [mallory] = registry.nodes(clock.now, node="mallory")
        assert len(mallory.run._gone) <= 20_000


async def test_the_power_of_a_node_is_bounded_and_the_cluster_keeps_its_totals() -> None:
    power = NodePower(1e9, 1e9, 1e9, PowerSource.RAPL, 1e12, 0.0)
    greedy = [
        container(f"web{number}", power=ContainerPower(9e8, PowerSource.MODEL, 1e9, 0.0, idle_watts=1e8))
        for number in range(5)
    ]
    curve = msgspec.structs.replace(CURVE, cpu_watts=(0.0, 1e8, 1e9))
    claim = report("mallory", containers=greedy, power=power, used=Quantities(1e6, 2**60))
    claim = msgspec.structs.replace(claim, heartbeat=msgspec.structs.replace(HEARTBEAT, power_curve=curve))
    async with collecting(limited()) as collector:
        await collector.send(honest())
        await collector.send(claim)
        _, cluster = await collector.ask("/v1/cluster")
        assert cluster["power"]["watts"] == 50.0 + LIMITS.max_node_watts
        assert cluster["power"]["error_watts"] <= 1.5 + LIMITS.max_node_watts
        assert cluster["power"]["idle_watts"] + cluster["power"]["system_watts"] <= 35.0 + 1000.0
        assert cluster["cpu_cores_used"] == 1.0 + 4.0
        containers = await collector.containers("?node=mallory")
        watts = sum(each["power"]["watts"] + each["power"]["idle_watts"] for each in containers)
        assert watts <= LIMITS.max_node_watts * 1.000001
        mallory = await listed(collector, "mallory")
        assert mallory["refused"] == {"power": 1 + 5 + 1, "capacity": 1}


async def test_containers_that_only_end_are_new_names_too() -> None:
    gone = tuple(f"never-{number}" for number in range(20))
    async with running(limited(), clock=Clock()) as collector:
        core = collector.core
        await store_reports(core, [report("mallory")])
        for sequence in range(2, 8):
            names = tuple(f"{sequence}-{each}" for each in gone)
            ends = tuple(
                Event(EventKind.DIED, START, container=f"e-{each}", joules_total=1.0) for each in names
            )
            await store_reports(core, [partial_report("mallory", sequence=sequence, gone=names, events=ends)])
        refused = core.registry.limits.refused_of("mallory")
        assert refused == {"new_containers": 6 * 40 - LIMITS.max_new_containers_per_hour}
        assert len(await core.history.events(1000)) <= LIMITS.max_new_containers_per_hour


async def test_events_and_alerts_are_limited_per_hour() -> None:
    events = tuple(Event(EventKind.OUT_OF_MEMORY, START, container="id-of-web") for _ in range(100))
    alerts = tuple(Alert(Resource.CPU, START + number, "hostile") for number in range(5000))
    async with running(limited(), clock=Clock()) as collector:
        core = collector.core
        await store_reports(core, [report("mallory", containers=[container()])])
        for sequence in range(2, 6):
            flood = partial_report("mallory", sequence=sequence, events=events, alerts=alerts)
            await store_reports(core, [flood])
        refused = core.registry.limits.refused_of("mallory")
        assert refused == {"events": 400 - 3 * 40, "alerts": 4 * 5000 - 4 * 3600}
        assert len(await core.history.events(1000)) == 3 * 40


async def test_texts_that_change_all_the_time_are_limited_per_hour() -> None:
    """The history keeps each for hours: they would push the data of others out of it."""
    async with running(limited(), clock=Clock()) as collector:
        core = collector.core
        for sequence in range(1, 30):
            gaps = tuple(Gap(f"{sequence}-{number}", "x" * 1000) for number in range(10))
            labels = {"a": f"{sequence}" * 500, "b": "y" * 1000}
            await store_reports(
                core, [report("mallory", sequence=sequence, containers=[container(labels=labels)], gaps=gaps)]
            )
        refused = core.registry.limits.refused_of("mallory")
        assert refused[Limit.BYTES] >= 2 * 29 - 40 * 2048 // 5_000
        stored = await core.history.load_state(LIMITS)
        assert all(not each.report.state.gaps for each in stored.reports if each.report.state)
        await store_reports(core, [honest()])
        assert core.registry.limits.refused_of("alpha") == {}


async def test_only_the_newest_state_is_read_at_the_start() -> None:
    async with running(settings(), clock=Clock()) as collector:
        core = collector.core
        await store_reports(core, [report("mallory")])
        for sequence in range(2, 50):
            newer = state(load_1m=float(sequence))
            await store_reports(core, [partial_report("mallory", sequence=sequence, state=newer)])
        stored = await core.history.load_state()
        states = [each.report.state for each in stored.reports if each.report.state is not None]
        assert [each.load_1m for each in states] == [49.0]


async def test_energy_that_no_node_can_use_is_refused_and_shown() -> None:
    clock = Clock()
    async with running(limited(), clock=clock) as collector:
        core = collector.core
        for sequence in range(1, 4):
            for node, joules in (("alpha", 1000.0), ("mallory", 1e16)):
                power = NodePower(50.0, 30.0, 5.0, PowerSource.RAPL, 0.03, joules * sequence)
                await store_reports(core, [report(node, sequence=sequence, at=clock.now, power=power)])
            clock.now += 60
        bounded = await core.history.apply_retention(clock.now, core.config.limits)
        assert list(bounded) == ["mallory"]
        for node, buckets in bounded.items():
            core.registry.limits.refuse(node, Limit.ENERGY, clock.now, buckets)
        assert list(core.registry.limits.refused()) == ["mallory"]
        accounts = await core.history.energy(START - 3600, START + 3600, GroupBy.NODE)
        joules_of = {each.key: each.joules for each in accounts}
        assert joules_of["alpha"] == pytest.approx(2000.0)
        assert joules_of["mallory"] <= 2 * 300 * LIMITS.max_node_watts


async def test_names_of_images_count_as_texts_only_when_they_change() -> None:
    async with collecting(limited(max_new_containers_per_hour=1)) as client:
        names = tuple(f"image-{number}:1" for number in range(150))
        await client.send(report("noisy"), partial_report("noisy", sequence=2, images=names))
        for sequence in range(3, 8):
            await client.send(partial_report("noisy", sequence=sequence, images=names))
        [node] = await client.nodes()
        assert not node.get("refused")
        other = tuple(f"other-{number}:1" for number in range(150))
        await client.send(partial_report("noisy", sequence=8, images=other))
        [node] = await client.nodes()
        assert node["refused"] == {"bytes": 1}
