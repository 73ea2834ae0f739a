import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from collector.analysis.bottlenecks import Bottleneck, BottleneckKind
from collector.analysis.envelopes import Statistic
from collector.analysis.services import RunningServices
from collector.analysis.usage import ObservedContainer
from collector.common.errors import HistoryUnavailable
from collector.common.periodic import repeat
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.observe.usage.cluster import ClusterUsage
from collector.runtime.analysis import AnalysisJob, analysing, restored_analysis
from collector.runtime.parts import Core
from collector.serve.api.cluster import ready
from collector.snapshot.tables import NOWHERE
from tests.collector.builders import HEARTBEAT, START, Clock, apply_report, container, report, settings
from wire.messages import ContainerUsage, Report
from wire.resources import RESOURCES, Quantities, Resource
from wire.sketch import Sketch

MINUTE = 60.0
HUNGRY = Quantities(2.0, 100_000_000, 1000.0, 1000.0)


@asynccontextmanager
async def analysis_job(path: Path, clock: Clock) -> AsyncIterator[tuple[Core, AnalysisJob]]:
    config = settings(path)
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, clock)
        job = AnalysisJob(core)
        await job.restore()
        yield core, job


def sketch(value: float, samples: int) -> Sketch:
    made = Sketch()
    for _ in range(samples):
        made.add(value)
    return made


def heartbeat(
    node: str, sequence: int, at: float, loads: Mapping[str, tuple[str, Quantities]], samples: int = 0
) -> Report:
    """A node whose containers, of these services, did this much in every sample."""
    usage = tuple(
        ContainerUsage(
            f"id-of-{name}",
            sketch(load.cpu_cores or 0.0, samples),
            sketch(float(load.memory_bytes or 0), samples),
            sketch(load.disk_bytes_per_second or 0.0, samples),
            sketch(load.network_bytes_per_second or 0.0, samples),
        )
        for name, (_, load) in loads.items()
    )
    whole = report(
        node,
        sequence=sequence,
        at=at,
        containers=[
            container(name, service=service, image=f"{service}:1", used=load)
            for name, (service, load) in loads.items()
        ],
    )
    with_usage = msgspec.structs.replace(HEARTBEAT, usage=usage if samples else ())
    return msgspec.structs.replace(whole, heartbeat=with_usage)


async def test_a_pass_profiles_services_and_finds_their_dominant_resources(tmp_path: Path) -> None:
    async with analysis_job(tmp_path / "history.db", Clock()) as (core, job):
        loads = {
            "web-1": ("web", HUNGRY),
            "web-2": ("web", HUNGRY),
            "db": ("db", Quantities(0.1, 4_000_000_000, 1000.0, 1000.0)),
        }
        apply_report(core.registry, heartbeat("alpha", 1, START, loads, samples=300), START)
        apply_report(
            core.registry, heartbeat("beta", 1, START, {"web-3": ("web", HUNGRY)}, samples=10), START
        )
        found = await job.analyse()
        assert core.analysis.latest is found
        web, db = found.services["web"], found.services["db"]
        assert (web.containers, web.nodes, web.image, web.profiled) == (3, 2, "web:1", True)
        # alpha counts with as many containers as beta.
        assert web.observed_seconds == pytest.approx(310 * HEARTBEAT.sample_seconds)
        assert web.quantities(Statistic.ENVELOPE).cpu_cores == pytest.approx(2.0, rel=0.01)
        assert web.dominant is not None
        assert web.dominant.resource is Resource.CPU
        assert db.dominant is not None
        assert db.dominant.resource is Resource.MEMORY
        assert 0 < db.dominant.confidence < web.dominant.confidence < 1
        assert {each.name for each in found.groups} == {"cpu", "memory"}
        # Those who decide see it too.
        snapshot = core.registry.tables.snapshot(START + MINUTE)
        row = snapshot.services.index["db"]
        assert snapshot.services.profiled[row]
        assert RESOURCES[snapshot.services.dominant[row]] is Resource.MEMORY
        groups = dict(zip(snapshot.tasks.ids, snapshot.tasks.group.tolist(), strict=True))
        assert groups["id-of-web-1"] == groups["id-of-web-3"] != groups["id-of-db"]
        assert NOWHERE not in groups.values()


