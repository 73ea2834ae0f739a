"""A container fills its node: from the agents' samples to the order to move it, without an engine.

Detector, reporter, registry, control loop and policy are the real ones with their default settings.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import BottleneckConfig, ReportingConfig
from agent.reporting.reporter import Reporter
from agent.sources.docker import ContainerInfo
from collector.act.loop import ControlLoop
from collector.common.orchestrator import NodeView, OrchestratorState, ServiceView, TaskView
from collector.common.reported_alerts import AlertState
from collector.decide.policies.actions import Move
from tests.agent.samples import Clock, Container, cpu, node_sample
from tests.collector.act.builders import HOG, NODES, STEADY, FakeDriver, Stage, actor_of, staged
from tests.collector.builders import apply_report
from wire.resources import Quantities

_SAMPLE_SECONDS = 3.0
_CORES = 4.0
_GIGABYTE = 10**9


class Agent:
    """An agent on one node, sampled by hand."""

    def __init__(self, stage: Stage, node: str) -> None:
        self._stage, self._node = stage, node
        self._clock = Clock()
        self._clock.unix_seconds = stage.clock.now
        self._detector = BottleneckDetector(BottleneckConfig())
        self._reporter = Reporter(node, f"boot-of-{node}", ReportingConfig(), _SAMPLE_SECONDS)

    def sample(self, cores: Mapping[str, float]) -> None:
        """Take and report a sample with these containers."""
        self._clock.advance(_SAMPLE_SECONDS)
        containers = {
            f"id-of-{name}": Container(
                used=cpu(used, 50_000_000),
                limit=Quantities(_CORES, 8 * _GIGABYTE),
                info=ContainerInfo(name, service=name),
            )
            for name, used in cores.items()
        }
        used = cpu(min(_CORES, 0.1 + sum(cores.values())), _GIGABYTE)
        capacity = Quantities(_CORES, 8 * _GIGABYTE, 1e9, 1e9)
        sample = node_sample(self._clock, containers, used, capacity)
        report = self._reporter.report(sample, (), self._detector.update(sample))
        if report is not None:
            apply_report(self._stage.core.registry, report, self._stage.clock.now)


def orchestrated() -> OrchestratorState:
    return OrchestratorState(
        nodes=tuple(NodeView(name=name) for name in NODES),
        services=tuple(ServiceView(name=name) for name in (HOG, STEADY)),
        tasks=tuple(
            TaskView(container=f"id-of-{name}", service=name, node="alpha", state="running")
            for name in (HOG, STEADY)
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_the_container_that_fills_its_node_is_the_one_that_moves(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same in every run
    is_new = chance.random() < 0.5
    begins = 260 + chance.randrange(30)  # samples: any phase of the windows, 15 minutes after the other
    hog_cores, steady_cores = chance.uniform(2.6, 2.9), chance.uniform(1.0, 1.2)
    before_cores = chance.uniform(1.5, 2.5)
    """What the other one used until then: more than its last window shows of the hog."""
    async with staged(tmp_path) as stage:
        agents = {node: Agent(stage, node) for node in NODES}
        driver = FakeDriver(view_now=orchestrated())
        loop = ControlLoop(stage.core, await actor_of(stage, driver))
        for number in range(begins + 40):
            stage.clock.now += _SAMPLE_SECONDS
            there = {STEADY: chance.gauss(before_cores if number < begins else steady_cores, 0.05)}
            if number >= begins:
                there[HOG] = chance.gauss(hog_cores, 0.05)
            elif not is_new:
                there[HOG] = 0.2
            for node, agent in agents.items():
                agent.sample(there if node == "alpha" else {})
            if number >= begins:
                await loop.run_once()
            if driver.orders:
                break
        [order] = driver.orders
        assert isinstance(order, Move)
        assert (order.name, order.node) == (HOG, "alpha"), f"{number - begins} samples after the hog began"
        assert number - begins <= 2 * BottleneckConfig().samples


async def test_the_collector_learns_what_is_left_of_a_bottleneck_without_another_alert(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        agent = Agent(stage, "alpha")

        def excess(cores: float) -> float:
            for _ in range(12):
                stage.clock.now += _SAMPLE_SECONDS
                agent.sample({HOG: 1.0, STEADY: cores - 1.0})
            return float(stage.core.registry.tables.snapshot(stage.clock.now).nodes.excess[0, 0])

        assert excess(3.9) == pytest.approx(1 - 0.8 / 1.0)
        (opened,) = stage.core.registry.alerts(stage.clock.now)
        assert excess(3.4) == pytest.approx(1 - 0.8 / 0.875)
        (later,) = stage.core.registry.alerts(stage.clock.now)
        assert later.state is AlertState.OPEN
        before, after = opened.reported.alert, later.reported.alert
        assert (after.opened_at, after.evidence, after.name) == (
            before.opened_at,
            before.evidence,
            before.name,
        )
