"""The efficiency that generations follow survives a restart of the collector."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from collector.features.genpack.jobs import restore, running
from collector.features.genpack.live import NodeEfficiency
from collector.features.genpack.snapshot import SettledEfficiency
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.runtime.parts import Core
from tests.collector.builders import CURVE, HEARTBEAT, START, Clock, partial_report, report, settings


def report_watts(core: Core, sequence: int, idle_watts: float) -> float:
    """Report a curve; return the watts per core that policies see then."""
    curve = msgspec.structs.replace(CURVE, idle_watts=idle_watts)
    heartbeat = msgspec.structs.replace(HEARTBEAT, power_curve=curve)
    at = START + sequence
    core.registry.apply(partial_report("alpha", sequence=sequence, at=at, heartbeat=heartbeat), at)
    part = core.registry.tables.snapshot(at).part(SettledEfficiency)
    assert part is not None
    return float(part.watts_per_core[0])


async def test_a_restarted_collector_continues_with_the_efficiency_that_it_had(tmp_path: Path) -> None:
    config = settings(tmp_path / "history.db")
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, Clock())
        await restore(core)
        core.registry.apply(report("alpha"), START)
        first = report_watts(core, 2, 20.0)
        async with running(core), asyncio.timeout(10):
            while not await history.get_values("genpack"):  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)
        later = Core(config, Registry(config), history, Clock())
        later.registry.apply(report("alpha"), START)
        await restore(later)
        assert later.registry.part(NodeEfficiency).watts == core.registry.part(NodeEfficiency).watts
        assert report_watts(later, 2, 20.5) == first
        assert report_watts(later, 3, 60.0) > first


async def test_a_damaged_value_is_ignored_and_nodes_that_are_gone_are_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(tmp_path / "history.db")
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, Clock())
        core.registry.apply(report("alpha"), START)
        await history.put_values("genpack", {"watts-per-core": b'{"alpha": 12.5, "gone": 9.5}'})
        await restore(core)
        assert core.registry.part(NodeEfficiency).watts == {"alpha": 12.5}
        await history.put_values("genpack", {"watts-per-core": b"damaged"})
        await restore(core)
    assert "the stored efficiency of nodes is invalid, and is ignored" in caplog.text