async def test_a_new_container_starts_with_the_profile_of_its_service_even_after_a_restart(
    tmp_path: Path,
) -> None:
    path, clock = tmp_path / "history.db", Clock()
    async with analysis_job(path, clock) as (core, job):
        apply_report(
            core.registry, heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)}, samples=300), START
        )
        before = (await job.analyse()).services["web"]
    clock.now += 3600
    async with analysis_job(path, clock) as (core, job):
        remembered = core.analysis.latest.services["web"]
        assert (remembered.profiled, remembered.containers) == (True, 0)
        assert remembered.dominant is not None
        assert before.dominant is not None
        assert remembered.dominant.history == before.dominant.history
        assert remembered.dominant.explanation == before.dominant.explanation
        np.testing.assert_array_equal(remembered.statistics, before.statistics)
        idle = Quantities(0.0, 1_000_000)
        apply_report(core.registry, heartbeat("beta", 1, clock.now, {"web-9": ("web", idle)}), clock.now)
        found = await job.analyse()
        assert found.services["web"].profiled
        snapshot = core.registry.tables.snapshot(clock.now + MINUTE)
        assert snapshot.tasks.envelope[0] == pytest.approx(before.statistics[:, Statistic.ENVELOPE])
        assert snapshot.tasks.observed_seconds[0] == 0


async def test_a_briefly_observed_service_is_not_profiled_and_expires(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with analysis_job(tmp_path / "history.db", clock) as (core, job):
        loads = {"web-1": ("web", HUNGRY), "new": ("new", HUNGRY)}
        apply_report(
            core.registry, heartbeat("alpha", 1, START, {"web-1": loads["web-1"]}, samples=300), START
        )
        apply_report(core.registry, heartbeat("beta", 1, START, {"new": loads["new"]}, samples=10), START)
        assert {each.name: each.profiled for each in (await job.analyse()).services.values()} == {
            "web": True,
            "new": False,
        }
        for node in ("alpha", "beta"):
            apply_report(core.registry, heartbeat(node, 2, START + 1, {}), START + 1)
        clock.now += MINUTE
        assert set((await job.analyse()).services) == {"web"}
        clock.now += 31 * 86_400
        assert not (await job.analyse()).services
        assert not await core.history.get_values("service")


async def test_a_pass_collects_changed_nodes_and_periodically_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    looked: list[str] = []
    observed_containers = ClusterUsage.observed_containers

    def noting(self: ClusterUsage, node: str) -> list[ObservedContainer]:
        looked.append(node)
        return observed_containers(self, node)

    monkeypatch.setattr(ClusterUsage, "observed_containers", noting)
    async with analysis_job(tmp_path / "history.db", clock) as (core, job):

        async def looks() -> list[str]:
            looked.clear()
            await job.analyse()
            return sorted(looked)

        def hear(node: str, sequence: int, loads: Mapping[str, tuple[str, Quantities]], samples: int) -> None:
            apply_report(core.registry, heartbeat(node, sequence, clock.now, loads, samples), clock.now)

        hear("alpha", 1, {"web-1": ("web", HUNGRY)}, 10)
        hear("beta", 1, {"web-2": ("web", HUNGRY)}, 10)
        assert await looks() == ["alpha", "beta"]
        clock.now += MINUTE
        assert not await looks()
        assert core.analysis.latest.services["web"].containers == 2
        # More samples; a container that went; and nothing that a service is learnt from.
        hear("alpha", 2, {"web-1": ("web", HUNGRY)}, 5)
        assert await looks() == ["alpha"]
        assert core.analysis.latest.services["web"].observed_seconds == 25 * HEARTBEAT.sample_seconds
        hear("beta", 2, {}, 0)
        hear("alpha", 3, {"web-1": ("web", HUNGRY)}, 0)
        assert await looks() == ["beta"]
        assert core.analysis.latest.services["web"].nodes == 1
        clock.now += core.config.analysis.full_pass_seconds
        assert await looks() == ["alpha", "beta"]


async def test_a_failed_pass_is_followed_by_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with analysis_job(tmp_path / "history.db", Clock()) as (core, job):
        apply_report(
            core.registry, heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)}, samples=10), START
        )
        await job.analyse()
        apply_report(
            core.registry, heartbeat("beta", 1, START, {"web-2": ("web", HUNGRY)}, samples=10), START
        )
        with monkeypatch.context() as patched:
            patched.setattr(RunningServices, "pool", _no_room)
            with pytest.raises(MemoryError):
                await job.analyse()
        assert (await job.analyse()).services["web"].containers == 2


