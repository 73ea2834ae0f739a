"""Changes of replicas and limits through a fake manager; the lab shows them on a real Swarm."""

from pathlib import Path
from typing import Any

import pytest

from collector.act.drivers.interface import DriverError
from collector.act.drivers.table import open_driver
from collector.common.labels import BEFORE_LABEL
from collector.decide.policies.actions import Resize, Scale
from collector.features.swarm.specs import constraints_of, cpu_limit_of, replicas_of
from tests.collector.features.swarm.test_moves import Fake, task

pytest.importorskip("docker", reason="the extra docker is not installed: run ./dev setup")

WHY = ("because",)
MORE = Scale(service="web", replicas=2, replicas_before=1, nodes=("b",), reasons=WHY)
LESS_CPU = Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=None, reasons=WHY)
FULL = "no suitable node (insufficient resources on 1 node)"


def limited(described: dict[str, Any], cores: float) -> dict[str, Any]:
    return {**described, "Spec": {"Resources": {"Limits": {"NanoCPUs": round(cores * 1e9)}}}}


async def test_replicas_are_added_on_the_chosen_nodes_and_removed_again(tmp_path: Path) -> None:
    fake = Fake([[task(0, "a")], [task(0, "a"), task(1, "b", slot=2)]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        done = await driver.carry_out(MORE)
        assert (done.what, done.containers) == ("scaled web from 1 to 2 replicas, on b", ("c0", "c1"))
        constrained, freed = fake.updates
        assert (constraints_of(constrained), replicas_of(constrained)) == (
            ["node.role==worker", "node.id!=id-c"],
            2,
        )
        assert (constraints_of(freed), replicas_of(freed)) == (["node.role==worker"], 2)
        fake.update_state = "rollback_completed"  # of an earlier update
        assert (await driver.carry_out(MORE)).nothing_to_do
        await driver.undo(MORE, done)
    assert fake.spec == fake.written


async def test_replicas_that_find_no_place_are_taken_back(tmp_path: Path) -> None:
    fake = Fake([[task(0, "a")], [task(0, "a"), task(1, "", "pending", err=FULL)]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match=r"web was not scaled to 2: no suitable node"):
            await driver.carry_out(MORE)
    assert fake.spec == fake.written


async def test_fewer_replicas_wait_until_the_others_have_ended(tmp_path: Path) -> None:
    fake = Fake([[task(0, "a"), task(1, "b")], [task(0, "a"), task(1, "b", wanted=False)]])
    fake.spec["Mode"] = {"Replicated": {"Replicas": 2}}
    fake.spec["TaskTemplate"]["ContainerSpec"] = {"StopGracePeriod": 1}
    fewer = Scale(service="web", replicas=1, replicas_before=2, reasons=WHY)
    async with (
        fake.serving(tmp_path / "it", healthy_seconds=1.0) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(DriverError, match="web was not scaled to 1: it is still running, after 1 s"):
            await driver.carry_out(fewer)
        fake.scenes = [[task(0, "a"), task(1, "b", "shutdown", wanted=False)]]
        assert (await driver.carry_out(fewer)).containers == ("c0",)


async def test_another_limit_replaces_every_task(tmp_path: Path) -> None:
    replaced = [task(0, "a", "shutdown", wanted=False), limited(task(1, "a"), 0.5)]
    fake = Fake([[task(0, "a")], replaced])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        done = await driver.carry_out(LESS_CPU)
        assert (done.what, done.containers) == ("limited each task of web to 0.5 cores", ("c1",))
        assert cpu_limit_of(fake.spec) == 500_000_000
        assert BEFORE_LABEL not in fake.spec["Labels"]
        await driver.undo(LESS_CPU, done)
    assert cpu_limit_of(fake.spec) == 0


async def test_a_limit_with_which_a_task_fails_is_taken_back(tmp_path: Path) -> None:
    failed = limited(task(1, "a", "failed", wanted=False, err="task: non-zero exit (1)"), 0.5)
    fake = Fake([[task(0, "a")], [task(0, "a"), failed]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match=r"web keeps its CPU limit: task: non-zero exit \(1\)"):
            await driver.carry_out(LESS_CPU)
    assert cpu_limit_of(fake.spec) == 0


@pytest.mark.parametrize("mode", [{"Global": {}}, {"ReplicatedJob": {}}])
async def test_global_services_and_jobs_are_not_scaled(tmp_path: Path, mode: dict[str, Any]) -> None:
    fake = Fake([[task(0, "a")]])
    fake.spec["Mode"] = mode
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match="web cannot be changed: it is a job, or runs on every node"):
            await driver.carry_out(MORE)
