import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from agent.docker import ContainerInfo, DockerNames, apply_event, parse_listing, service_of
from tests.waiting import until

ID = "a" * 64
LABELS = {"com.docker.swarm.service.name": "s"}


def start(name: str = "web", **attributes: str) -> dict[str, Any]:
    return {
        "Action": "start",
        "Actor": {"ID": ID, "Attributes": {"name": name, "image": "nginx", **attributes}},
        "timeNano": 1_500_000_000_500_000_000,
    }


def test_a_listing_names_each_container_without_its_slash() -> None:
    body = json.dumps(
        [
            {"Id": ID, "Names": ["/other/alias", "/web"], "Image": "nginx", "Labels": LABELS},
            {"Id": "b" * 64, "Names": None, "Image": "x", "Labels": None},
        ]
    )
    assert dict(parse_listing(body.encode())) == {
        ID: ContainerInfo("web", "nginx", "s"),
        "b" * 64: ContainerInfo("b" * 12, "x", None),
    }


def test_orchestrators_say_which_workload_a_container_is_part_of() -> None:
    assert service_of({"com.docker.swarm.service.name": "shop"}) == "shop"
    assert service_of({"com.docker.compose.project": "blog", "com.docker.compose.service": "db"}) == "blog/db"
    assert (
        service_of({"io.kubernetes.pod.namespace": "prod", "io.kubernetes.pod.name": "api-7f"})
        == "prod/api-7f"
    )
    assert service_of({"anything": "else"}) is None


def test_events_keep_the_names_right() -> None:
    known: dict[str, ContainerInfo] = {}
    apply_event(known, start())
    assert known[ID] == ContainerInfo("web", "nginx", None, 1_500_000_000.5)
    apply_event(known, {"Action": "rename", "Actor": {"ID": ID, "Attributes": {"name": "web2"}}})
    assert known[ID].name == "web2"
    assert known[ID].started_at == 1_500_000_000.5
    apply_event(known, {"Action": "destroy", "Actor": {"ID": ID}})
    assert not known


def test_an_event_of_a_kind_not_known_changes_nothing() -> None:
    known = {ID: ContainerInfo("web")}
    apply_event(known, {"Action": "health_status: healthy", "Actor": {"ID": ID}})
    apply_event(known, {"Action": "rename", "Actor": {"ID": "f" * 64, "Attributes": {"name": "x"}}})
    assert known == {ID: ContainerInfo("web")}


@asynccontextmanager
async def names(socket: Path) -> AsyncIterator[DockerNames]:
    watched = DockerNames(socket)
    task = asyncio.create_task(watched.run())
    try:
        await asyncio.wait_for(watched.listed.wait(), 5)
        yield watched
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def engine(socket: Path, listing: list[dict[str, Any]], *events: bytes) -> AsyncIterator[None]:
    """As much of an engine as faults need; the real one is in the lab."""

    async def containers(_: web.Request) -> web.Response:
        return web.json_response(listing)

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            await response.write(event)
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_get("/containers/json", containers)
    app.router.add_get("/events", stream)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, str(socket)).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_no_engine_is_a_gap_that_says_so(tmp_path: Path) -> None:
    async with names(tmp_path / "docker.sock") as watched:
        assert watched.gap is not None
        assert watched.gap.why == (
            f"no Docker engine listens at {tmp_path / 'docker.sock'}; containers go by their ids"
        )


async def test_the_list_and_then_the_events_give_the_names(tmp_path: Path) -> None:
    listing = [{"Id": "b" * 64, "Names": ["/db"], "Image": "pg", "Labels": {}}]
    async with (
        engine(tmp_path / "s", listing, json.dumps(start()).encode() + b"\n"),
        names(tmp_path / "s") as watched,
    ):
        await until(lambda: watched.get(ID) is not None)
        assert watched.get(ID) == ContainerInfo("web", "nginx", None, 1_500_000_000.5)
        assert watched.get("b" * 64) == ContainerInfo("db", "pg")
        assert watched.gap is None


async def test_nonsense_from_the_engine_is_a_gap_and_not_the_end(tmp_path: Path) -> None:
    async with engine(tmp_path / "s", [], b"not json\n"), names(tmp_path / "s") as watched:
        await until(lambda: watched.gap is not None)


async def test_an_engine_that_comes_later_is_found(tmp_path: Path) -> None:
    async with names(tmp_path / "s") as watched:
        assert watched.gap is not None
        async with engine(tmp_path / "s", [{"Id": ID, "Names": ["/late"], "Image": "x"}]):
            await until(lambda: watched.gap is None)
            assert watched.get(ID) == ContainerInfo("late", "x")
