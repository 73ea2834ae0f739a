"""Collectors that die in the middle of every action, on the real engines and the real Swarm of the lab.

Each action is killed once, half-way; `./dev bench interrupted` kills each at all of its changes.
"""

from pathlib import Path

import pytest

from tests.collector.act.drivers.interrupted import Point, halfway
from tests.collector.features.docker import test_interrupted as hosts_in_memory
from tests.collector.features.swarm import test_interrupted as swarm_in_memory
from tests.lab.engines.swarm import Swarm
from tests.lab.interrupted.hosts import interrupt_on_hosts, kill_on_hosts
from tests.lab.interrupted.swarm import interrupt_on_swarm

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.mark.parametrize("point", halfway(hosts_in_memory.POINTS), ids=str)
async def test_hosts_have_one_container_and_the_journal_is_true(
    point: Point, tmp_path: Path, cluster: Swarm
) -> None:
    await interrupt_on_hosts(cluster, tmp_path, point)


async def test_a_collector_that_is_killed_with_kill_9_doubles_and_loses_nothing(
    tmp_path: Path, cluster: Swarm
) -> None:
    await kill_on_hosts(cluster, tmp_path, hosts_in_memory.POINTS["move"].index("stop"))


@pytest.mark.parametrize("point", halfway(swarm_in_memory.POINTS), ids=str)
async def test_a_swarm_has_its_replicas_and_the_journal_is_true(
    point: Point, tmp_path: Path, cluster: Swarm
) -> None:
    await interrupt_on_swarm(cluster, tmp_path, point)
