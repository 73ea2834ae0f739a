"""A cluster without any push: a real agent, a real Prometheus that scrapes it, a collector that asks."""

import asyncio
import re
import time
from pathlib import Path

import msgspec
import pytest

from collector.config import Pull
from collector.core import Core
from collector.history.prometheus.reading import UNTOLD
from collector.main import running
from collector.trouble import Part
from tests.collector.history.prometheus.waiting import until
from tests.collector.making import settings
from tests.lab.docker import Engine
from tests.lab.prometheus import prometheus
from tests.processes import wattpack

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def samples(core: Core, name: str) -> int:
    """How many samples are known of the container of a name."""
    return sum(each.p90_samples for each in core.registry.containers(time.time(), name=name))


async def test_a_collector_knows_nodes_that_only_prometheus_talks_to(engine: Engine, tmp_path: Path) -> None:
    engine.run("burner", "sh", "-c", "while :; do :; done", cpus=0.2)
    agent = wattpack(
        "agent",
        *("--set", "http.listen=127.0.0.1:0"),
        *("--set", "sampling.period_seconds=0.5"),
        *("--set", f"docker.socket={engine.socket}"),
        *("--set", "collector.enabled=false"),
    )
    try:
        with agent.running() as sampling:
            assert sampling.stdout is not None
            target = next(
                found[1] for line in sampling.stdout if (found := re.search(r"http://([\d.:]+)", line))
            )
            with prometheus({"agents": target}) as server:
                await asyncio.to_thread(server.wait_until_up, "agents")
                plain = settings(tmp_path / "db")
                config = msgspec.structs.replace(
                    plain, pull=Pull(url=server.url, every_seconds=1.0, settle_seconds=1.0, back_hours=1.0)
                )
                async with running(config, clock=time.time) as collector:
                    registry = collector.core.registry
                    await until(lambda: samples(collector.core, "burner") >= 5)
                    [burner] = registry.containers(time.time(), name="burner")
                    assert (burner.node, burner.runtime) == (target, "docker")
                    assert burner.p90.cpu_cores == pytest.approx(0.2, abs=0.1)
                    [node] = registry.nodes(time.time())
                    assert UNTOLD in node.gaps
                    assert node.power is not None
                    assert node.capacity.memory_bytes
                    assert not collector.core.troubles.listed
            # Prometheus is gone now; a collector that starts says so, and still answers what it knew.
            async with running(config, clock=time.time) as collector:
                await until(lambda: bool(collector.core.troubles.parts.get(Part.PULL)))
                [again] = collector.core.registry.containers(time.time(), name="burner")
                assert again.p90_samples >= burner.p90_samples
    finally:
        engine.remove("burner")
