"""Actions on a real Swarm of three nodes and on its engines."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.act.drivers.interface import ActionResult, DriverError
from collector.act.drivers.table import open_driver
from collector.common.labels import COPY_LABEL
from collector.common.orchestrator import OrchestratorState
from collector.config import DriverConfig as Settings
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, Start
from tests.lab.engines.image import BURN
from tests.lab.engines.swarm import Swarm, Task
from tests.lab.waiting import eventually
from wire.resources import Quantities

pytestmark = pytest.mark.lab

WHY = ("because",)
PORT = 8099


@pytest.fixture
def settings(cluster: Swarm) -> Settings:
    return Settings(
        name="swarm",
        # The first manager does not respond, so the next one is used.
        managers=f"unix:///nowhere/docker.sock, unix://{cluster.manager.socket}",
        engines={node.name: f"unix://{node.engine.socket}" for node in cluster.nodes},
        stable_seconds=1.0,
        healthy_seconds=20.0,
    )


def carry_out(settings: Settings, action: Action) -> ActionResult:
    async def act() -> ActionResult:
        async with open_driver(settings) as driver:
            return await driver.carry_out(action)

    return asyncio.run(act())


def undo(settings: Settings, action: Action, done: ActionResult) -> None:
    async def act() -> None:
        async with open_driver(settings) as driver:
            await driver.undo(action, done)

    asyncio.run(act())


def release(settings: Settings) -> tuple[str, ...]:
    async def act() -> tuple[str, ...]:
        async with open_driver(settings) as driver:
            return await driver.release()

    return asyncio.run(act())


def look(settings: Settings) -> OrchestratorState:
    async def act() -> OrchestratorState:
        async with open_driver(settings) as driver:
            return await driver.view()

    return asyncio.run(act())


def node_states(settings: Settings) -> list[tuple[str, bool, bool, int]]:
    return [(each.name, each.ready, each.accepts, len(each.labels)) for each in look(settings).nodes]


def spec(cluster: Swarm, service: str) -> Any:
    return cluster.manager.get(f"/services/{service}")["Spec"]


def running(cluster: Swarm, service: str) -> list[Task]:
    return [task for task in cluster.tasks(service) if task.state == "running"]


def wanted(cluster: Swarm, service: str) -> list[Task]:
    return [task for task in cluster.tasks(service) if task.desired_state == "running"]


def move(task: Task, target: str) -> Move:
    assert task.container_id is not None
    assert task.node is not None
    return Move(task=task.container_id, node=task.node, target=target, reasons=WHY)


@contextmanager
def service(cluster: Swarm, name: str, *command: str, **options: Any) -> Iterator[list[Task]]:
    """Run a service; yields its tasks."""
    cluster.create_service(name, *command, **options)
    try:

        def all_run() -> list[Task]:
            tasks = running(cluster, name)
            return tasks if len(tasks) == options.get("replicas", 1) else []

        yield eventually(all_run, 30)
    finally:
        cluster.remove_service(name)


def test_one_replica_moves_and_its_spec_is_kept(cluster: Swarm, settings: Settings) -> None:
    options = (
        *("--constraint=node.role==worker", "--constraint=node.hostname!=node9"),
        *("--update-parallelism=7", "--env=A=b", "--limit-cpu=0.5", "--reserve-memory=16MB"),
    )
    labels = {"wattpack.move": "allowed", "own": "label"}
    with service(cluster, "single", "sleep", "1000", labels=labels, extra=options) as [task]:
        (other,) = {"node2", "node3"} - {str(task.node)}
        before = spec(cluster, "single")
        action = move(task, other)
        done = carry_out(settings, action)
        [now] = running(cluster, "single")
        assert (now.node, (now.container_id,)) == (other, done.containers)
        assert done.what == f"moved a task of single from {task.node} to {other}, start-first"
        assert spec(cluster, "single") == before

        # Removing a constraint restarts no task, and repeating the request changes nothing.
        assert carry_out(settings, action).nothing_to_do
        undo(settings, action, done)
        [again] = running(cluster, "single")
        assert again.node == task.node
        assert spec(cluster, "single") == before

        (view,) = [each for each in look(settings).services if each.name == "single"]
        assert view.stays is None
        assert view.constraints == ("node.role==worker", "node.hostname!=node9")
        assert (view.limit, view.reserve) == (Quantities(0.5), Quantities(None, 16 << 20))


class Balancer(threading.Thread):
    """Sends requests to the running replicas that Swarm wants to run, as its own load balancers do."""

    def __init__(self, cluster: Swarm, name: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._name = name
        self._over = threading.Event()
        self.answers: list[str] = []
        self.failures: list[str] = []

    def run(self) -> None:
        while not self._over.is_set():
            backends = [
                task for task in running(self._cluster, self._name) if task.desired_state == "running"
            ]
            for task in backends:
                address = self._cluster.node(str(task.node)).address
                try:
                    with urllib.request.urlopen(f"http://{address}:{PORT}/", timeout=5) as answer:
                        self.answers.append(f"{task.node} {answer.status}")
                except OSError as error:
                    self.failures.append(f"{task.node}: {error}")

    def end(self) -> None:
        self._over.set()
        self.join()


HTTPD = ("sh", "-c", f"mkdir /w && echo hello >/w/index.html && exec httpd -f -p {PORT} -h /w")
CHECKED = (
    f"--health-cmd=wget -q -O /dev/null http://127.0.0.1:{PORT}/",
    *("--health-interval=300ms", "--health-timeout=2s", "--health-retries=10"),
)


def test_a_web_service_under_load_moves_without_a_failed_request_and_only_the_one_replica(
    cluster: Swarm, settings: Settings
) -> None:
    extra = (*CHECKED, "--replicas-max-per-node=1")
    with service(cluster, "web", *HTTPD, replicas=2, extra=extra) as tasks:
        first, second = sorted(tasks, key=lambda task: str(task.node))
        (free,) = {"node1", "node2", "node3"} - {str(task.node) for task in tasks}
        load = Balancer(cluster, "web")
        load.start()
        try:
            eventually(lambda: len(load.answers) > 20, 20)
            carry_out(settings, move(first, free))
            at = len(load.answers)
            eventually(lambda: len(load.answers) > at + 20, 20)
        finally:
            load.end()
        assert load.failures == []
        assert {answer.split()[0] for answer in load.answers[at:]} == {free, second.node}
        assert {task.container_id for task in running(cluster, "web")} & {
            second.container_id,
            first.container_id,
        } == {second.container_id}


def picky(flags: Path, retries: int) -> dict[str, Any]:
    """Options of a service that becomes unhealthy on nodes whose name is a file in this folder."""
    return {
        "labels": {"wattpack.move": "allowed"},
        "extra": (
            *("--constraint=node.role==worker", "--hostname={{.Node.Hostname}}"),
            f"--mount=type=bind,source={flags},target=/flags,readonly",
            *("--health-cmd=test ! -e /flags/$(hostname)", "--health-interval=500ms"),
            f"--health-retries={retries}",
        ),
    }


def test_a_move_to_an_unhealthy_task_is_undone(cluster: Swarm, settings: Settings, tmp_path: Path) -> None:
    with service(cluster, "picky", "sleep", "1000", **picky(tmp_path, 2)) as [task]:
        (other,) = {"node2", "node3"} - {str(task.node)}
        (tmp_path / other).touch()
        before = spec(cluster, "picky")
        with pytest.raises(
            DriverError, match=rf"picky did not become healthy on {other} .*; rolled back, and"
        ):
            carry_out(settings, move(task, other))
        assert [each.container_id for each in running(cluster, "picky")] == [task.container_id]
        assert spec(cluster, "picky") == before


def test_services_that_may_not_move_stay(cluster: Swarm, settings: Settings, tmp_path: Path) -> None:
    bind = f"--mount=type=bind,source={tmp_path},target=/data"
    kinds: dict[str, tuple[dict[str, Any], str]] = {
        "pinned": (
            {"node": "node2", "labels": {"wattpack.move": "allowed"}},
            "its constraint pins it to node2",
        ),
        "single": ({}, "it has one replica and no label wattpack.move=allowed"),
        "stores": (
            {"replicas": 2, "extra": ["--mount=type=volume,source=kept,target=/data"]},
            "it uses the local volume kept, which stays behind and no label wattpack.move=allowed",
        ),
        "binds": (
            {"replicas": 2, "extra": [bind]},
            f"it uses the directory {tmp_path}, which stays behind and no label wattpack.move=allowed",
        ),
        "never": (
            {"replicas": 2, "labels": {"wattpack.move": "never"}},
            "its label wattpack.move is never",
        ),
    }
    for name, (options, _) in kinds.items():
        cluster.create_service(name, "sleep", "1000", **options)
    cluster.manager.docker(
        *("service", "create", "--detach", "--name=everywhere", "--mode=global", "--network=host"),
        *("--no-resolve-image", "--stop-grace-period=1s", "lab:latest", "sleep", "1000"),
    )
    try:
        reasons = {name: reason for name, (_, reason) in kinds.items()} | {
            "everywhere": "it runs on every node"
        }
        before = {name: eventually(partial(running, cluster, name), 30) for name in reasons}
        assert {each.name: each.stays for each in look(settings).services if each.name in reasons} == reasons
        for name, reason in reasons.items():
            task = before[name][0]
            (target, *_) = {"node1", "node2", "node3"} - {str(task.node)}
            with pytest.raises(DriverError) as caught:
                carry_out(settings, move(task, target))
            assert str(caught.value) == f"{name} cannot move: {reason}"
            assert before[name][0].container_id in {each.container_id for each in running(cluster, name)}
    finally:
        for name in reasons:
            cluster.remove_service(name)


def test_a_node_is_drained_and_switched_off_and_comes_back(
    cluster: Swarm, settings: Settings, tmp_path: Path
) -> None:
    hook = tmp_path / "power"
    hook.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n', encoding="utf-8")
    hook.chmod(0o755)
    commands = {"power_off_command": f"{hook} off", "power_on_command": f"{hook} on"}
    switching = msgspec.structs.replace(settings, **commands)
    node = cluster.node("node3")
    with service(cluster, "spread", "sleep", "1000", replicas=3, extra=["--restart-delay=0s"]) as tasks:
        assert "node3" in {task.node for task in tasks}
        off = PowerOff(node="node3", reasons=WHY)
        before = sorted(node_states(switching))
        stranger = node.engine.run("stranger", "sleep", "1000")
        with pytest.raises(DriverError, match=r"node3 stays on: it runs containers .*: stranger"):
            carry_out(switching, off)
        node.engine.remove(stranger)
        with pytest.raises(DriverError, match="power_off_command"):
            carry_out(settings, off)
        with pytest.raises(DriverError, match="node1 stays on: it is a manager"):
            carry_out(switching, PowerOff(node="node1", reasons=WHY))

        done = carry_out(switching, off)
        assert (tmp_path / "calls").read_text(encoding="utf-8") == "off -- node3\n"
        assert {task.node for task in running(cluster, "spread")} == {"node1", "node2"}
        assert len(running(cluster, "spread")) == 3
        (seen,) = [each for each in look(switching).nodes if each.name == "node3"]
        assert not seen.accepts

        # The hook does nothing, so the node still runs; it counts as off nevertheless.
        assert carry_out(switching, off).nothing_to_do
        assert release(switching) == ()
        undo(switching, off, done)
        assert (tmp_path / "calls").read_text(encoding="utf-8") == "off -- node3\non -- node3\n"
        (seen,) = [each for each in look(switching).nodes if each.name == "node3"]
        assert seen.accepts
        assert not any(label.startswith("wattpack") for label in seen.labels)

        # After a failed or incomplete action, the node accepts tasks.
        with pytest.raises(DriverError, match="false -- node3 failed with exit code 1"):
            carry_out(msgspec.structs.replace(switching, power_off_command="false"), off)
        assert sorted(node_states(switching)) == before
        half = ("--availability=drain", "--label-add=wattpack.drained=active")
        cluster.manager.docker("node", "update", *half, "node3")
        assert release(switching) == ("activated node3, which was drained but not switched off",)
        assert sorted(node_states(switching)) == before


def test_a_service_with_a_daemon_label_does_not_keep_its_node_on(cluster: Swarm, settings: Settings) -> None:
    commands = {"power_off_command": "true", "power_on_command": "true"}
    switching = msgspec.structs.replace(settings, **commands)
    daemon = {"wattpack.kind": "daemon"}
    node = cluster.node("node3")
    stranger = node.engine.run("stranger", "sleep", "1000", labels=daemon)
    others = ("node1", "node2")
    for other in others:
        cluster.manager.docker("node", "update", "--availability=pause", other)
    # One replica without wattpack.move=allowed would keep the node on.
    with service(cluster, "lonely", "sleep", "1000", labels=daemon):
        for other in others:
            cluster.manager.docker("node", "update", "--availability=active", other)
        (view,) = [each for each in look(switching).services if each.name == "lonely"]
        assert view.labels == daemon
        off = PowerOff(node="node3", reasons=WHY)
        done = carry_out(switching, off)
        assert done.what == "drained node3 and switched it off"
        undo(switching, off, done)
    node.engine.remove(stranger)


def test_the_limits_of_a_running_container_are_cut_and_restored(cluster: Swarm, settings: Settings) -> None:
    extra = ["--limit-cpu=1", "--limit-memory=64MB"]
    with service(cluster, "cuttable", *BURN, node="node2", extra=extra) as [task]:
        engine = cluster.node("node2").engine
        assert task.container_id is not None

        def limits() -> tuple[int, int]:
            host = engine.inspect(str(task.container_id))["HostConfig"]
            return host["NanoCpus"], host["Memory"]

        assert limits() == (1_000_000_000, 64 << 20)
        less = Cut(task=task.container_id, node="node2", allocated=Quantities(0.25, 32 << 20), reasons=WHY)
        done = carry_out(settings, less)
        assert limits() == (250_000_000, 32 << 20)
        assert carry_out(settings, less).nothing_to_do
        too_little = Cut(task=task.container_id, node="node2", allocated=Quantities(None, 10), reasons=WHY)
        with pytest.raises(DriverError, match="would kill it"):
            carry_out(settings, too_little)
        undo(settings, less, done)
        assert limits() == (1_000_000_000, 64 << 20)
        assert [each.container_id for each in wanted(cluster, "cuttable")] == [task.container_id]


def test_changes_that_a_killed_collector_left_are_undone(cluster: Swarm, settings: Settings) -> None:
    async def killed(action: Move) -> None:
        async with open_driver(settings) as driver:
            moving = asyncio.create_task(driver.carry_out(action))
            while "wattpack.before" not in spec(cluster, "orphan")["Labels"]:  # noqa: ASYNC110 - another's state
                await asyncio.sleep(0.02)
            moving.cancel()
            await asyncio.gather(moving, return_exceptions=True)

    # The move takes longer than the test needs to notice its start.
    slow, labels = ("--health-cmd=true", "--health-interval=3s"), {"wattpack.move": "allowed"}
    with service(cluster, "orphan", "sleep", "1000", labels=labels, extra=slow) as [task]:
        before = spec(cluster, "orphan")
        (target, *_) = sorted({"node1", "node2", "node3"} - {str(task.node)})
        asyncio.run(killed(move(task, target)))
        cluster.wait_until_runs("orphan", on=target)  # Swarm goes on by itself
        released: list[str] = []

        def is_released() -> bool:
            released.extend(release(settings))
            return bool(spec(cluster, "orphan") == before)

        eventually(is_released, 20)
        assert released == ["removed the constraints that a move left on orphan"]
        assert [each.node for each in running(cluster, "orphan")] == [target]


def test_a_dry_run_sends_nothing_to_the_engine(cluster: Swarm, settings: Settings) -> None:
    with service(cluster, "watched", "sleep", "1000", labels={"wattpack.move": "allowed"}) as [task]:
        since = cluster.manager.get("/info")["SystemTime"]
        dry = Settings(managers=settings.managers, engines=settings.engines, power_off_command="false")
        assert task.container_id is not None
        actions: tuple[Action, ...] = (
            move(task, "node1"),
            Cut(task=task.container_id, node=str(task.node), allocated=Quantities(0.1), reasons=WHY),
            Kill(task=task.container_id, node=str(task.node), target=None, reasons=WHY),
            PowerOff(node="node3", reasons=WHY),
        )
        for action in actions:
            carry_out(dry, action)
        for node in cluster.nodes:
            until = node.engine.get("/info")["SystemTime"]
            events = node.engine.docker(
                "events", f"--since={since}", f"--until={until}", "--format={{json .}}"
            ).splitlines()
            happened = [json.loads(line) for line in events]
            assert [
                each for each in happened if each["Type"] != "container" or each["Action"] != "exec_die"
            ] == []


def test_a_container_with_permission_is_recreated_on_another_host_and_back(
    cluster: Swarm, settings: Settings
) -> None:
    here, there = cluster.node("node2").engine, cluster.node("node3").engine
    plain = msgspec.structs.replace(settings, name="docker")
    leave = {"wattpack.move": "allowed"}
    container = here.run(
        "lone", "sleep", "1000", cpus=0.5, labels=leave, extra=["--env=A=b", "--stop-timeout=1"]
    )
    try:
        action = Move(task=container, node="node2", target="node3", reasons=WHY)
        done = carry_out(plain, action)
        [made] = done.containers
        new = there.inspect("lone")
        assert (new["Id"], new["State"]["Status"]) == (made, "running")
        assert new["Config"]["Labels"].pop(COPY_LABEL)
        assert (new["HostConfig"]["NanoCpus"], new["Config"]["Labels"]) == (500_000_000, leave)
        assert "A=b" in new["Config"]["Env"]
        assert "lone" not in here.docker("ps", "--all", "--format={{.Names}}").split()
        seen = look(plain)
        assert {each.name: each.ready for each in seen.nodes} == {"node1": True, "node2": True, "node3": True}
        assert [(each.container, each.node) for each in seen.tasks if each.service == "lone"] == [
            (made, "node3")
        ]

        undo(plain, action, done)
        back = here.inspect("lone")
        assert back["State"]["Status"] == "running"

        # A container that was stopped to make room is still listed, and is recreated where there is room.
        carry_out(plain, Kill(task=back["Id"], node="node2", target=None, reasons=WHY))
        assert here.inspect("lone")["State"]["Status"] == "exited"
        [restarted] = carry_out(plain, Start(task=back["Id"], target="node3", reasons=WHY)).containers
        assert there.inspect("lone")["Id"] == restarted
        there.remove("lone")

        # A container that fails on the target is not removed from the source.
        container = here.run("lone", "sh", "-c", "test -e /proc/1 && exit 1", labels=leave)
        with pytest.raises(DriverError, match="stopped or is unhealthy"):
            carry_out(plain, Move(task=container, node="node2", target="node3", reasons=WHY))
        assert here.inspect("lone")["Id"] == container
        assert "lone" not in there.docker("ps", "--all", "--format={{.Names}}").split()
    finally:
        for engine in (here, there):
            if "lone" in engine.docker("ps", "--all", "--format={{.Names}}").split():
                engine.remove("lone")


def test_a_container_with_rights_on_its_host_stays(cluster: Swarm, settings: Settings) -> None:
    here, there = cluster.node("node2").engine, cluster.node("node3").engine
    plain = msgspec.structs.replace(settings, name="docker")
    options = ["--cap-add=CHOWN", "--stop-timeout=1"]
    container = here.run("mighty", "sleep", "1000", labels={"wattpack.move": "allowed"}, extra=options)
    try:
        (view,) = [each for each in look(plain).services if each.name == "mighty"]
        assert view.stays == "it uses CapAdd = ['CHOWN'], which may not move to another host"
        with pytest.raises(DriverError, match="which may not move to another host"):
            carry_out(plain, Move(task=container, node="node2", target="node3", reasons=WHY))
        assert "mighty" not in there.docker("ps", "--all", "--format={{.Names}}").split()
    finally:
        here.remove("mighty")


def test_a_container_without_limits_is_cut_and_restored(cluster: Swarm, settings: Settings) -> None:
    engine = cluster.node("node2").engine
    container = engine.run("free", "sleep", "1000")
    try:
        less = Cut(task=container, node="node2", allocated=Quantities(0.25, 32 << 20), reasons=WHY)
        done = carry_out(settings, less)
        host = engine.inspect("free")["HostConfig"]
        assert (host["CpuQuota"] / host["CpuPeriod"], host["Memory"]) == (0.25, 32 << 20)
        undo(settings, less, done)
        group = engine.cgroup(container, "cpu")
        limits = [group / "cpu.cfs_quota_us", group / "cpu.max"]
        assert [
            path.read_text(encoding="ascii").split()[0] in {"-1", "max"} for path in limits if path.exists()
        ] == [True]
        assert engine.inspect("free")["HostConfig"]["Memory"] == engine.get("/info")["MemTotal"]
    finally:
        engine.remove("free")


def test_the_service_stays_if_the_target_goes_down_during_the_move(
    cluster: Swarm, settings: Settings, tmp_path: Path
) -> None:
    with service(cluster, "stranded", "sleep", "1000", **picky(tmp_path, 100)) as [task]:
        (other,) = {"node2", "node3"} - {str(task.node)}
        (tmp_path / other).touch()  # so that it is on its way until the node goes down
        before = spec(cluster, "stranded")

        async def cut_off_on_the_way() -> None:
            async with open_driver(settings) as driver:
                moving = asyncio.create_task(driver.carry_out(move(task, other)))
                while not any(each.state == "starting" for each in cluster.tasks("stranded")):  # noqa: ASYNC110 - another's state
                    await asyncio.sleep(0.05)
                cluster.cut(cluster.node(other))
                await moving

        try:
            with pytest.raises(
                DriverError, match=rf"on {other} \(the node went down\); rolled back, and it runs"
            ):
                asyncio.run(cut_off_on_the_way())
        finally:
            cluster.heal(cluster.node(other))
        assert [each.container_id for each in wanted(cluster, "stranded")] == [task.container_id]
        assert spec(cluster, "stranded") == before
        cluster.wait_for_node(other, "ready")
