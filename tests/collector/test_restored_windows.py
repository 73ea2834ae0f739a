"""Windows survive a restart: the history has what the live tables had."""

from pathlib import Path

import aiohttp
import numpy as np
import pytest

from bench.replay_sameness import Course, some_workload
from collector.main import running
from collector.snapshot.tables import Snapshot
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Host
from replay.simulation.agents import AgentSettings, SimulatedAgents
from replay.simulation.clock import unix
from tests.collector.builders import Client, Clock, settings

HOURS, SAMPLE_SECONDS = 4, 30.0
MOVES = HOURS
"""`Course` moves a container every hour."""


@pytest.mark.parametrize("rolled_up_hours", [0.0, 3.5])
async def test_a_restarted_collector_has_the_windows_of_nodes_and_containers(
    tmp_path: Path, rolled_up_hours: float
) -> None:
    config, clock = settings(tmp_path / "history.db"), Clock(unix(0.0))
    hosts = build_hosts([Host(name="host", count=3, cpu_cores=8, memory_mb=16384, watts=(60, 150))])
    workload = some_workload(20, HOURS * 3600)
    agents = SimulatedAgents(hosts, workload, AgentSettings.sampling_every(SAMPLE_SECONDS))
    course = Course(hosts, workload, agents)
    async with running(config, clock=clock) as collector, aiohttp.ClientSession() as http:
        client = Client(collector.address.url, http, clock)
        await client.send(
            *[first for host in range(3) if (first := agents.boot(host, clock.now)) is not None]
        )
        for tick in range(1, int(HOURS * 3600 / SAMPLE_SECONDS) + 1):
            seconds = tick * SAMPLE_SECONDS
            clock.now = unix(seconds)
            if reports := agents.sample(clock.now, course.load(seconds)):
                await client.send(*reports)
            if seconds == rolled_up_hours * 3600:
                await collector.core.history.apply_retention(clock.now)
        clock.now += 1.0
        before = collector.core.registry.tables.snapshot(clock.now)
    async with running(config, clock=clock) as collector:
        after = collector.core.registry.tables.snapshot(clock.now)
    assert before.tasks.ids == after.tasks.ids
    assert_same_windows(before, after)


def assert_same_windows(before: Snapshot, after: Snapshot) -> None:
    assert np.count_nonzero(~np.isnan(before.tasks.windows[:, :, 0])) > 500
    for one, other in (
        (before.tasks.windows, after.tasks.windows),
        (before.nodes.history, after.nodes.history),
    ):
        assert np.isnan(one).tolist() == np.isnan(other).tolist()
        # Reports round to six digits, and slots are kept in single precision. In the slot of a move, the
        # history does not know what the container used before its first report on the new node.
        differs = ~np.isclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
        assert np.count_nonzero(differs.any(axis=2)) <= MOVES
        np.testing.assert_allclose(one, other, rtol=0.05)
