"""Windows and samples survive a kill: a restarted collector has what the live tables had, moves included."""

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from bench.replay.equivalence import SimulatedPlacement, make_workload
from collector.act.journal import open_journal
from collector.main import running
from collector.snapshot.tables import Snapshot
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Host
from replay.simulation.agents.agents import SimulatedAgents
from replay.simulation.agents.samples import AgentSettings
from replay.simulation.cluster import unix
from tests.collector.builders import Client, Clock, settings
from tests.collector.recorded_moves import record_move

HOURS, SAMPLE_SECONDS = 4, 30.0
MOVES = HOURS
"""`SimulatedPlacement` moves a container every hour."""
_COLUMNS = ("mean", "observed_seconds")


@pytest.mark.slow
@pytest.mark.parametrize("rolled_up_hours", [0.0, 3.5])
async def test_a_collector_that_was_killed_has_the_windows_of_nodes_and_containers(
    tmp_path: Path, rolled_up_hours: float
) -> None:
    killed = multiprocessing.get_context("spawn").Process(
        target=_report_until_killed, args=(tmp_path, rolled_up_hours)
    )
    killed.start()
    await asyncio.to_thread(killed.join)
    assert killed.exitcode == -signal.SIGKILL
    before = np.load(tmp_path / "before.npz")
    clock = Clock(float(before["at"]))
    async with running(settings(tmp_path / "history.db"), clock=clock) as collector:
        after = collector.core.registry.tables.snapshot(clock.now)
    assert before["ids"].tolist() == list(after.tasks.ids)
    assert any("~" in name for name in after.tasks.ids)  # those that were moved
    assert np.count_nonzero(~np.isnan(before["windows"][:, :, 0])) > 500
    # A collector that runs adds samples when there are a sixteenth more; one that starts adds all.
    for column in ("observed_seconds", "mean"):
        np.testing.assert_allclose(before[column], getattr(after.tasks, column), rtol=1 / 15)
    _assert_same_windows(before["windows"], after.tasks.windows.amounts)
    _assert_same_windows(before["history"], after.nodes.history)


def _assert_same_windows(one: np.ndarray, other: np.ndarray) -> None:
    assert np.isnan(one).tolist() == np.isnan(other).tolist()
    # Reports round to six digits, and buckets are kept in single precision. In the bucket of a move, the
    # windows of both containers overlap by a sample, a tenth of a bucket: the history adds up both.
    differs = ~np.isclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
    assert np.count_nonzero(differs.any(axis=2)) <= MOVES
    np.testing.assert_allclose(one, other, rtol=0.1)


def _report_until_killed(folder: Path, rolled_up_hours: float) -> None:
    before = asyncio.run(_report(folder, rolled_up_hours))
    raise AssertionError(f"still running at {before.at}")


async def _report(folder: Path, rolled_up_hours: float) -> Snapshot:
    """Let agents report for some hours, store what the live tables have, and kill this process."""
    clock = Clock(unix(0.0))
    hosts = build_hosts([Host(name="host", count=3, cpu_cores=8, memory_mb=16384, watts=(60, 150))])
    workload = make_workload(20, HOURS * 3600)
    agents = SimulatedAgents(hosts, workload, AgentSettings.sampling_every(SAMPLE_SECONDS))
    placement = SimulatedPlacement(hosts, workload, agents)
    async with (
        running(settings(folder / "history.db"), clock=clock) as collector,
        aiohttp.ClientSession() as http,
    ):
        client = Client(collector.address.url, http, clock)
        journal = await open_journal(collector.core.history, collector.core.config.control)
        await client.send(
            *[first for host in range(3) if (first := agents.boot(host, clock.now)) is not None]
        )
        for tick in range(1, int(HOURS * 3600 / SAMPLE_SECONDS) + 1):
            seconds = tick * SAMPLE_SECONDS
            clock.now, moves = unix(seconds), len(placement.moves)
            reports = agents.sample(clock.now, placement.load(seconds))
            for move in placement.moves[moves:]:
                await record_move(collector, journal, move)
            if reports:
                await client.send(*reports)
            if seconds == rolled_up_hours * 3600:
                await collector.core.history.apply_retention(clock.now)
        clock.now += 1.0
        before = collector.core.registry.tables.snapshot(clock.now)
        columns = {name: getattr(before.tasks, name) for name in _COLUMNS}
        np.savez(
            folder / "before.npz",
            at=clock.now,
            ids=np.array(before.tasks.ids),
            history=before.nodes.history,
            windows=before.tasks.windows.amounts,
            **columns,
        )
        os.kill(os.getpid(), signal.SIGKILL)
    return before
