"""Tasks of a real Swarm that are stopped for more urgent ones; none is lost when a collector is killed."""

import signal

import pytest

from bench.slo.swarm import (
    AGENTS,
    NODE_CORES,
    SETTINGS,
    UptimeSampler,
    create,
    marked_services,
    parked_services,
    running_services,
)
from bench.swarm.cluster import cluster as watched_cluster
from collector.act.drivers.interface import DriverError
from collector.config import DriverConfig as Settings
from collector.decide.policies.actions import Kill, Start
from tests.integration.test_drivers import (
    carry_out,
    look,
    release,
    running,
    service,
    settings,
    spec,
    undo,
    wanted,
)
from tests.lab.engines.swarm import Swarm, Task
from tests.lab.waiting import eventually

__all__ = ["settings"]

pytestmark = pytest.mark.lab

WHY = ("because",)
MOVABLE = {"wattpack.move": "allowed", "own": "label"}


def stop(task: Task) -> Kill:
    assert task.container_id is not None
    assert task.node is not None
    return Kill(task=task.container_id, node=task.node, target=None, reasons=WHY)


def is_updating(cluster: Swarm, name: str) -> bool:
    """Whether the last update of a service is still in progress."""
    service = cluster.manager.get(f"/services/{name}")
    return bool(service.get("UpdateStatus", {}).get("State") == "updating")


def waiting(settings: Settings, name: str) -> str:
    """Return the id of the only waiting task of a service."""
    (found,) = [each.id for each in look(settings).pending if each.service == name]
    return found


def test_one_replica_is_pending_while_it_is_parked_and_starts_where_it_should(
    cluster: Swarm, settings: Settings
) -> None:
    extra = ("--constraint=node.role==worker", "--update-parallelism=7", "--reserve-cpu=0.5")
    with service(cluster, "single", "sleep", "1000", labels=MOVABLE, extra=extra) as [task]:
        (other,) = {"node2", "node3"} - {str(task.node)}
        before = spec(cluster, "single")
        assert (
            carry_out(settings, stop(task)).what
            == f"stopped a task of single on {task.node}: it waits for its turn"
        )
        assert running(cluster, "single") == []
        [pending] = wanted(cluster, "single")
        assert (pending.state, pending.id) == ("pending", waiting(settings, "single"))
        (view,) = [each for each in look(settings).services if each.name == "single"]
        assert (view.constraints, view.labels) == (("node.role==worker",), MOVABLE)

        done = carry_out(settings, Start(task=pending.id, target=other, reasons=WHY))
        [now] = running(cluster, "single")
        assert (now.node, (now.container_id,)) == (other, done.containers)
        assert spec(cluster, "single") == before
        assert [each.id for each in wanted(cluster, "single")] == [now.id]


def test_a_parked_service_runs_again_when_it_is_released_or_the_stop_is_undone(
    cluster: Swarm, settings: Settings
) -> None:
    with service(cluster, "returned", "sleep", "1000", labels=MOVABLE) as [task]:
        before = spec(cluster, "returned")
        carry_out(settings, stop(task))
        # Another collector recognises it by its labels.
        assert release(settings) == ("unparked returned: Swarm starts it as soon as it fits",)
        assert spec(cluster, "returned") == before
        eventually(lambda: not is_updating(cluster, "returned"), 30)
        [again] = eventually(lambda: running(cluster, "returned"), 30)
        action = stop(again)
        undo(settings, action, carry_out(settings, action))
        assert spec(cluster, "returned") == before
        eventually(lambda: running(cluster, "returned"), 30)


def test_only_the_chosen_replica_is_stopped_and_no_other_restarts(cluster: Swarm, settings: Settings) -> None:
    with service(cluster, "larger", "sleep", "1000", replicas=3) as tasks:
        before = spec(cluster, "larger")
        assert {task.node for task in tasks} == {"node1", "node2", "node3"}
        (victim,) = [task for task in tasks if task.node == "node2"]
        others = {task.container_id for task in tasks} - {victim.container_id}
        carry_out(settings, stop(victim))
        assert {task.container_id for task in running(cluster, "larger")} == others
        missing = waiting(settings, "larger")

        # The next one waits too.
        (second,) = [task for task in tasks if task.node == "node3"]
        carry_out(settings, stop(second))
        assert len([each for each in look(settings).pending if each.service == "larger"]) == 2
        (left,) = others - {second.container_id}
        assert [task.container_id for task in running(cluster, "larger")] == [left]

        [started] = carry_out(settings, Start(task=missing, target="node2", reasons=WHY)).containers
        now = {task.container_id: task.node for task in running(cluster, "larger")}
        assert now == {left: "node1", started: "node2"}
        rest = waiting(settings, "larger")
        carry_out(settings, Start(task=rest, target="node3", reasons=WHY))
        assert sorted(str(task.node) for task in running(cluster, "larger")) == ["node1", "node2", "node3"]
        assert {left, started} < {task.container_id for task in running(cluster, "larger")}
        assert spec(cluster, "larger") == before


def test_a_task_without_room_keeps_waiting(cluster: Swarm, settings: Settings) -> None:
    cores = cluster.manager.get("/info")["NCPU"]
    whole = (f"--reserve-cpu={0.9 * cores}",)
    with (
        service(cluster, "first", "sleep", "1000", labels=MOVABLE, extra=whole) as [task],
        service(cluster, "second", "sleep", "1000", labels=MOVABLE, extra=whole),
        service(cluster, "third", "sleep", "1000", labels=MOVABLE, extra=whole),
    ):
        carry_out(settings, stop(task))
        with service(cluster, "urgent", "sleep", "1000", extra=whole) as [urgent]:
            assert urgent.node == task.node, "Swarm gives it the room that was made"
            with pytest.raises(DriverError, match=r"first did not start on .*: no suitable node"):
                carry_out(
                    settings, Start(task=waiting(settings, "first"), target=str(task.node), reasons=WHY)
                )
            assert "wattpack.parked" in spec(cluster, "first")["Labels"]
        eventually(lambda: not wanted_or_missing(cluster, "urgent"), 30)
        carry_out(settings, Start(task=waiting(settings, "first"), target=str(task.node), reasons=WHY))
        assert [each.node for each in running(cluster, "first")] == [task.node]


def wanted_or_missing(cluster: Swarm, name: str) -> list[Task]:
    """Return the tasks of a service, which may have been removed."""
    services = {each["Spec"]["Name"] for each in cluster.manager.get("/services")}
    return wanted(cluster, name) if name in services else []


def test_no_parked_service_is_forgotten_when_the_collector_is_killed(cluster: Swarm) -> None:
    """Six slots for eight services: some wait, and all run when there is room."""
    with watched_cluster(cores=NODE_CORES, nodes=cluster) as nodes, UptimeSampler(nodes) as sampler:
        collector = nodes.collector(SETTINGS)
        nodes.watch(collector, AGENTS)
        names = create(nodes, sampler, {"bronze": 8})
        eventually(lambda: len(running_services(nodes) & {*names}) == 6, 30)
        eventually(lambda: parked_services(nodes), 75)
        collector.process.end(signal.SIGKILL)
        assert parked_services(nodes), "nobody has handed it back"
        nodes.collector(SETTINGS)
        parked = sorted(parked_services(nodes))
        leaving = [name for name in names if name not in parked][:2]
        nodes.remove(*leaving)
        rest = {*names} - {*leaving}
        eventually(lambda: rest <= running_services(nodes) and not marked_services(nodes), 60)
