"""Moves that go wrong in ways that no real Swarm shows on demand; the lab shows those that go right."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from collector.act.drivers.interface import DriverError
from collector.act.drivers.table import open_driver
from collector.common.labels import BEFORE_LABEL
from collector.config import DriverConfig as Settings
from collector.decide.policies.actions import Move
from collector.features.swarm.specs import constraints_of

pytest.importorskip("docker", reason="the extra docker is not installed: run ./dev setup")

WHY = ("because",)
MOVE = Move(task="c0", node="a", target="b", reasons=WHY)


def task(  # noqa: PLR0913 - most are left at their defaults
    number: int, on: str, state: str = "running", *, wanted: bool = True, err: str = "", slot: int = 1
) -> dict[str, Any]:
    return {
        "ID": f"t{number}",
        "ServiceID": "s",
        "NodeID": f"id-{on}" if on else "",
        "Slot": slot,
        "DesiredState": "running" if wanted else "shutdown",
        "Status": {
            "State": state,
            "Err": err,
            "ContainerStatus": {"ContainerID": f"c{number}" if on else ""},
        },
    }


@dataclass
class Fake:
    """A manager that shows, after each change of the service, the next of the scenes it was given."""

    scenes: list[list[dict[str, Any]]]
    """The tasks at first, and after each update of the service; the last one stays."""
    breaks_after: int = 1000
    """It answers no update after so many."""
    update_state: str = ""
    updates: list[dict[str, Any]] = field(default_factory=list)
    spec: dict[str, Any] = field(
        default_factory=lambda: {
            "Name": "web",
            "Labels": {"wattpack.move": "allowed"},
            "Mode": {"Replicated": {"Replicas": 1}},
            "TaskTemplate": {"Placement": {"Constraints": ["node.role==worker"]}},
        }
    )

    def __post_init__(self) -> None:
        self.written = copy.deepcopy(self.spec)

    async def answer(self, request: web.Request) -> web.Response:
        match request.path.strip("/").split("/"):
            case ["nodes"]:
                return web.json_response([_node(name) for name in "abc"])
            case ["nodes", node_id]:
                return web.json_response(_node(node_id.removeprefix("id-")))
            case ["services"]:
                return web.json_response([self._service()])
            case ["services", "s"]:
                return web.json_response(self._service())
            case ["tasks"]:
                return web.json_response(self.scenes[min(len(self.updates), len(self.scenes) - 1)])
            case ["services", "s", "update"] if len(self.updates) < self.breaks_after:
                self.spec = await request.json()
                self.updates.append(self.spec)
                return web.Response()
            case _:
                return web.json_response({"message": "The swarm does not have a leader."}, status=503)

    def _service(self) -> dict[str, Any]:
        status = {"State": self.update_state}
        return {"ID": "s", "Version": {"Index": len(self.updates)}, "Spec": self.spec, "UpdateStatus": status}

    @asynccontextmanager
    async def serving(self, socket: Path, **settings: Any) -> AsyncIterator[Settings]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.UnixSite(runner, str(socket)).start()
            yield Settings(name="swarm", managers=f"unix://{socket}", stable_seconds=0.0, **settings)
        finally:
            await runner.cleanup()


def _node(name: str) -> dict[str, Any]:
    return {"ID": f"id-{name}", "Description": {"Hostname": name}, "Status": {"State": "ready"}, "Spec": {}}


START = [task(0, "a")]
MOVED = [task(0, "a", "shutdown", wanted=False), task(1, "b")]


async def test_a_move_adds_constraints_and_removes_them(tmp_path: Path) -> None:
    fake = Fake([START, MOVED])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        done = await driver.carry_out(MOVE)
    assert (done.what, done.containers) == ("moved a task of web from a to b, start-first", ("c1",))
    with_constraints, without_constraints = fake.updates
    assert constraints_of(with_constraints) == ["node.role==worker", "node.id==id-b"]
    assert without_constraints == fake.written


async def test_a_move_without_room_on_the_target_fails_at_once(tmp_path: Path) -> None:
    full = task(1, "", "pending", err="no suitable node (insufficient resources on 1 node)")
    fake = Fake([START, [*START, full], START])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        with pytest.raises(
            DriverError, match=r"insufficient resources on 1 node\)\); rolled back, and it runs$"
        ):
            await driver.carry_out(MOVE)
    _, back, without_constraints = fake.updates
    assert constraints_of(back) == ["node.role==worker", "node.id==id-a"]
    assert without_constraints == fake.written


async def test_constraints_of_an_interrupted_move_are_removed_later(tmp_path: Path) -> None:
    fake = Fake([START, MOVED], breaks_after=1)
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        done = await driver.carry_out(MOVE)
        assert done.containers == ("c1",)
        assert "could not be removed yet" in done.what
        with pytest.raises(DriverError, match="does not have a leader"):
            await driver.release()
        assert BEFORE_LABEL in fake.spec["Labels"]
        fake.breaks_after = 1000
        assert await driver.release() == ("removed the constraints that a move left on web",)
        assert fake.spec == fake.written
        assert await driver.release() == ()


async def test_constraints_that_cannot_be_restored_yet_are_reported(tmp_path: Path) -> None:
    late = [*START, task(1, "b", "starting")]
    fake = Fake([START, late], breaks_after=1)
    fake.spec["TaskTemplate"]["ContainerSpec"] = {"StopGracePeriod": 1}
    async with (
        fake.serving(tmp_path / "it", healthy_seconds=0.3) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(
            DriverError,
            match=r"did not become healthy on b \(it is still starting, after 0\.3 s\); its constraints "
            "could not be removed yet",
        ):
            await driver.carry_out(MOVE)


async def test_swarm_may_choose_another_node_and_that_is_reported(tmp_path: Path) -> None:
    first = [task(0, "a"), task(1, "c")]
    then = [task(0, "a", "shutdown", wanted=False), task(1, "c"), task(2, "c")]
    fake = Fake([first, then])
    fake.spec["Mode"] = {"Replicated": {"Replicas": 2}}
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        done = await driver.carry_out(MOVE)
    assert done.what == "moved a task of web from a to b, start-first; Swarm chose c"
    assert constraints_of(fake.updates[0]) == ["node.role==worker", "node.id!=id-a"]


async def test_nothing_is_done_if_the_container_is_gone_or_already_there(tmp_path: Path) -> None:
    fake = Fake([START])
    async with fake.serving(tmp_path / "it") as settings, open_driver(settings) as driver:
        for action in (
            Move(task="other", node="a", target="b", reasons=WHY),
            Move(task="c0", node="b", target="c", reasons=WHY),
            Move(task="c0", node="a", target="a", reasons=WHY),
        ):
            assert (await driver.carry_out(action)).nothing_to_do
    assert fake.updates == []


async def deploying(folder: Path, fake: Fake, replicas: dict[str, int]) -> list[tuple[str, ...]]:
    """Create a service as the driver says, and let it clean up a few times; what it says of each."""
    async with fake.serving(folder / "socket") as settings, open_driver(settings) as driver:
        hold = await driver.hold(replicas)
        fake.spec["Labels"] |= hold.labels
        fake.spec["TaskTemplate"]["Placement"]["Constraints"] += hold.constraints
        fake.spec["Mode"]["Replicated"]["Replicas"] = hold.replicas
        (service,) = (await driver.view()).services
        assert (service.replicas, service.stays) == (sum(replicas.values()), "it is being deployed")
        return [await driver.release() for _ in range(4)]


async def test_a_service_is_deployed_group_by_group_and_its_constraints_are_removed(tmp_path: Path) -> None:
    first = [task(0, "b"), task(1, "b")]
    fake = Fake([first, [*first, task(2, "c")]])
    fake.spec["Mode"]["Replicated"]["Replicas"] = 3
    fake.written = copy.deepcopy(fake.spec)
    said = await deploying(tmp_path, fake, {"b": 2, "c": 1})
    assert said == [(), ("deployed web on b, b, c, and removed its temporary constraints",), (), ()]
    grown, freed = fake.updates
    assert grown["Mode"]["Replicated"]["Replicas"] == 3
    assert grown["TaskTemplate"]["Placement"]["Constraints"] == ["node.role==worker", "node.id!=id-a"]
    assert freed == fake.written


async def test_a_service_is_held_until_its_tasks_have_a_node(tmp_path: Path) -> None:
    fake = Fake([[task(0, "", "pending")]])
    assert await deploying(tmp_path, fake, {"b": 1}) == [(), (), (), ()]
    assert fake.updates == []


async def test_constraints_are_removed_if_swarm_cannot_start_a_service_there(tmp_path: Path) -> None:
    stuck = task(0, "", "pending", err="no suitable node (insufficient resources on 1 node)")
    fake = Fake([[stuck], [task(0, "a")]])
    said = await deploying(tmp_path, fake, {"b": 1})
    assert said[0] == (
        "removed the temporary constraints of web: Swarm could not start it on the chosen nodes",
    )
    assert fake.updates == [fake.written]
