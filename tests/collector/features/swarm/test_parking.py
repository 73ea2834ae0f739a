"""Stops and starts that go wrong as no real Swarm shows on demand; the lab shows those that go right."""

from pathlib import Path
from typing import Any

import pytest

from collector.act.drivers.interface import DriverError
from collector.act.drivers.table import open_driver
from collector.common.labels import PARKED_LABEL
from collector.decide.policies.actions import Kill, Start
from collector.features.swarm.specs import NO_NODE, constraints_of, parked_tasks, replicas_of
from tests.collector.features.swarm.test_moves import Fake, task

pytest.importorskip("docker", reason="the extra docker is not installed: run ./dev setup")

WHY = ("because",)
STOP = Kill(task="c0", node="a", target=None, reasons=WHY)
FULL = "no suitable node (insufficient resources on 1 node)"
ENDED = task(0, "a", "shutdown", wanted=False)
PENDING = task(1, "", "pending", err="no suitable node (scheduling constraints not satisfied on 3 nodes)")


def start(waiting: str = "t1", target: str = "b") -> Start:
    return Start(task=waiting, target=target, reasons=WHY)


def larger(fake: Fake, replicas: int) -> Fake:
    fake.spec["Mode"]["Replicated"]["Replicas"] = replicas
    fake.__post_init__()
    return fake


