"""A collector dies at every change of every action in Kubernetes: what the next one makes of it."""

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from collector.act.drivers.interface import ActionResult
from collector.common.labels import DRAINED_LABEL, OFF_LABEL, STOPPED_LABEL
from collector.config import DriverConfig
from collector.decide.policies.actions import Action, Kill, Move, PowerOff, PowerOn, Resize, Scale
from collector.features.kubernetes.client import ApiServer, connect
from collector.features.kubernetes.driver import Kubernetes
from tests.collector.act.drivers.interrupted import Fuse, KilledError
from tests.collector.features.kubernetes.fake import Fake, faking, node, pod

WHY = ("because",)
POINTS = {
    "move": ["evict"],
    "stop": ["evict"],
    "scale": ["scale"],
    "shed": ["annotate", "scale"],
    "unshed": ["annotate", "scale"],
    "resize": ["resize", "resize"],
    "off": ["change_node", "evict", "change_node"],
    "on": ["change_node"],
}
CASES = [
    (name, at, sent)
    for name, changes in POINTS.items()
    for at in range(len(changes))
    for sent in (False, True)
]
ACTIONS: dict[str, Action] = {
    "move": Move(task="id-of-web-a", node="a", target="b", reasons=WHY),
    "stop": Kill(task="id-of-web-a", node="a", target=None, reasons=WHY),
    "scale": Scale(service="shop/web", replicas=3, replicas_before=2, reasons=WHY),
    "shed": Scale(service="shop/web", replicas=0, replicas_before=2, sheds=True, reasons=WHY),
    "unshed": Scale(service="shop/web", replicas=2, replicas_before=0, sheds=True, reasons=WHY),
    "resize": Resize(service="shop/web", cpu_limit_cores=0.5, cpu_limit_cores_before=None, reasons=WHY),
    "off": PowerOff(node="a", reasons=WHY),
    "on": PowerOn(node="a", reasons=WHY),
}


class DyingServer:
    """The requests of a collector to the API server."""

    def __init__(self, server: ApiServer, fuse: Fuse) -> None:
        self._server, self._fuse = server, fuse

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method: Callable[..., Awaitable[Any]] = getattr(self._server, name)

        async def request(*arguments: Any, **named: Any) -> Any:
            self._fuse.check()
            if name in {"evict", "scale", "annotate", "resize", "change_node"}:
                return await self._fuse.guard(name, lambda: method(*arguments, **named))
            return await method(*arguments, **named)

        return request


@asynccontextmanager
async def driving(settings: DriverConfig, fuse: Fuse) -> Any:
    async with connect(settings) as server:
        yield Kubernetes(cast("ApiServer", DyingServer(server, fuse)), settings)


def cluster(name: str) -> Fake:
    pods = [] if name == "unshed" else [pod("web-a", "a"), pod("web-c", "c")]
    noted = {STOPPED_LABEL: "2"} if name == "unshed" else {}
    workload = {
        "metadata": {"name": "web", "namespace": "shop", "annotations": noted},
        "spec": {"replicas": len(pods), "template": {"metadata": {}, "spec": {"containers": []}}},
    }
    fake = Fake(
        nodes={each: node(each) for each in "abc"},
        pods={each["metadata"]["name"]: each for each in pods},
        workloads={"deployments/web": workload},
    )
    if name == "on":
        fake.nodes["a"]["spec"]["unschedulable"] = True
        fake.nodes["a"]["metadata"]["annotations"] = {DRAINED_LABEL: "true", OFF_LABEL: "true"}
    return fake


async def interrupted(fake: Fake, folder: Path, action: Action, fuse: Fuse) -> ActionResult | None:
    hooks = {"power_off_command": "true", "power_on_command": "true", "power_seconds": 5.0}
    async with faking(fake, folder, stable_seconds=0.0, healthy_seconds=5.0, **hooks) as settings:
        async with driving(settings, fuse) as driver:
            noted = await driver.prepare(action)
            try:
                done: ActionResult = await driver.carry_out(action)
            except KilledError:
                pass
            else:
                return done
        async with driving(settings, Fuse()) as driver:
            recovered: ActionResult | None = await driver.recover(action, noted)
            await driver.release()
            return recovered


@pytest.mark.parametrize("name", POINTS)
async def test_the_points_are_all_changes_of_an_action(name: str, tmp_path: Path) -> None:
    fuse = Fuse()
    assert await interrupted(cluster(name), tmp_path, ACTIONS[name], fuse) is not None
    assert fuse.changes == POINTS[name]


@pytest.mark.parametrize(("name", "at", "sent"), CASES)
async def test_nothing_is_lost_or_left_behind(
    name: str,
    at: int,
    sent: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
) -> None:
    fake, action, fuse = cluster(name), ACTIONS[name], Fuse(at, sent)
    before = len(fake.pods)
    done = await interrupted(fake, tmp_path, action, fuse)
    assert fuse.is_dead
    is_done = done is not None
    assert len(fake.evictions) <= 1
    replicas = action.replicas if isinstance(action, Scale) and is_done else before
    assert len(fake.pods) == replicas
    [workload] = fake.workloads.values()
    stopped = isinstance(action, Scale) and action.sheds and not replicas
    assert workload["metadata"]["annotations"] == ({STOPPED_LABEL: "2"} if stopped else {})
    where = {each["spec"]["nodeName"] for each in fake.pods.values()}
    match action:
        case Move() | Kill():
            assert where == ({"b", "c"} if is_done else {"a", "c"})
        case Resize():
            limits = {
                str(each["spec"]["containers"][0]["resources"].get("limits")) for each in fake.pods.values()
            }
            assert limits == ({"{'cpu': '500m'}"} if is_done else {"None"})
    is_off = (isinstance(action, PowerOff) and is_done) or (isinstance(action, PowerOn) and not is_done)
    assert bool(fake.nodes["a"]["spec"].get("unschedulable")) is is_off
    assert (OFF_LABEL in fake.nodes["a"]["metadata"]["annotations"]) is is_off
    assert (DRAINED_LABEL in fake.nodes["a"]["metadata"]["annotations"]) is is_off
