from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from collector.common.errors import ApiError
from collector.features.sizing.jobs import SizingJob
from collector.features.sizing.recommendations import ServiceSize
from collector.features.sizing.routes import SizesQuery, sizes
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.runtime.parts import Core
from tests.collector.builders import START, Clock, apply_report, settings
from tests.collector.runtime.test_analysis import HUNGRY, heartbeat
from wire.messages import Event, EventKind, Report
from wire.resources import Quantities

HOUR = 3600.0


@asynccontextmanager
async def sizing_job(path: Path, clock: Clock) -> AsyncIterator[tuple[Core, SizingJob]]:
    config = settings(path)
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, clock)
        job = core.part(SizingJob)
        await job.restore()
        yield core, job


def with_limit(report: Report, memory_bytes: int) -> Report:
    containers = tuple(
        msgspec.structs.replace(each, limit=Quantities(4.0, memory_bytes)) for each in report.containers
    )
    return msgspec.structs.replace(report, containers=containers)


async def size_of(core: Core, name: str) -> ServiceSize:
    [found] = (await sizes(core, SizesQuery(service=name))).sizes
    return found


async def test_services_that_report_get_sizes(tmp_path: Path) -> None:
    clock = Clock()
    async with sizing_job(tmp_path / "history.db", clock) as (core, job):
        apply_report(core.registry, heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)}, 300), START)
        await job.run_once()
        page = await sizes(core, SizesQuery())
        assert [each.service for each in page.sizes] == ["web"]
        web = await size_of(core, "web")
        assert web.containers == 1
        assert web.cpu is not None
        assert web.memory is not None
        assert web.cpu.used == pytest.approx(2.0, rel=0.02)
        assert 1.95 < web.cpu.request < web.cpu.vpa
        assert web.memory.limit >= web.memory.request
        assert 0 < web.confidence < 0.5
        with pytest.raises(ApiError, match=r"no size yet: 'wattpack size' .* within \d+ s after"):
            await size_of(core, "other")


async def test_days_survive_a_restart_without_the_containers(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "history.db"
    async with sizing_job(path, clock) as (core, job):
        apply_report(core.registry, heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)}, 300), START)
        await job.run_once()
        clock.now += HOUR
        apply_report(core.registry, heartbeat("alpha", 2, clock.now, {}), clock.now)
        await job.run_once()
        before = await size_of(core, "web")
        assert before.containers == 0
    clock.now += 10 * HOUR
    async with sizing_job(path, clock) as (core, job):
        await job.run_once()
        after = await size_of(core, "web")
    assert (after.cpu, after.memory, after.observed_days) == (
        before.cpu,
        before.memory,
        before.observed_days,
    )


@pytest.mark.parametrize(("limit", "had"), [(400_000_000, 400_000_000), (2**63 - 1, 8_000_000_000)])
async def test_an_out_of_memory_kill_raises_the_memory_of_its_service(
    tmp_path: Path, limit: int, had: int
) -> None:
    clock = Clock()
    async with sizing_job(tmp_path / "history.db", clock) as (core, job):
        first = with_limit(heartbeat("alpha", 1, START, {"web-1": ("web", HUNGRY)}, 300), limit)
        apply_report(core.registry, first, START)
        await job.run_once()
        calm = await size_of(core, "web")
        killed = heartbeat("alpha", 2, START + 5, {})
        event = Event(EventKind.OUT_OF_MEMORY, START + 4, container="id-of-web-1", name="web-1")
        apply_report(core.registry, msgspec.structs.replace(killed, events=(event,)), START + 5)
        await job.run_once()
        raised = await size_of(core, "web")
    assert calm.memory is not None
    assert raised.memory is not None
    assert not calm.out_of_memory
    assert calm.memory.request < had
    assert raised.out_of_memory
    assert raised.memory.request == raised.memory.limit == pytest.approx(1.2 * had)


async def test_a_first_run_that_fails_counts_no_container_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {"web-1": ("web", HUNGRY), "web-2": ("web", HUNGRY)}
    found = []
    for fails in (True, False):
        async with sizing_job(tmp_path / f"{fails}.db", Clock()) as (core, job):
            apply_report(core.registry, heartbeat("alpha", 1, START, both, 300), START)
            await job.restore()
            left = {"web-2": ("web", HUNGRY)}
            apply_report(core.registry, heartbeat("alpha", 2, START + 5, left), START + 5)
            if fails:
                with monkeypatch.context() as patched:
                    patched.setattr("collector.features.sizing.jobs.recommend", lambda *_: 1 / 0)
                    with pytest.raises(ZeroDivisionError):
                        await job.run_once()
            await job.run_once()
            found.append(job.usage.services["web"].totals())
    assert found[0] == found[1]


async def test_a_container_that_ends_between_a_restart_and_the_first_run_counts(tmp_path: Path) -> None:
    both = {"web-1": ("web", HUNGRY), "web-2": ("web", HUNGRY), "api-1": ("api", HUNGRY)}
    found = []
    for runs_before in (True, False):
        clock = Clock()
        async with sizing_job(tmp_path / f"{runs_before}.db", clock) as (core, job):
            apply_report(core.registry, heartbeat("alpha", 1, START, both, 300), START)
            await job.restore()
            if runs_before:
                await job.run_once()
            left = {"web-2": ("web", HUNGRY)}
            apply_report(core.registry, heartbeat("alpha", 2, START + 5, left), START + 5)
            await job.run_once()
            await job.run_once()
            found.append([msgspec.to_builtins(await size_of(core, name)) for name in ("web", "api")])
    assert found[0] == found[1]
    assert [each["containers"] for each in found[0]] == [1, 0]
