"""What plain hosts are refused; what is done on them is shown in the lab."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from collector.act.drivers.engine.client import Engine, Engines
from collector.act.drivers.engine.containers import ContainerStatus, DockerContainer, ListedContainer
from collector.act.drivers.interface import MAX_STOP_SECONDS, ActionResult, DriverError
from collector.act.drivers.table import open_driver
from collector.common.orchestrator import NodeView, OrchestratorState
from collector.config import DriverConfig as Settings
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, Resize, Start
from collector.features.brownout.rule import optional_services
from collector.features.docker.driver import DockerHosts
from tests.collector.builders import altered
from wire.errors import UserError
from wire.resources import Quantities

pytest.importorskip("docker", reason="the extra docker is not installed: run ./dev setup")

WHY = ("because",)
AWAY = Settings(name="docker", engines={"a": "unix:///nowhere/docker.sock"})


async def test_a_host_that_does_not_answer_is_not_ready() -> None:
    async with open_driver(AWAY) as driver:
        assert await driver.view() == OrchestratorState(nodes=(NodeView(name="a", ready=False),))
        assert await driver.release() == ()


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (PowerOff(node="a", reasons=WHY), "the driver docker cannot drain hosts"),
        (Move(task="x", node="a", target="b", reasons=WHY), r"add it to \[driver\.engines\]"),
        (Kill(task="x", node="b", target=None, reasons=WHY), r"add it to \[driver\.engines\]"),
        (Kill(task="x", node="a", target=None, reasons=WHY), "no Docker engine answers"),
        (Start(task="x", target="a", reasons=WHY), "no Docker engine answers"),
        (Cut(task="x", node="a", allocated=Quantities(1.0), reasons=WHY), "no Docker engine answers"),
    ],
)
async def test_impossible_action_is_refused_with_a_reason(action: Action, why: str) -> None:
    async with open_driver(AWAY) as driver:
        with pytest.raises(DriverError, match=why):
            await driver.carry_out(action)


async def test_without_any_host_it_does_not_open() -> None:
    with pytest.raises(UserError, match=r"\[driver\.engines\] is empty"):
        async with open_driver(Settings(name="docker")):
            pass


async def test_a_swarm_without_managers_does_not_open_and_cuts_need_an_engine() -> None:
    with pytest.raises(UserError, match=r"driver\.managers is empty"):
        async with open_driver(Settings(name="swarm", managers=" , ")):
            pass
    async with open_driver(Settings(name="swarm", managers="unix:///nowhere/docker.sock")) as driver:
        why = r"the address of the Docker engine of a is unknown: add it to \[driver\.engines\]"
        with pytest.raises(DriverError, match=why):
            await driver.carry_out(Cut(task="x", node="a", allocated=Quantities(1.0), reasons=WHY))


class FakeEngine:
    """An engine with one container."""

    def __init__(self, container: str, name: str, **labels: str) -> None:
        self.container = DockerContainer(
            id=container,
            name=f"/{name}",
            state=ContainerStatus(status="running"),
            config={"Labels": {f"wattpack.{key}": value for key, value in labels.items()}},
        )
        self.updated: list[Any] = []

    async def get(self, path: str, _kind: type, **_query: str) -> object:
        if path == "/info":
            return msgspec.convert({"MemTotal": 1 << 30}, _kind)
        return [ListedContainer(id=self.container.id)] if path == "/containers/json" else self.container

    async def post(self, _path: str, body: object = None, **_query: str) -> None:
        self.updated.append(body)


def hosts(**engines: FakeEngine) -> DockerHosts:
    return DockerHosts(Engines({name: cast("Engine", each) for name, each in engines.items()}), AWAY)


async def test_the_labels_of_a_container_apply_to_none_of_the_same_name_on_another_host() -> None:
    honest, liar = FakeEngine("1", "web"), FakeEngine("2", "web", optional="true", elastic="1ms")
    driver = hosts(honest=honest, liar=liar)
    view = await driver.view()
    assert [each.name for each in view.services] == ["web@honest", "web@liar"]
    (optional,) = optional_services(view)
    assert (optional.containers, optional.nodes) == (("2",), ("liar",))
    await driver.carry_out(
        Resize(service="web@liar", cpu_limit_cores=0.5, cpu_limit_cores_before=None, reasons=WHY)
    )
    assert (len(honest.updated), len(liar.updated)) == (0, 1)
    with pytest.raises(DriverError, match="no running container is called web"):
        await driver.carry_out(
            Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=None, reasons=WHY)
        )


@pytest.mark.parametrize(("nano_cpus", "updates"), [(500_000_000, 1), (250_000_000, 0)])
async def test_a_limit_that_someone_changed_since_is_not_restored(nano_cpus: int, updates: int) -> None:
    engine = FakeEngine("1", "web")
    resize = Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=WHY)
    driver = hosts(honest=engine)
    limits = {"NanoCpus": 1_000_000_000, "CpuQuota": 0, "CpuPeriod": 0, "Memory": 0, "MemorySwap": 0}
    engine.container = msgspec.structs.replace(engine.container, host_config={"NanoCpus": nano_cpus})
    before = msgspec.json.encode(limits)
    await driver.undo(resize, ActionResult(what="", before=before, containers=("1",)))
    assert len(engine.updated) == updates


class LyingEngine(FakeEngine):
    """An engine that describes its containers as it likes."""

    def __init__(self, **described: object) -> None:
        super().__init__("2", "ads")
        self.described = {"Id": "2", "Name": "/ads", **described}

    async def get(self, path: str, _kind: type, **_query: str) -> object:
        if path == "/containers/json":
            return await super().get(path, _kind, **_query)
        try:
            return msgspec.convert(self.described, _kind)
        except msgspec.ValidationError as error:
            raise DriverError(str(error)) from error


def nested(levels: int) -> object:
    found: object = "x"
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    "described",
    [
        {"Config": {"Labels": ["wattpack.optional"]}},
        {"Config": {"Labels": {"wattpack.weight": None}}},
        {"Config": {"StopTimeout": "long"}},
        {"HostConfig": {"Memory": "much"}},
        {"HostConfig": {"NanoCpus": {}}},
        {"HostConfig": {"CpuQuota": 1, "CpuPeriod": "x"}},
        {"HostConfig": {"Memory": 10**30}},
        {"HostConfig": {"Surprise": nested(100_000)}},
    ],
)
async def test_a_host_with_invalid_descriptions_is_not_ready_and_the_others_are(
    described: dict[str, object],
) -> None:
    view = await hosts(honest=FakeEngine("1", "web"), liar=LyingEngine(**described)).view()
    assert [(each.name, each.ready) for each in view.nodes] == [("honest", True), ("liar", False)]
    assert [each.container for each in view.tasks] == ["1"]


async def test_an_endless_list_of_containers_times_out() -> None:
    class Slow(FakeEngine):
        async def get(self, path: str, _kind: type, **_query: str) -> object:
            if path != "/containers/json":
                await asyncio.Event().wait()
            return await super().get(path, _kind, **_query)

    settings = altered(Settings(name="docker", engines=AWAY.engines), request_seconds=0.1)
    engines = {"honest": FakeEngine("1", "web"), "liar": Slow("2", "ads")}
    driver = DockerHosts(Engines({name: cast("Engine", each) for name, each in engines.items()}), settings)
    assert [each.container for each in (await driver.view()).tasks] == ["1"]


@pytest.mark.parametrize(
    ("written", "seconds"), [(None, 10.0), (30, 30.0), (10**9, MAX_STOP_SECONDS), (-1, MAX_STOP_SECONDS)]
)
def test_the_stop_timeout_of_a_container_is_bounded(written: int | None, seconds: float) -> None:
    assert DockerContainer(id="1", config={"StopTimeout": written}).stop_seconds == seconds


async def test_a_host_cannot_use_the_unique_name_of_another_container() -> None:
    driver = hosts(
        honest=FakeEngine("1", "web"), other=FakeEngine("2", "web"), liar=FakeEngine("3", "web@honest")
    )
    view = await driver.view()
    assert [each.name for each in view.services] == ["web@honest", "web@other", "web@honest@liar"]
    alone = hosts(honest=FakeEngine("1", "web"))
    assert (
        await alone.carry_out(
            Resize(service="web@honest", cpu_limit_cores=0.5, cpu_limit_cores_before=None, reasons=WHY)
        )
    ).containers == ("1",)
