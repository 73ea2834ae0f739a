"""A stack deployed on a real Swarm: every task starts on its planned node, without constraints afterwards."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.swarm.cluster import NODE_CORES, Cluster, Collector, cluster
from collector.act.drivers.table import open_driver
from collector.config import DriverConfig
from collector.decide.policies.actions import Move
from tests.lab.engines import image
from tests.lab.engines.swarm import Swarm
from tests.lab.waiting import eventually

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_TIMEOUT_SECONDS = 60.0
_STACK = f"""
version: "3.8"
services:
  web:
    image: {image.NAME}
    command: ["sleep", "100000"]
    networks: [hostnet]
    stop_grace_period: 1s
    deploy:
      replicas: 2
      labels: {{own: label, wattpack.delay-max: 85ms}}
      resources: {{reservations: {{cpus: "0.02", memory: 8M}}}}
      placement: {{constraints: ["node.hostname!=node9"]}}
  worker:
    image: {image.NAME}
    command: ["sleep", "100000"]
    networks: [hostnet]
    stop_grace_period: 1s
    deploy:
      replicas: ${{WORKERS:-3}}
      labels: ["wattpack.class=4"]
      resources: {{reservations: {{cpus: "0.02", memory: 8M}}}}
networks:
  hostnet: {{external: true, name: host}}
"""


def wattpack(
    nodes: Cluster, collector: Collector, command: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattpack", "deploy", command, "--collector", collector.url, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "DOCKER_HOST": f"unix://{nodes.swarm.manager.socket}"},
        cwd=Path(__file__).parents[2],
    )


@pytest.fixture(scope="module")
def nodes(swarm_nodes: Swarm) -> Iterator[Cluster]:
    with cluster(nodes=swarm_nodes) as three:
        yield three


def spec(nodes: Cluster, service: str) -> Any:
    return nodes.swarm.manager.get(f"/services/{service}")["Spec"]


def wait_until_free(nodes: Cluster, service: str, replicas: int) -> list[str]:
    """Return the nodes of a service's tasks, when all run and its constraints are removed."""

    def free() -> list[str]:
        found = spec(nodes, service)
        placement = found["TaskTemplate"].get("Placement") or {}
        is_free = not any(each.startswith("node.id") for each in placement.get("Constraints") or ())
        places = nodes.places(service)
        return places if is_free and len(places) == replicas else []

    return eventually(free, _TIMEOUT_SECONDS)


def planned_nodes(collector: Collector, nodes: Cluster, policy: str, file: Path) -> dict[str, list[str]]:
    """Return the nodes that the policy chooses, from the output of the command."""
    done = wattpack(nodes, collector, "stack", str(file), "--name", "shop", "--policy", policy, "--pack")
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, colon, places = line.partition(": ")
        if colon and name in {"shop_web", "shop_worker"}:
            found[name] = sorted(
                node.split(" (")[0]
                for node in places.split(", ")
                for _ in range(int(node.split("(")[1][:-1]) if "(" in node else 1)
            )
    return found


