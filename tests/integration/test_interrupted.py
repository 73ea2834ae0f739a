"""Collectors that die at every change of every action, on the real engines and the real Swarm of the lab."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from collector.act.drivers.engine.client import Engine, Engines, connect, open_engines
from collector.act.drivers.engine.containers import DockerContainer
from collector.act.drivers.interface import Driver
from collector.act.records import StepState
from collector.common.labels import BEFORE_LABEL, DRAINED_LABEL, OFF_LABEL
from collector.config import DriverConfig
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    PowerOff,
    PowerOn,
    Resize,
    Scale,
    Start,
)
from collector.features.swarm.client import Manager
from collector.features.swarm.driver import Swarm as SwarmDriver
from collector.features.swarm.specs import parked_tasks, replicas_of, user_spec
from tests.collector.act.drivers.interrupted import DyingEngine, Fuse, dying_engines, interrupted, recovered
from tests.collector.features.docker import test_interrupted as hosts_in_memory
from tests.collector.features.swarm import test_interrupted as swarm_in_memory
from tests.integration.interrupted_hosts import containers_of, lab_hosts
from tests.lab.engines.swarm import Swarm, Task
from tests.lab.waiting import eventually
from wire.resources import Quantities

pytestmark = [pytest.mark.lab, pytest.mark.slow]

WHY = ("because",)


def points(changes: list[str], *, journal: bool) -> Iterator[tuple[int, bool]]:
    """Return before which changes a collector dies, and after which: a record is between two others."""
    for at, change in enumerate(changes):
        if change != "journal":
            yield from ((at, False), (at, True))
        elif journal:
            yield at, False


def cases(table: dict[str, list[str]]) -> list[tuple[str, int, bool]]:
    """Return all points on real parts: those in the journal for moves, those of the engines for all."""
    return [
        (name, at, sent)
        for name, changes in table.items()
        if not name.endswith("sick")
        for at, sent in points(changes, journal=name == "move")
    ]


# --- Plain hosts ------------------------------------------------------------------------------------


@pytest.fixture
def sockets(cluster: Swarm) -> Iterator[dict[str, str]]:
    """Two nodes of the shared Swarm as plain hosts; their containers are removed."""
    yield {node.name: str(node.engine.socket) for node in cluster.nodes[1:]}
    for node in cluster.nodes[1:]:
        if left := node.engine.docker("ps", "--all", "--quiet").split():
            node.engine.remove(*left)


def run_web(cluster: Swarm, *, status: str = "running") -> str:
    """Run a container on the second node, and return its id."""
    engine = cluster.nodes[1].engine
    web = engine.run(
        "web",
        *("sleep", "100000"),
        cpus=1.0,
        memory="32m",
        labels={"wattpack.move": "allowed"},
        extra=("--stop-timeout=1", "--restart=always"),
    )
    if status == "exited":
        engine.stop("web")
    return web


@pytest.mark.parametrize(("name", "at", "sent"), cases(hosts_in_memory.POINTS))
async def test_hosts_have_one_container_and_the_journal_is_true(  # noqa: PLR0913, PLR0917 - a case and fixtures
    name: str,
    at: int,
    sent: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    cluster: Swarm,
    sockets: dict[str, str],
) -> None:
    web = run_web(cluster, status=hosts_in_memory.start_state(name))
    source, target = sockets
    action, fuse = hosts_in_memory.action_on(name, web, source, target), Fuse(at, sent)
    async with lab_hosts(sockets) as hosts:
        step = await interrupted(tmp_path, hosts, action, fuse, reports=not name.endswith("unseen"))
        assert fuse.is_dead
        hosts_in_memory.check(hosts, source, action, step)


@pytest.mark.parametrize("at", range(len(hosts_in_memory.POINTS["move"])))
async def test_a_collector_that_is_killed_with_kill_9_doubles_and_loses_nothing(
    at: int, tmp_path: Path, cluster: Swarm, sockets: dict[str, str]
) -> None:
    web = run_web(cluster)
    source, target = sockets
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.interrupted_hosts", str(tmp_path), str(at), web),
        *(f"{node}={socket}" for node, socket in sockets.items()),
    )
    assert await killed.wait() == -signal.SIGKILL
    action = hosts_in_memory.action_on("move", web, source, target)
    async with lab_hosts(sockets) as hosts:
        step = await recovered(tmp_path, hosts, action)
        hosts_in_memory.check(hosts, source, action, step)
    assert not containers_left(sockets[target if step.state is not StepState.VERIFIED else source])


def containers_left(socket: str) -> list[str]:
    return [each.plain_name for each in containers_of(socket)]


# --- Swarm ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabSwarm:
    """The real Swarm, with a service called web."""

    swarm: Swarm
    manager: Engine
    engines: Engines
    settings: DriverConfig
    keeps_promises: bool
    poll_seconds: float = 0.1

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.swarm.nodes)

    def driver(self, fuse: Fuse) -> Driver:
        manager: Any = DyingEngine(self.manager, fuse)
        return SwarmDriver(Manager(manager), dying_engines(self.engines, fuse), self.settings)

    def containers(self, node: str) -> Iterator[DockerContainer]:
        for each in containers_of(str(self.swarm.node(node).engine.socket)):
            if each.state.status == "running":
                yield each

    def spec(self) -> Any:
        return self.swarm.manager.get("/services/web")["Spec"]

    def node_spec(self, name: str) -> Any:
        return self.swarm.manager.get(f"/nodes/{name}")["Spec"]

    def running(self) -> list[Task]:
        return [task for task in self.swarm.tasks("web") if task.state == "running"]


@contextmanager
def web_service(cluster: Swarm, replicas: int) -> Iterator[list[Task]]:
    cluster.create_service(
        "web",
        *("sleep", "100000"),
        replicas=replicas,
        labels={"wattpack.move": "allowed"},
        extra=("--limit-cpu=1", "--stop-grace-period=1s"),
    )
    try:

        def all_run() -> list[Task]:
            tasks = [task for task in cluster.tasks("web") if task.state == "running"]
            return tasks if len(tasks) == replicas else []

        yield eventually(all_run, 30)
    finally:
        cluster.clear()


def action_on(name: str, task: Task, target: str, off: str, waiting: str) -> Action:
    web, node = str(task.container_id), str(task.node)
    actions: dict[str, Action] = {
        "move": Move(task=web, name="web", node=node, target=target, reasons=WHY),
        "park": Kill(task=web, name="web", node=node, target=None, reasons=WHY),
        "start": Start(task=waiting, name="web", target=target, reasons=WHY),
        "scale": Scale(service="web", replicas=2, replicas_before=1, nodes=(target,), reasons=WHY),
        "shed": Scale(service="web", replicas=0, replicas_before=1, sheds=True, reasons=WHY),
        "resize": Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=WHY),
        "cut": Cut(task=web, name="web", node=node, allocated=Quantities(0.5), reasons=WHY),
        "off": PowerOff(node=off, reasons=WHY),
        "on": PowerOn(node=off, reasons=WHY),
    }
    return actions[name.split("-", maxsplit=1)[0]]


@pytest.mark.parametrize(("name", "at", "sent"), cases(swarm_in_memory.POINTS))
async def test_a_swarm_has_its_replicas_and_the_journal_is_true(
    name: str,
    at: int,
    sent: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    cluster: Swarm,
) -> None:
    settings = DriverConfig(
        name="swarm",
        managers=f"unix://{cluster.manager.socket}",
        engines={node.name: f"unix://{node.engine.socket}" for node in cluster.nodes},
        stable_seconds=0.2,
        healthy_seconds=10.0,
        power_off_command="true",
        power_on_command="true",
    )
    replicas = 3 if name.endswith("of-three") else 1
    with web_service(cluster, replicas) as tasks:
        task = tasks[0]
        others = sorted({"node1", "node2", "node3"} - {str(task.node)})
        if name == "on":
            switched = ("--availability=drain", f"--label-add={DRAINED_LABEL}=active")
            cluster.manager.docker("node", "update", *switched, f"--label-add={OFF_LABEL}=true", "node3")
        try:
            async with (
                open_engines(settings) as engines,
                connect(settings.manager_addresses, settings) as manager,
            ):
                keeps_promises = name.startswith(("park", "start"))
                world = LabSwarm(cluster, manager, engines, settings, keeps_promises)
                waiting = await _park(world, task) if name.startswith("start") else ""
                action, fuse = action_on(name, task, others[1], "node3", waiting), Fuse(at, sent)
                before = world.spec()
                step = await interrupted(tmp_path, world, action, fuse, reports=not name.endswith("unseen"))
            assert fuse.is_dead
            check(world, before, tasks, action, step.state, step.containers)
        finally:
            _restore(cluster, "node3")


def check(  # noqa: PLR0913, PLR0917 - what was, and what is
    world: LabSwarm,
    before: Any,
    tasks: list[Task],
    action: Action,
    state: StepState,
    containers: tuple[str, ...],
) -> None:
    """Check that the service is as the journal says: changed, or as before."""
    is_done = state is StepState.VERIFIED
    assert is_done or state in {
        StepState.PLANNED,
        StepState.DROPPED,
        StepState.FAILED,
        StepState.UNDONE,
    }
    now = world.spec()
    parked = (isinstance(action, Kill) and is_done) or (isinstance(action, Start) and not is_done)
    assert (bool(parked_tasks(now)), BEFORE_LABEL in now["Labels"]) == (parked, parked)
    wanted = len(tasks)
    if isinstance(action, Scale) and is_done:
        wanted = action.replicas
    assert replicas_of(user_spec(now)) == wanted
    if not is_done:
        assert now == before
    # What was stopped by a constraint may start again only now; anything more would be doubled.
    eventually(lambda: len(world.running()) == wanted - parked, 20)
    real = {each.id for node in world.nodes for each in world.containers(node)}
    assert real == {task.container_id for task in world.running()}
    where = [str(task.node) for task in world.running()]
    if isinstance(action, Move):
        assert where == [action.target if is_done else action.node]
        assert not is_done or set(containers) == real
    if isinstance(action, Cut):
        [found] = world.containers(action.node)
        assert found.host_config["NanoCpus"] == (5 if is_done else 10) * 10**8
    is_off = (isinstance(action, PowerOff) and is_done) or (isinstance(action, PowerOn) and not is_done)
    node3 = world.node_spec("node3")
    labels = node3.get("Labels") or {}
    assert (node3["Availability"] == "drain", OFF_LABEL in labels) == (is_off, is_off)


async def _park(world: LabSwarm, task: Task) -> str:
    """Stop a task until its turn comes; return how it is called while it waits."""
    driver = world.driver(Fuse())
    stop = Kill(task=str(task.container_id), node=str(task.node), target=None, reasons=WHY)
    await driver.carry_out(stop)
    [waiting] = [each.id for each in (await driver.view()).pending]
    return waiting


def _restore(cluster: Swarm, name: str) -> None:
    """Make a node available again, without labels."""
    labels = cluster.manager.get(f"/nodes/{name}")["Spec"].get("Labels") or {}
    removed = [f"--label-rm={label}" for label in labels]
    cluster.manager.docker("node", "update", "--availability=active", *removed, name)
