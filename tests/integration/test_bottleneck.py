"""A real shortage of CPU: the node finds it, reports it at once, and closes the alert when it is over."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.engines import cgroups
from tests.lab.engines.docker import Engine
from tests.lab.suite import Suite, suite
from tests.lab.waiting import eventually
from tests.processes import wattpack

pytestmark = pytest.mark.lab

NODE_CORES = 0.25
"""The node is small, so that other processes on the machine do not affect it."""
ALERT_RATIO = 0.6
"""On a busy machine, a container gets less CPU than its quota, sometimes by a quarter."""
REPORTED_WITHIN_SECONDS = 60.0


@pytest.fixture
def node(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """An agent whose host is the engine's control group, with one idle container."""
    engine.run("idler", "sleep", "3600")
    cgroups.limit(engine.cgroup_parent, cpus=NODE_CORES)
    settings = (f"host.cgroup=/{engine.cgroup_parent}", "node=small", f"bottleneck.usage_ratio={ALERT_RATIO}")
    try:
        with suite(engine.socket, tmp_path_factory.mktemp("suite"), settings=settings) as started:
            yield started
    finally:
        cgroups.limit(engine.cgroup_parent, cpus=os.cpu_count())
        engine.remove("idler")


def alerts(node: Suite, state: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node.get(f"/v1/alerts?state={state}")["alerts"]
    return found


def test_a_hog_opens_an_alert_that_names_it_and_its_end_closes_the_alert(engine: Engine, node: Suite) -> None:
    assert alerts(node, "all") == []
    hog = engine.run("hog", "sh", "-c", "while :; do :; done")
    try:
        (opened,) = eventually(lambda: alerts(node, "open"), REPORTED_WITHIN_SECONDS)
        assert (opened["node"], opened["resource"]) == ("small", "cpu")
        assert (opened["container"], opened["name"]) == (hog, "hog")
        assert opened["ratio"] > ALERT_RATIO
        assert re.match(rf"CPU at \d+% of {NODE_CORES:g} cores for \d+ s; ", opened["evidence"])
        assert 'wattpack_agent_alert{resource="cpu"} 1.0' in node.agent_metrics()
        seen = wattpack("top", "--collector", node.collector_url).run()
        assert f"! {opened['evidence'][:40]}" in seen.stdout
    finally:
        engine.remove("hog")
    (closed,) = eventually(lambda: alerts(node, "closed"), REPORTED_WITHIN_SECONDS)
    assert closed["opened_at"] == opened["opened_at"] < closed["closed_at"]
    assert closed["name"] == "hog"
    assert alerts(node, "open") == []
    assert 'wattpack_agent_alert{resource="cpu"} 0.0' in node.agent_metrics()