async def test_a_single_replica_is_parked_by_an_unmet_constraint_and_starts_on_the_target(
    tmp_path: Path,
) -> None:
    fake = Fake([[task(0, "a")], [ENDED, PENDING], [ENDED, PENDING, task(2, "b")], [task(2, "b")]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        done = await driver.carry_out(STOP)
        assert done.what == "stopped a task of web on a: it waits for its turn"
        assert constraints_of(fake.spec) == ["node.role==worker", NO_NODE]
        assert fake.spec["Labels"][PARKED_LABEL] == "a"
        assert fake.spec["UpdateConfig"]["Order"] == "stop-first"
        assert await driver.release(keep_parked=True) == ()
        state = await driver.view()
        (view,) = state.services
        assert (view.constraints, view.labels) == (("node.role==worker",), {"wattpack.move": "allowed"})
        assert [(each.id, each.stopped_on) for each in state.pending] == [("t1", "a")]
        started = await driver.carry_out(start())
    assert (started.what, started.containers) == ("started a task of web on b", ("c2",))
    _, with_constraints, without_constraints = fake.updates
    assert constraints_of(with_constraints) == ["node.role==worker", "node.id==id-b"]
    assert without_constraints == fake.written


async def test_any_collector_finds_a_parked_service_and_releases_it(
    tmp_path: Path,
) -> None:
    fake = Fake([[task(0, "a")], [ENDED, PENDING]])
    async with fake.serving(tmp_path / "it") as settings:
        async with open_driver(settings) as driver:
            await driver.carry_out(STOP)
        async with open_driver(settings) as another:
            assert await another.release(keep_parked=True) == ()
            assert parked_tasks(fake.spec)
            assert await another.release() == ("unparked web: Swarm starts it as soon as it fits",)
            assert fake.spec == fake.written
            assert await another.release() == ()


async def test_a_stop_is_undone_by_unparking(tmp_path: Path) -> None:
    fake = Fake([[task(0, "a")], [ENDED, PENDING], [task(2, "c")]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        await driver.undo(STOP, await driver.carry_out(STOP))
    assert fake.spec == fake.written


async def test_task_that_finds_no_room_on_the_target_waits_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.features.swarm.parking._FULL_SECONDS", 0.0)
    taken = [ENDED, PENDING, task(2, "", "pending", err=FULL)]
    fake = Fake([[task(0, "a")], [ENDED, PENDING], taken, [ENDED, PENDING]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        await driver.carry_out(STOP)
        waiting = fake.spec
        with pytest.raises(DriverError, match=r"web did not start on b: no suitable node"):
            await driver.carry_out(start())
    assert fake.spec == waiting


@pytest.mark.parametrize(
    ("then", "healthy_seconds", "why"),
    [
        (task(2, "b", "failed", wanted=False, err="task: non-zero exit (1)"), 60, r"non-zero exit \(1\)"),
        (task(2, "b", "starting"), 0.3, r"it was not healthy, after 0\.3 s"),
    ],
)
async def test_task_that_does_not_run_there_waits_again(
    tmp_path: Path, then: dict[str, Any], healthy_seconds: float, why: str
) -> None:
    fake = Fake([[task(0, "a")], [ENDED, PENDING], [ENDED, PENDING, then], [ENDED, PENDING]])
    async with (
        fake.serving(tmp_path / "it", healthy_seconds=healthy_seconds) as settings,
        open_driver(settings) as driver,
    ):
        await driver.carry_out(STOP)
        waiting = fake.spec
        with pytest.raises(DriverError, match=why):
            await driver.carry_out(start())
    assert fake.spec == waiting


async def test_start_of_a_task_that_was_never_parked_restores_the_user_spec(tmp_path: Path) -> None:
    placeless = task(1, "", "pending", err=FULL)
    fake = Fake([[placeless], [placeless, task(2, "b")], [task(2, "b")]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        assert (await driver.carry_out(start())).containers == ("c2",)
        assert fake.spec == fake.written
        again = await driver.carry_out(start("t2"))
        assert (again.what, again.containers) == ("Swarm started a task of web on b itself", ("c2",))
        with pytest.raises(DriverError, match="task t9 no longer waits"):
            await driver.carry_out(start("t9"))


async def test_one_of_several_replicas_is_singled_out_by_closing_its_node(tmp_path: Path) -> None:
    three = [task(0, "a", slot=1), task(1, "b", slot=2), task(2, "c", slot=3)]
    stopping = [task(0, "a", wanted=False), task(3, "", "pending"), *three[1:]]
    fake = larger(Fake([three, stopping, [ENDED, *three[1:]]]), 3)
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        await driver.carry_out(STOP)
        closed, fewer = fake.updates
        assert constraints_of(closed) == ["node.role==worker", "node.id!=id-a"]
        assert replicas_of(closed) == 3
        assert (constraints_of(fewer), replicas_of(fewer)) == (["node.role==worker"], 2)
        (view,) = (await driver.view()).services
        assert view.replicas == 3
        # Swarm has no task for it: its id is made of the service and its number.
        (waits,) = (await driver.view()).pending
        assert (waits.id, waits.service, waits.slot, waits.node) == ("s.1", "web", "1", "")
        assert waits.stopped_on == "a"
        fake.scenes.append([ENDED, *three[1:], task(4, "a")])
        started = await driver.carry_out(start("s.1", "a"))
    assert started.containers == ("c4",)
    grown = fake.updates[2]
    assert (constraints_of(grown), replicas_of(grown)) == (["node.role==worker"], 3)
    assert fake.spec == fake.written


async def test_a_replica_is_parked_only_if_swarm_would_remove_one_on_its_node(
    tmp_path: Path,
) -> None:
    most = [task(0, "a"), task(1, "a"), task(2, "b")]
    fake = larger(Fake([most, [ENDED, *most[1:]]]), 3)
    async with fake.serving(tmp_path / "most") as settings, open_driver(settings) as driver:
        await driver.carry_out(STOP)
    (fewer,) = fake.updates
    assert (constraints_of(fewer), replicas_of(fewer)) == (["node.role==worker"], 2)
    equal = larger(Fake([[*most, task(3, "b")]]), 4)
    async with equal.serving(tmp_path / "equal") as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match="web runs 2 tasks on a, and no fewer on another node"):
            await driver.carry_out(STOP)
    assert equal.updates == []


async def test_only_a_task_without_a_node_is_held_back_and_only_once(tmp_path: Path) -> None:
    placeless = task(1, "", "pending", err=FULL)
    fake = Fake([[placeless]])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        assert await driver.hold_back({"another"}) == ()
        assert fake.updates == []
        assert await driver.hold_back({"t1"}) == ("parked web, which waits for its turn",)
        assert constraints_of(fake.spec) == ["node.role==worker", NO_NODE]
        assert await driver.hold_back({"t1"}) == ()
    running = Fake([[task(1, "b")]])
    async with running.serving(tmp_path / "runs") as settings, open_driver(settings) as driver:
        assert await driver.hold_back({"t1"}) == ()
    assert running.updates == []


@pytest.mark.parametrize("mode", [{"Global": {}}, {"ReplicatedJob": {}}])
async def test_global_services_and_jobs_cannot_be_parked(tmp_path: Path, mode: dict[str, Any]) -> None:
    fake = Fake([[task(0, "a")]])
    fake.spec["Mode"] = mode
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match="web cannot wait: it is a job, or runs on every node"):
            await driver.carry_out(STOP)
        gone = Kill(task="gone", node="a", target=None, reasons=WHY)
        assert (await driver.carry_out(gone)).nothing_to_do


async def test_a_stuck_start_of_a_killed_collector_is_released(tmp_path: Path) -> None:
    placeless = task(1, "", "pending", err=FULL)
    fake = Fake([[placeless], [task(2, "", "pending", err=FULL)]], breaks_after=1)
    async with (
        fake.serving(tmp_path / "it", healthy_seconds=0.3) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(DriverError):
            await driver.carry_out(start())
        assert constraints_of(fake.spec) == ["node.role==worker", "node.id==id-b"]
        fake.breaks_after = 1000
        fake.update_state = "updating"
        assert await driver.release(keep_parked=True) == ("removed the constraints that a move left on web",)
    assert fake.spec == fake.written
