"""Response times of containers, measured on real servers; only the engine's description is a fake."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from agent.features.probing import prober as prober_module
from agent.features.probing.prober import ContainerProber
from agent.features.probing.settings import ProbeConfig
from agent.sources.docker import ContainerInfo
from wire.address import Address
from wire.http.serving import serving
from wire.messages import MAX_PROBED_CONTAINERS, ContainerProbe


@asynccontextmanager
async def engine(folder: Path, requests: list[str]) -> AsyncIterator[Path]:
    """An engine that describes containers as ones with the network of the host, or in an overlay."""

    async def inspect(request: web.Request) -> web.Response:
        requests.append(request.match_info["id"])
        if request.match_info["id"] == "gone":
            return web.json_response({"message": "no such container"}, status=404)
        if request.match_info["id"] == "in-overlay":
            networks = {"shop": {"IPAddress": "10.0.1.5", "NetworkID": "shop"}}
            return web.json_response({"NetworkSettings": {"Networks": networks}})
        return web.json_response({"HostConfig": {"NetworkMode": "host"}})

    async def network(request: web.Request) -> web.Response:
        requests.append(request.match_info["id"])
        return web.json_response({"Driver": "overlay"})

    app = web.Application()
    app.router.add_get("/containers/{id}/json", inspect)
    app.router.add_get("/networks/{id}", network)
    runner = web.AppRunner(app)
    await runner.setup()
    socket = folder / "docker.sock"
    await web.UnixSite(runner, str(socket)).start()
    try:
        yield socket
    finally:
        await runner.cleanup()


@asynccontextmanager
async def backend(seen: list[str]) -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        match request.path:
            case "/broken":
                return web.Response(status=503)
            case "/slow":
                await asyncio.sleep(30)
            case "/away":
                return web.Response(status=302, headers={"Location": "/elsewhere"})
        return web.Response(body=b"x" * 200_000)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with serving(app, Address("127.0.0.1", 0), "backend") as address:
        yield address.port


@asynccontextmanager
async def probing(prober: ContainerProber) -> AsyncIterator[None]:
    task = asyncio.create_task(prober.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task


async def first_probes(prober: ContainerProber, services: int) -> dict[str, ContainerProbe]:
    """What is reported once so many services have been probed."""
    found: dict[str, ContainerProbe] = {}
    async with asyncio.timeout(20):
        while len(found) < services:
            found |= {each.container: each for each in prober.take()}
            await asyncio.sleep(0.02)
    return found


@pytest.mark.slow
async def test_response_times_are_collected_per_service_and_failures_count_with_the_timeout(
    tmp_path: Path,
) -> None:
    requests: list[str] = []
    seen: list[str] = []
    clock = [0.0]
    listed: dict[str, ContainerInfo] = {}
    config = ProbeConfig(enabled=True, interval_seconds=0.2, timeout_seconds=0.5)

    def ticking() -> float:
        # Every look is due, so that the test does not wait for real seconds.
        clock[0] += 0.0001
        return asyncio.get_running_loop().time() * 100 + clock[0]

    async with backend(seen) as port, engine(tmp_path, requests) as socket:
        for name, path in (("fine", "/"), ("broken", "/broken"), ("slow", "/slow"), ("away", "/away")):
            labels = {"wattpack.probe": f"{port}{path}"}
            listed[f"id-{name}"] = ContainerInfo(name=f"{name}.1", service=name, labels=labels)
        listed["id-quiet"] = ContainerInfo(name="quiet")
        listed["id-wrong"] = ContainerInfo(name="wrong", labels={"wattpack.probe": "none"})
        listed["gone"] = ContainerInfo(name="gone", labels={"wattpack.probe": str(port)})
        prober = ContainerProber(listed.items, socket, config, ticking)
        async with probing(prober):
            found = await first_probes(prober, 4)
    assert set(found) == {"id-fine", "id-broken", "id-slow", "id-away"}
    assert found["id-fine"].failed == found["id-away"].failed == 0
    for name in ("id-broken", "id-slow"):
        assert found[name].failed == found[name].seconds.count
        assert found[name].seconds.quantile(0.5) == pytest.approx(0.5, rel=0.02)
    assert "/elsewhere" not in seen, "redirects are not followed"
    assert sorted(set(requests) - {"gone"}) == ["id-away", "id-broken", "id-fine", "id-slow"]
    assert requests.count("id-fine") == 1, "an address is looked up once"


async def test_nothing_is_reported_before_it_is_due_and_no_more_containers_are_probed_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prober_module, "_MAX_CONTAINERS", 1)
    seen: list[str] = []
    now = [100.0]
    listed: dict[str, ContainerInfo] = {}
    config = ProbeConfig(enabled=True, interval_seconds=0.2)
    async with backend(seen) as port, engine(tmp_path, []) as socket:
        for name in ("a", "b"):
            labels = {"wattpack.probe": f"{port}/{name}"}
            listed[name] = ContainerInfo(name=name, labels=labels)
        prober = ContainerProber(listed.items, socket, config, lambda: now[0])
        async with probing(prober), asyncio.timeout(20):
            while len(seen) < 2:  # noqa: ASYNC110 - another task appends
                await asyncio.sleep(0.02)
            assert prober.take() == ()
            now[0] += 10
            [probe] = prober.take()
    assert set(seen) == {"/a"}
    assert probe.container == "a"
    assert probe.seconds.count >= 1


def test_the_containers_of_a_report_are_bounded() -> None:
    prober = ContainerProber(list, Path(), ProbeConfig(), itertools.count(step=10).__next__)
    for number in range(2 * MAX_PROBED_CONTAINERS):
        prober.add(f"container{number}", 0.1, failed=False)
    assert len(prober.take()) == MAX_PROBED_CONTAINERS
    assert prober.take() == ()


async def test_an_address_in_an_overlay_is_not_probed_since_it_may_be_that_of_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []
    urls: list[str] = []
    listed: dict[str, ContainerInfo] = {}
    listed["in-overlay"] = ContainerInfo(name="web", labels={"wattpack.probe": "80"})

    async def get(_prober: ContainerProber, _session: object, url: str) -> tuple[float, bool]:
        urls.append(url)
        return 0.1, False

    monkeypatch.setattr(ContainerProber, "_get", get)
    async with engine(tmp_path, requests) as socket:
        prober = ContainerProber(listed.items, socket, ProbeConfig(enabled=True, interval_seconds=0.2))
        async with probing(prober), asyncio.timeout(20):
            while requests != ["in-overlay", "shop"]:  # noqa: ASYNC110 - another task appends
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.05)
    assert urls == []


async def test_address_is_looked_up_again_after_a_restart(tmp_path: Path) -> None:
    requests: list[str] = []
    seen: list[str] = []
    listed: dict[str, ContainerInfo] = {}
    async with backend(seen) as port, engine(tmp_path, requests) as socket:
        labels = {"wattpack.probe": f"{port}/"}
        listed["id"] = ContainerInfo(name="web", labels=labels, started_at=1.0)
        prober = ContainerProber(listed.items, socket, ProbeConfig(enabled=True, interval_seconds=0.2))
        async with probing(prober), asyncio.timeout(20):
            while len(seen) < 2:  # noqa: ASYNC110 - another task appends
                await asyncio.sleep(0.02)
            assert requests == ["id"]
            listed["id"] = ContainerInfo(name="web", labels=labels, started_at=2.0)
            while len(seen) < 4:  # noqa: ASYNC110 - another task appends
                await asyncio.sleep(0.02)
    assert requests == ["id", "id"]
