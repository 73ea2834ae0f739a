"""A collector on the real Swarm of the lab that dies at a point of an action."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from tests.collector.act.drivers.interrupted import DyingEngine, Fuse, Point, dying_engines, interrupted
from tests.lab.engines.swarm import Swarm, Task
from tests.lab.interrupted.hosts import containers_of
from tests.lab.waiting import eventually
from wire.resources import Quantities

WHY = ("because",)


async def interrupt_on_swarm(cluster: Swarm, folder: Path, point: Point) -> None:
    """Kill the collector at a point; the service must have its replicas, and the journal be true."""
    name, fuse = point.action, point.fuse()
    settings = DriverConfig(
        name="swarm",
        managers=f"unix://{cluster.manager.socket}",
        engines={node.name: f"unix://{node.engine.socket}" for node in cluster.nodes},
        stable_seconds=0.2,
        healthy_seconds=10.0,
        power_off_command="true",
        power_on_command="true",
    )
    with web_service(cluster, 3 if name.endswith("of-three") else 1) as tasks:
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
                action = action_on(name, task, others[1], "node3", waiting)
                before = world.spec()
                step = await interrupted(folder, world, action, fuse, reports=point.reports)
            assert fuse.is_dead
            check(world, before, tasks, action, step.state, step.containers)
        finally:
            _restore(cluster, "node3")


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