def _no_room(*_: object) -> None:
    raise MemoryError


async def test_a_quiet_node_stays_a_bottleneck_across_a_restart_until_it_reports(tmp_path: Path) -> None:
    path, clock = tmp_path / "history.db", Clock()
    first = heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)})
    async with analysis_job(path, clock) as (core, job):
        apply_report(core.registry, first, START)
        assert not await job.detect()
        clock.now += 10 * MINUTE
        (opened,) = await job.detect()
        assert (opened.finding.kind, opened.finding.subject) == (BottleneckKind.QUIET, "alpha")
        assert core.analysis.bottlenecks == (opened,)
    async with analysis_job(path, clock) as (core, job):
        apply_report(core.registry, first, START)
        assert core.analysis.bottlenecks == (opened,)
        assert not await job.detect()
        assert [each.id for each in core.analysis.bottlenecks] == [opened.id]
        back = heartbeat("alpha", 2, clock.now, {"web-1": ("web", HUNGRY)})
        apply_report(core.registry, back, clock.now)
        closed: tuple[Bottleneck, ...] = ()
        while not closed:
            clock.now += MINUTE
            apply_report(core.registry, msgspec.structs.replace(back, sequence=int(clock.now)), clock.now)
            closed = await job.detect()
        assert (closed[0].id, closed[0].is_open) == (opened.id, False)


async def test_an_unavailable_history_does_not_stop_the_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    async with analysis_job(tmp_path / "history.db", clock) as (core, job):
        apply_report(
            core.registry, heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)}, samples=300), START
        )

        async def full(_kind: str, _entries: Mapping[str, bytes | None]) -> None:
            raise HistoryUnavailable("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(type(core.history), "put_values", staticmethod(full))
            assert (await job.analyse()).services["web"].profiled
        assert "the disk is full" in caplog.text
        assert not await core.history.get_values("service")
        # It is made up for at the next pass.
        await job.analyse()
        assert set(await core.history.get_values("service")) == {"web"}


async def test_readyz_shows_a_pass_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError("no idea")

    async with analysis_job(tmp_path / "history.db", Clock()) as (core, job):
        with monkeypatch.context() as patch:
            patch.setattr("collector.analysis.analysis.analyse", fail)
            with pytest.raises(ValueError, match="no idea"):
                await job.analyse()
        assert "no idea" in (await ready(core)).problems[0]
        await job.analyse()
        assert (await ready(core)).problems == ()


async def test_the_analysis_runs_periodically_and_retries_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(tmp_path / "history.db")
    tries: asyncio.Queue[str] = asyncio.Queue()
    done = asyncio.Event()
    analyse = AnalysisJob.analyse

    async def failing_at_first(self: AnalysisJob) -> object:
        tries.put_nowait("think")
        if tries.qsize() == 1:
            raise ValueError("no idea")
        found = await analyse(self)
        done.set()
        return found

    async def at_once(_seconds: float) -> None:
        await sleep(0)

    sleep = asyncio.sleep
    monkeypatch.setattr(AnalysisJob, "analyse", failing_at_first)
    monkeypatch.setattr("collector.runtime.analysis.repeat", partial(repeat, sleep=at_once))
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, Clock())
        apply_report(core.registry, heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)}), START)
        async with analysing(core, await restored_analysis(core)):
            async with asyncio.timeout(10):
                await done.wait()
            assert "web" in core.analysis.latest.services
    assert "no idea" in caplog.text
