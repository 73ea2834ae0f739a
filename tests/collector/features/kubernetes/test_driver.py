"""The driver through the official client, against a fake server: what a real one makes of it is not seen."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.act.drivers.interface import DriverError
from collector.act.drivers.table import open_driver
from collector.common.orchestrator import Mode
from collector.config import DriverConfig as Settings
from collector.decide.policies.actions import Cut, Kill, Move, PowerOff, Start
from collector.features.kubernetes.models import KubePod
from collector.features.kubernetes.views import view_of
from tests.collector.features.kubernetes.fake import Fake, faking, node, pod
from wire.errors import UserError
from wire.resources import Quantities

WHY = ("because",)
MOVE = Move(task="id-of-web-a", node="a", target="b", reasons=WHY)


def cluster(*more: dict[str, Any], **changes: Any) -> Fake:
    """Three nodes, and two replicas on the first two of them."""
    pods = [pod("web-a", "a"), pod("web-c", "c"), *more]
    return Fake(
        nodes={name: node(name) for name in ("a", "b", "c")},
        pods={each["metadata"]["name"]: each for each in pods},
        **changes,
    )


async def test_an_evicted_pod_runs_elsewhere(tmp_path: Path) -> None:
    fake = cluster()
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        done = await driver.carry_out(MOVE)
        assert done.what == "evicted shop/web-a from a; Kubernetes started it on b"
        assert done.containers == ("id-of-web-0",)
        [asked] = fake.evictions
        assert (asked["apiVersion"], asked["kind"], asked["metadata"]["name"]) == (
            "policy/v1",
            "Eviction",
            "web-a",
        )
        assert (await driver.carry_out(MOVE)).nothing_to_do
        with pytest.raises(DriverError, match="an eviction cannot be undone"):
            await driver.undo(MOVE, done)


async def test_a_disruption_budget_is_reported(tmp_path: Path) -> None:
    async with faking(cluster(budget=0), tmp_path) as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match=r"^a disruption budget currently forbids it$"):
            await driver.carry_out(MOVE)


async def test_a_pod_that_returns_to_its_node_is_a_failure(tmp_path: Path) -> None:
    async with faking(cluster(place="a"), tmp_path) as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match="started it there again: configure the extender"):
            await driver.carry_out(MOVE)


async def test_pod_that_does_not_come_back_is_reported(tmp_path: Path) -> None:
    async with (
        faking(cluster(place=""), tmp_path, healthy_seconds=0.1) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(DriverError, match=r"shop/web is not ready again, after 0\.1 s"):
            await driver.carry_out(MOVE)


async def test_the_state_of_a_cluster(tmp_path: Path) -> None:
    fake = cluster(pod("agent-a", "a", kind="DaemonSet"))
    fake.pods["agent-a"]["metadata"]["ownerReferences"][0]["name"] = "agent"
    fake.nodes["b"]["spec"]["unschedulable"] = True
    fake.nodes["c"]["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
    fake.nodes["c"]["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        view = await driver.view()
    assert [(each.name, each.accepts, each.is_manager) for each in view.nodes] == [
        ("a", True, False),
        ("b", False, False),
        ("c", False, True),
    ]
    services = {each.name: each for each in view.services}
    assert services["shop/web"].replicas == 2
    assert services["shop/web"].reserve == Quantities(0.25, 64 << 20)
    assert services["shop/web"].stays is None
    assert services["shop/agent"].mode is Mode.GLOBAL
    assert {(each.container, each.service, each.node) for each in view.tasks} == {
        ("id-of-web-a", "shop/web", "a"),
        ("id-of-web-c", "shop/web", "c"),
        ("id-of-agent-a", "shop/agent", "a"),
    }


def test_requests_of_a_pod_count_once_and_limits_do_not() -> None:
    described = pod(
        "web-a",
        "a",
        containers=[
            {"image": "web:1", "resources": {"requests": {"cpu": "250m"}, "limits": {"cpu": "3"}}},
            {"image": "log:1", "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}},
        ],
    )
    described["status"]["containerStatuses"] = [{"containerID": f"containerd://{name}"} for name in "xy"]
    (one,) = view_of([], [msgspec.convert(described, KubePod)]).services
    assert one.reserve == Quantities(0.25, 0)
    tasks = view_of([], [msgspec.convert(described, KubePod)]).tasks
    assert [each.reserve for each in tasks] == [Quantities(0.25, 0), Quantities(0.0, 0)]
    described["spec"]["resources"] = {"requests": {"cpu": "2", "memory": "1Gi"}}
    (one,) = view_of([], [msgspec.convert(described, KubePod)]).services
    assert one.reserve == Quantities(2.0, 1 << 30)


async def test_a_node_is_cordoned_emptied_switched_off_and_comes_back(tmp_path: Path) -> None:
    fake = cluster(pod("agent-a", "a", kind="DaemonSet"))
    calls = tmp_path / "calls"
    commands = {
        f"power_{word}_command": f"sh -c 'echo {word} $1 >>{calls}'"  # the name of the node comes last
        for word in ("off", "on")
    }
    off = PowerOff(node="a", reasons=WHY)
    async with (
        faking(fake, tmp_path, stable_seconds=0.0, **commands) as settings,
        open_driver(settings) as driver,
    ):
        done = await driver.carry_out(off)
        assert calls.read_text(encoding="utf-8") == "off a\n"
        assert fake.nodes["a"]["spec"]["unschedulable"] is True
        assert {each["spec"]["nodeName"] for name, each in fake.pods.items() if name != "agent-a"} == {
            "b",
            "c",
        }
        assert len(fake.evictions) == 1
        assert (await driver.carry_out(off)).nothing_to_do
        assert await driver.release() == ()
        await driver.undo(off, done)
        assert calls.read_text(encoding="utf-8") == "off a\non a\n"
        assert fake.nodes["a"]["spec"] == {"unschedulable": False}
        assert fake.nodes["a"]["metadata"]["annotations"] == {}


async def test_a_node_that_cannot_be_emptied_is_opened_again(tmp_path: Path) -> None:
    fake = cluster(budget=0)
    async with (
        faking(fake, tmp_path, power_off_command="false", power_seconds=0.3) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(DriverError, match=r"a stays on: .* not empty \(shop/web-a: a disruption budget"):
            await driver.carry_out(PowerOff(node="a", reasons=WHY))
        assert fake.nodes["a"]["spec"]["unschedulable"] is False
        fake.nodes["a"]["metadata"]["annotations"]["wattpack.drained"] = "true"
        fake.nodes["a"]["spec"]["unschedulable"] = True
        assert await driver.release() == ("activated a, which was drained but not switched off",)
        assert fake.nodes["a"]["spec"]["unschedulable"] is False


STOP = Kill(task="id-of-web-a", node="a", target=None, reasons=WHY)


async def test_pod_that_is_stopped_is_evicted_and_its_replacement_waits(tmp_path: Path) -> None:
    fake = cluster(place="")
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        done = await driver.carry_out(STOP)
        assert done.what == "evicted shop/web-a from a: its replacement waits"
        assert (len(fake.evictions), done.containers) == (1, ())
        assert (await driver.carry_out(STOP)).nothing_to_do
        await driver.undo(STOP, done)  # the controller has created another one
    async with faking(cluster(budget=0), tmp_path) as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match=r"^a disruption budget currently forbids it$"):
            await driver.carry_out(STOP)


@pytest.mark.parametrize(
    ("kind", "why"), [("DaemonSet", "it runs on every node"), (None, "no controller would replace it")]
)
async def test_pod_that_nothing_replaces_cannot_wait(tmp_path: Path, kind: str | None, why: str) -> None:
    fake = cluster(pod("lone", "b", kind=kind))
    stop = Kill(task="id-of-lone", node="b", target=None, reasons=WHY)
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match=f"shop/lone cannot wait: {why}"):
            await driver.carry_out(stop)
    assert fake.evictions == []


async def test_start_waits_until_the_scheduler_has_bound_the_pod(tmp_path: Path) -> None:
    fake = cluster(pod("web-new", "", ready=False))
    start = Start(task="uid-of-web-new", target="b", reasons=WHY)
    async with (
        faking(fake, tmp_path, healthy_seconds=0.3) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(DriverError, match=r"shop/web-new is not ready on b .*, after 0\.3 s"):
            await driver.carry_out(start)
    fake.pods["web-new"] = pod("web-new", "b")
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        done = await driver.carry_out(start)
        assert (done.what, done.containers) == ("shop/web-new started on b", ("id-of-web-new",))
        with pytest.raises(DriverError, match="pod gone is no longer pending"):
            await driver.carry_out(Start(task="gone", target="b", reasons=WHY))


async def test_actions_that_kubernetes_controls_are_refused(tmp_path: Path) -> None:
    async with faking(cluster(), tmp_path) as settings, open_driver(settings) as driver:
        for action in (
            Cut(task="id-of-web-a", node="a", allocated=Quantities(0.1), reasons=WHY),
            PowerOff(node="a", reasons=WHY),
        ):
            with pytest.raises(DriverError):
                await driver.carry_out(action)


async def test_unreachable_server_is_reported(tmp_path: Path) -> None:
    async with faking(cluster(), tmp_path) as settings:
        pass
    async with open_driver(settings) as driver:
        with pytest.raises(DriverError, match="the API server does not answer"):
            await driver.view()


async def test_without_the_client_or_a_file_it_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"set driver\.kubeconfig"):
        async with open_driver(Settings(name="kubernetes", kubeconfig="/nowhere")):
            pass
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(UserError, match=r"pip install 'wattpack\[kubernetes\]'"):
        async with open_driver(Settings(name="kubernetes")):
            pass
