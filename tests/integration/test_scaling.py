"""Replicas and CPU limits of services, on a real Swarm of three nodes and on a plain engine."""

import asyncio
from typing import Any

import msgspec
import pytest

from collector.act.drivers.interface import DriverError
from collector.act.drivers.table import open_driver
from collector.config import DriverConfig as Settings
from collector.decide.policies.actions import Resize, Scale
from tests.integration.test_drivers import carry_out, look, release, running, service, spec, undo, wanted
from tests.lab.engines.swarm import Swarm
from tests.lab.waiting import eventually
from wire.resources import Quantities

pytestmark = pytest.mark.lab

WHY = ("because",)


@pytest.fixture
def settings(cluster: Swarm) -> Settings:
    return Settings(
        name="swarm",
        managers=f"unix://{cluster.manager.socket}",
        stable_seconds=0.5,
        healthy_seconds=20.0,
    )


def scale(name: str, before: int, after: int, *nodes: str) -> Scale:
    return Scale(service=name, replicas=after, replicas_before=before, nodes=nodes, reasons=WHY)


def resize(name: str, before: float | None, after: float) -> Resize:
    return Resize(service=name, cpu_limit_cores=after, cpu_limit_cores_before=before, reasons=WHY)


def containers(cluster: Swarm, name: str) -> tuple[str, ...]:
    return tuple(sorted(str(each.container_id) for each in running(cluster, name)))


def test_new_replicas_start_on_the_chosen_nodes_and_the_spec_is_kept(
    cluster: Swarm, settings: Settings
) -> None:
    with service(cluster, "wide", "sleep", "1000", node=None) as [task]:
        before = spec(cluster, "wide")
        free = sorted({"node1", "node2", "node3"} - {str(task.node)})
        more = scale("wide", 1, 2, free[1])
        done = carry_out(settings, more)
        assert done.what == f"scaled wide from 1 to 2 replicas, on {free[1]}"
        assert {each.node for each in running(cluster, "wide")} == {task.node, free[1]}
        assert done.containers == containers(cluster, "wide")
        assert task.container_id in done.containers, "the first task goes on"
        assert spec(cluster, "wide") == before | {"Mode": {"Replicated": {"Replicas": 2}}}

        again = carry_out(settings, more)
        assert (again.nothing_to_do, again.containers) == (True, done.containers)
        undo(settings, more, done)
        eventually(lambda: len(wanted(cluster, "wide")) == 1, 20)
        assert spec(cluster, "wide") == before


def test_a_service_is_scaled_to_nothing_and_back(cluster: Swarm, settings: Settings) -> None:
    with service(cluster, "optional", "sleep", "1000", replicas=2):
        done = carry_out(settings, scale("optional", 2, 0))
        assert (done.containers, running(cluster, "optional")) == ((), [])
        (seen,) = [each for each in look(settings).services if each.name == "optional"]
        assert seen.replicas == 0
        assert len(carry_out(settings, scale("optional", 0, 2)).containers) == 2


def test_replicas_that_do_not_start_are_removed(cluster: Swarm, settings: Settings) -> None:
    extra = ["--replicas-max-per-node=1"]
    with service(cluster, "narrow", "sleep", "1000", replicas=3, extra=extra):
        before, kept = spec(cluster, "narrow"), containers(cluster, "narrow")
        with pytest.raises(DriverError, match=r"narrow was not scaled to 4: no suitable node"):
            carry_out(settings, scale("narrow", 3, 4))
        eventually(lambda: len(wanted(cluster, "narrow")) == 3, 20)
        assert spec(cluster, "narrow") == before
        assert containers(cluster, "narrow") == kept


