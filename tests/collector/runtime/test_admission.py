import asyncio
from pathlib import Path

import msgspec

from collector.decide.policies.admission.record import WINDOW_SECONDS
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.runtime.admission import record_shortages, recording_shortages, restore_shortages
from collector.runtime.parts import Core
from tests.collector.builders import Clock, container, report, settings


async def test_the_record_is_kept_through_a_restart(tmp_path: Path) -> None:
    config, clock = settings(tmp_path / "history.db"), Clock()
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, clock)
        for _ in range(4):
            for at in (clock.now, clock.now + 5.0):
                core.registry.apply(report("alpha", containers=[container("web")], at=at), at)
            await record_shortages(core)
            clock.now += WINDOW_SECONDS
        assert core.shortages.of("alpha").windows > 0
        restarted = Core(config, Registry(config), history, clock)
        await restore_shortages(restarted)
        assert restarted.shortages.of("alpha") == core.shortages.of("alpha")


async def test_shortages_are_recorded_while_the_collector_runs(tmp_path: Path) -> None:
    config = settings(tmp_path / "history.db")
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, Clock())
        async with recording_shortages(core), asyncio.timeout(10):
            while not await history.get_values("admission"):  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)


async def test_nothing_is_recorded_where_all_are_admitted(tmp_path: Path) -> None:
    config = settings(tmp_path / "history.db")
    placement = msgspec.structs.replace(config.placement, risk_max=1.0)
    config = msgspec.structs.replace(config, placement=placement)
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, Clock())
        assert core.admission is None
        async with recording_shortages(core):
            await asyncio.sleep(0)
        await restore_shortages(core)
        assert await history.get_values("admission") == {}
