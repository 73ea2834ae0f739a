"""A cluster without any push: a real agent, a real Prometheus that scrapes it, a collector that asks."""

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from collector.config import PullConfig
from collector.features.prometheus.reader import STORE_GAP
from collector.main import running
from collector.runtime.parts import Core
from tests.collector.builders import altered, settings
from tests.collector.features.prometheus.waiting import until
from tests.collector.listed import list_containers, list_nodes
from tests.lab.engines.docker import Engine
from tests.lab.stores.prometheus import prometheus
from tests.processes import wattpack

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def samples(core: Core, name: str) -> int:
    """How many samples are known of the container of a name."""
    return sum(each.samples for each in list_containers(core.registry, time.time(), name=name))


@contextmanager
def agent(engine: Engine) -> Iterator[str]:
    """An agent without a collector; yields its address for scrapes."""
    command = wattpack(
        "agent",
        *("--set", "http.listen=127.0.0.1:0"),
        *("--set", "sampling.interval_seconds=0.5"),
        *("--set", f"docker.socket={engine.socket}"),
        *("--set", "collector.enabled=false"),
    )
    with command.running() as sampling:
        assert sampling.stdout is not None
        lines = (re.search(r"http://([\d.:]+)", line) for line in sampling.stdout)
        yield next(found[1] for found in lines if found)


async def test_nodes_are_pulled_from_a_real_prometheus_across_its_restart(
    engine: Engine, tmp_path: Path
) -> None:
    engine.run("burner", "sh", "-c", "while :; do :; done", cpus=0.2)
    async with AsyncExitStack() as stack:
        stack.callback(engine.remove, "burner")
        target = stack.enter_context(agent(engine))
        with prometheus({"agents": target}, data=tmp_path / "data") as first:
            config = msgspec.structs.replace(
                settings(tmp_path / "db"),
                pull=altered(
                    PullConfig(url=first.url, interval_seconds=1.0), settle_seconds=1.0, backfill_hours=1.0
                ),
            )
            collector = await stack.enter_async_context(running(config, clock=time.time))
            core, registry = collector.core, collector.core.registry
            await until(lambda: samples(core, "burner") >= 5)
            [burner] = list_containers(registry, time.time(), name="burner")
            assert (burner.node, burner.runtime) == (target, "docker")
            assert burner.envelope.p90.cpu_cores is not None
            # A machine that is busy elsewhere gives less than the quota of 0.2.
            assert 0.05 < burner.envelope.p90.cpu_cores < 0.3
            [node] = list_nodes(registry, time.time())
            assert STORE_GAP in node.gaps
            assert node.power is not None
            assert node.capacity.memory_bytes
            assert not core.outages.problems
        await until(lambda: bool(core.outages.problems))
        assert "cannot pull nodes from" in core.outages.problems[0]
        assert list_containers(registry, time.time(), name="burner"), "known containers are still listed"
        before = samples(core, "burner")
        await asyncio.to_thread(
            stack.enter_context,
            prometheus({"agents": target}, data=tmp_path / "data", address=first.host),
        )
        await until(lambda: not core.outages.problems and samples(core, "burner") > before)