def test_another_limit_replaces_each_task_after_its_replacement_runs(
    cluster: Swarm, settings: Settings
) -> None:
    extra = ["--limit-cpu=1", "--limit-memory=64MB", "--update-parallelism=7"]
    with service(cluster, "sized", "sleep", "1000", replicas=2, extra=extra):
        before = spec(cluster, "sized")
        counts: list[int] = []

        async def act() -> Any:
            async with open_driver(settings) as driver:
                acting = asyncio.create_task(driver.carry_out(resize("sized", 1.0, 0.5)))
                while not acting.done():
                    counts.append(len(await asyncio.to_thread(running, cluster, "sized")))
                return await acting

        done = asyncio.run(act())
        assert min(counts) >= 2, "start-first"
        assert done.containers == containers(cluster, "sized")
        now = spec(cluster, "sized")
        assert now["TaskTemplate"]["Resources"]["Limits"].pop("NanoCPUs") == 500_000_000
        assert before["TaskTemplate"]["Resources"]["Limits"].pop("NanoCPUs") == 1_000_000_000
        assert now == before
        assert carry_out(settings, resize("sized", 1.0, 0.5)).containers == done.containers
        undo(settings, resize("sized", 1.0, 0.5), done)

        def is_back() -> bool:
            release(settings)
            limits = spec(cluster, "sized")["TaskTemplate"]["Resources"]["Limits"]
            return bool(
                limits["NanoCPUs"] == 1_000_000_000
                and "wattpack.before" not in spec(cluster, "sized")["Labels"]
            )

        eventually(is_back, 30)


def test_a_limit_below_the_reservation_is_rejected(cluster: Swarm, settings: Settings) -> None:
    with service(cluster, "reserved", "sleep", "1000", extra=["--reserve-cpu=0.5", "--limit-cpu=1"]):
        with pytest.raises(DriverError, match=r"reserves 0\.5 cores per task: lower the reservation"):
            carry_out(settings, resize("reserved", 1.0, 0.25))
        with pytest.raises(DriverError, match="there is no service nobody in the Swarm"):
            carry_out(settings, scale("nobody", 1, 2))


def test_an_action_of_a_killed_collector_is_completed_and_not_repeated(
    cluster: Swarm, settings: Settings
) -> None:
    # The new task takes longer to be healthy than the test needs to notice its start.
    slow = ("--health-cmd=true", "--health-interval=3s")

    async def killed(action: Scale) -> None:
        async with open_driver(settings) as driver:
            acting = asyncio.create_task(driver.carry_out(action))
            while "wattpack.before" not in spec(cluster, "cutoff")["Labels"]:  # noqa: ASYNC110 - another's state
                await asyncio.sleep(0.02)
            acting.cancel()
            await asyncio.gather(acting, return_exceptions=True)

    with service(cluster, "cutoff", "sleep", "1000", extra=slow) as [task]:
        before = spec(cluster, "cutoff")
        free = sorted({"node1", "node2", "node3"} - {str(task.node)})
        more = scale("cutoff", 1, 2, free[0])
        asyncio.run(killed(more))
        eventually(lambda: len(running(cluster, "cutoff")) == 2, 30)

        def is_released() -> bool:
            release(settings)
            return bool(spec(cluster, "cutoff")["Labels"] == before["Labels"])

        eventually(is_released, 20)
        assert carry_out(settings, more).nothing_to_do
        assert len(wanted(cluster, "cutoff")) == 2
        assert {each.node for each in running(cluster, "cutoff")} == {task.node, free[0]}


def test_a_single_container_is_resized_while_it_runs_and_cannot_be_scaled(
    cluster: Swarm, settings: Settings
) -> None:
    node = cluster.nodes[1]
    alone = node.engine.run("alone", "sleep", "1000")
    plain = msgspec.structs.replace(
        settings, name="docker", engines={each.name: f"unix://{each.engine.socket}" for each in cluster.nodes}
    )

    def limit() -> Quantities:
        (seen,) = [each for each in look(plain).services if each.name == "alone"]
        return seen.limit

    try:
        action = resize("alone", None, 0.5)
        done = carry_out(plain, action)
        assert (limit(), done.containers) == (Quantities(0.5), (alone,))
        undo(plain, action, done)
        assert limit() == Quantities()
        with pytest.raises(DriverError, match=r"alone cannot be scaled: it is a single container"):
            carry_out(plain, scale("alone", 1, 2))
        with pytest.raises(DriverError, match="no running container is called nobody"):
            carry_out(plain, resize("nobody", None, 0.5))
    finally:
        node.engine.remove(alone)
