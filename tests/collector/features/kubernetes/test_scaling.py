"""Replicas and CPU limits of workloads, through the official client and a fake server."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.act.drivers.interface import DriverError
from collector.act.drivers.table import open_driver
from collector.decide.policies.actions import Resize, Scale
from tests.collector.features.kubernetes.fake import Fake, faking, node, pod
from wire.resources import Quantities

WHY = ("because",)
SCALE = Scale(service="shop/web", replicas=3, replicas_before=2, reasons=WHY)
FEWER = Scale(service="shop/web", replicas=1, replicas_before=2, reasons=WHY)
RESIZE = Resize(service="shop/web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=WHY)


def limited(name: str, on: str, **resources: Any) -> dict[str, Any]:
    made = pod(name, on)
    made["spec"]["containers"][0]["resources"] = resources
    return made


def cluster(kind: str = "deployments", pods: list[dict[str, Any]] | None = None, **changes: Any) -> Fake:
    """Two replicas of a workload, on two nodes."""
    if pods is None:
        pods = [limited("web-a", "a", limits={"cpu": "1"}), limited("web-b", "b", limits={"cpu": "1"})]
    labels = {"wattpack.act": "allowed"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "resources": {"limits": {"cpu": "1"}}}]},
    }
    workload = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 2, "template": template},
    }
    return Fake(
        nodes={name: node(name) for name in ("a", "b", "c")},
        pods={each["metadata"]["name"]: each for each in pods},
        workloads={f"{kind}/web": workload},
        **changes,
    )


@pytest.mark.parametrize("kind", ["deployments", "statefulsets", "replicasets"])
async def test_a_workload_of_each_kind_is_scaled_and_scaled_back(kind: str, tmp_path: Path) -> None:
    fake = cluster(kind)
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        done = await driver.carry_out(SCALE)
        assert done.containers == ("id-of-web-2", "id-of-web-a", "id-of-web-b")
        assert (await driver.carry_out(SCALE)).containers == done.containers, "it has what it should have"
        await driver.undo(SCALE, done)
        assert len(fake.pods) == 2
        done = await driver.carry_out(FEWER)
        assert done.containers == ("id-of-web-a",)
        fake.workloads[f"{kind}/web"]["spec"]["replicas"] = 7
        await driver.undo(FEWER, done)
        assert fake.workloads[f"{kind}/web"]["spec"]["replicas"] == 7, "someone changed it since"


async def test_replicas_that_do_not_become_ready_are_taken_back(tmp_path: Path) -> None:
    fake = cluster(starts=False)
    async with (
        faking(fake, tmp_path, healthy_seconds=0.3) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(
            DriverError, match=r"shop/web was not scaled to 3: 2 of 3 replicas are ready, after 0\.3 s"
        ):
            await driver.carry_out(SCALE)
    assert fake.workloads["deployments/web"]["spec"]["replicas"] == 2


async def test_an_optional_workload_that_stops_notes_its_replicas(tmp_path: Path) -> None:
    fake = cluster()
    stop = Scale(service="shop/web", replicas=0, replicas_before=2, sheds=True, reasons=WHY)
    start = Scale(service="shop/web", replicas=2, replicas_before=0, sheds=True, reasons=WHY)
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:

        async def noted() -> int:
            (service,) = (await driver.view()).services
            return service.stopped_replicas

        done = await driver.carry_out(stop)
        assert (await noted(), fake.pods) == (2, {})
        await driver.undo(stop, done)
        assert (await noted(), len(fake.pods)) == (0, 2)
        await driver.carry_out(stop)
        assert len((await driver.carry_out(start)).containers) == 2
        assert await noted() == 0
        assert fake.workloads["deployments/web"]["metadata"]["annotations"] == {}


async def test_an_unknown_workload_is_named(tmp_path: Path) -> None:
    fake = cluster()
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        for service, why in (
            ("shop/other", "there is no Deployment, StatefulSet or ReplicaSet shop/other"),
            ("web", "web is not a workload: write NAMESPACE/NAME"),
        ):
            with pytest.raises(DriverError, match=why):
                await driver.carry_out(msgspec.structs.replace(SCALE, service=service))
        with pytest.raises(DriverError, match="shop/other has no pods"):
            await driver.carry_out(msgspec.structs.replace(RESIZE, service="shop/other"))
        for status in (403, 429):  # a server with too many requests names no disruption budget
            fake.refuses = status
            with pytest.raises(
                DriverError, match=rf"the API server refused the request \({status}\): forbidden"
            ):
                await driver.carry_out(SCALE)
        assert [each.replicas for each in (await driver.view()).services] == [2], "from the pods"


async def test_limits_change_in_place_where_the_server_can(tmp_path: Path) -> None:
    fake = cluster()
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        done = await driver.carry_out(RESIZE)
        assert done.what == "limited each pod of shop/web to 0.5 cores"
        assert done.containers == ("id-of-web-a", "id-of-web-b")
        assert (await driver.view()).services[0].limit == Quantities(0.5)
        await driver.undo(RESIZE, done)
        assert (await driver.view()).services[0].limit == Quantities(1.0)
        by_hand = msgspec.structs.replace(RESIZE, cpu_limit_cores=0.25)
        await driver.carry_out(RESIZE)
        await driver.carry_out(by_hand)
        await driver.undo(RESIZE, done)
        assert (await driver.view()).services[0].limit == Quantities(0.25), "someone changed it since"


async def test_a_limit_that_a_node_cannot_give_is_taken_back(tmp_path: Path) -> None:
    fake = cluster(infeasible="node has 1 core")
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match="shop/web keeps its CPU limit: shop/web-a: node has 1 core"):
            await driver.carry_out(RESIZE)
        assert (await driver.view()).services[0].limit == Quantities(1.0)


async def test_pods_that_are_not_ready_in_time_keep_their_limit(tmp_path: Path) -> None:
    fake = cluster(pods=[limited("web-a", "a", limits={"cpu": "1"})])
    fake.pods["web-a"]["status"]["conditions"] = []
    async with (
        faking(fake, tmp_path, healthy_seconds=0.3) as settings,
        open_driver(settings) as driver,
    ):
        with pytest.raises(DriverError, match=r"shop/web-a was not ready with the CPU limit, after 0\.3 s"):
            await driver.carry_out(RESIZE)
        assert (await driver.view()).services[0].limit == Quantities(1.0)


async def test_requests_that_equal_limits_still_do_and_containers_share_as_before(tmp_path: Path) -> None:
    pods = [limited("web-a", "a", limits={"cpu": "600m"}, requests={"cpu": "600m", "memory": "1Gi"})]
    beside = {"name": "proxy", "resources": {"limits": {"cpu": "400m"}, "requests": {"cpu": "100m"}}}
    pods[0]["spec"]["containers"].append(beside)
    pods[0]["status"]["containerStatuses"] = [
        {"containerID": f"containerd://id-of-{name}"} for name in ("web-a", "proxy")
    ]
    fake = cluster(pods=pods)
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        await driver.carry_out(RESIZE)
        web, proxy = (each["resources"] for each in fake.pods["web-a"]["spec"]["containers"])
    assert (web["limits"], web["requests"]) == ({"cpu": "300m"}, {"cpu": "300m", "memory": "1Gi"})
    assert (proxy["limits"], proxy["requests"]) == ({"cpu": "200m"}, {"cpu": "100m"})


async def test_several_containers_without_limits_are_not_limited(tmp_path: Path) -> None:
    pods = [limited("web-a", "a")]
    pods[0]["spec"]["containers"].append({"name": "proxy", "resources": {}})
    async with faking(cluster(pods=pods), tmp_path) as settings, open_driver(settings) as driver:
        with pytest.raises(DriverError, match="shop/web-a has several containers: give each a CPU limit"):
            await driver.carry_out(RESIZE)


async def test_a_workload_without_pods_is_a_service_with_no_replicas(tmp_path: Path) -> None:
    fake = cluster(pods=[])
    fake.workloads["deployments/web"]["spec"]["replicas"] = 0
    async with faking(fake, tmp_path) as settings, open_driver(settings) as driver:
        (service,) = (await driver.view()).services
    assert (service.name, service.replicas, service.namespace) == ("shop/web", 0, "shop")
    assert (service.limit, dict(service.labels)) == (Quantities(1.0), {"wattpack.act": "allowed"})
    assert not service.is_updating