@pytest.mark.parametrize(
    ("policy", "tables"),
    [
        ("genpack", {"nodes": {"node3": {"generation": "nursery"}, "node1": {"generation": "old"}}}),
        ("draps", {}),
        ("energy4cloud", {}),
        ("net-aware", {}),
    ],
)
def test_every_task_starts_on_its_planned_node_without_constraints_afterwards(
    nodes: Cluster, tmp_path: Path, policy: str, tables: dict[str, Any]
) -> None:
    file = tmp_path / "stack.yml"
    file.write_text(_STACK, encoding="utf-8")
    collector = nodes.collector({"control": {"policy": ""}, **tables}, name=policy)
    nodes.watch(collector)
    try:
        eventually(lambda: _known(collector), _TIMEOUT_SECONDS)
        chosen = planned_nodes(collector, nodes, policy, file)
        places = {name: wait_until_free(nodes, name, len(chosen[name])) for name in chosen}
        assert places == chosen, nodes.logs()
        if policy == "genpack":
            assert set(places["shop_web"]) == {"node3"}, "new services start in the nursery"
        if policy == "net-aware":
            # Its bound is a label of the service, which only Swarm reports, not the node.
            used = Counter(node for each in places.values() for node in each)
            assert len(used) == 1, "every node has the image, so that the stack goes to one"
            shop = eventually(lambda: _bounded(collector, "shop", 0.085, used), _TIMEOUT_SECONDS)
            assert shop["services"] == ["shop_web", "shop_worker"]
        assert {name: len(each) for name, each in places.items()} == {"shop_web": 2, "shop_worker": 3}
        # No constraint of the deployment is left, and those of the user are there.
        for name in places:
            labels = spec(nodes, name)["Labels"]
            assert not any(label == "wattpack.before" for label in labels)
        assert spec(nodes, "shop_web")["Labels"]["own"] == "label"
        assert spec(nodes, "shop_web")["TaskTemplate"]["Placement"]["Constraints"] == ["node.hostname!=node9"]
        assert spec(nodes, "shop_worker")["Mode"]["Replicated"]["Replicas"] == 3
        # Every task is the first of its slot: removing the constraints restarted none.
        assert len(nodes.swarm.tasks("shop_web")) == 2
        assert len(nodes.swarm.tasks("shop_worker")) == 3
        # Later moves are possible.
        target = min({"node1", "node2", "node3"} - {*places["shop_web"]})
        asyncio.run(_move(nodes, "shop_web", target))
        assert target in nodes.places("shop_web")
    finally:
        nodes.swarm.manager.docker("stack", "rm", "shop")
        for agent in nodes.agents.values():
            agent.end()
        collector.process.end()


def test_a_service_that_fits_nowhere_is_not_created(nodes: Cluster) -> None:
    collector = nodes.collector({"control": {"policy": ""}}, name="full")
    nodes.watch(collector)
    eventually(lambda: _known(collector), _TIMEOUT_SECONDS)
    huge = ("--cpu", str(NODE_CORES * 2), "--policy", "draps")
    done = wattpack(nodes, collector, "service", *huge, "huge", image.NAME, "sleep", "1000")
    assert done.returncode == 2
    assert "huge fits on no node: not enough free CPU (3)" in done.stderr
    assert "huge" not in nodes.swarm.manager.docker("service", "ls", "--format={{.Name}}").split()
    options = ("--docker-option=--network=host", "--docker-option=--no-resolve-image")
    small = ("--cpu", "0.02", "--replicas", "3", "--policy", "draps", *options)
    done = wattpack(nodes, collector, "service", *small, "small", image.NAME, "sleep", "1000")
    assert done.returncode == 0, done.stderr
    assert wait_until_free(nodes, "small", 3) == ["node1", "node2", "node3"], "replicas are spread"
    nodes.remove("small")


async def _move(nodes: Cluster, service: str, target: str) -> None:
    settings = DriverConfig(
        name="swarm", managers=f"unix://{nodes.swarm.manager.socket}", stable_seconds=1, healthy_seconds=20
    )
    task = next(each for each in nodes.running(service) if each.node != target)
    async with open_driver(settings) as driver:
        move = Move(task=str(task.container_id), node=str(task.node), target=target, reasons=())
        done = await driver.carry_out(move)
    assert not done.nothing_to_do


def _bounded(collector: Collector, application: str, seconds: float, nodes: Mapping[str, int]) -> Any:
    """Return the application, when it has this bound and these containers: earlier ones may still end."""
    found = {each["name"]: each for each in collector.get("/v1/applications")["applications"]}.get(
        application
    )
    if found is None or found["delay_max_seconds"] != seconds:
        return None
    return found if found["nodes"] == nodes else None


def _known(collector: Collector) -> bool:
    """Whether all nodes are available for placement."""
    hint = collector.post("/v1/hints/placement", {"reserve": {"cpu_cores": 0.01}, "policy": "draps"})
    return len(hint["nodes"]) == 3
