import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.sources.docker import ContainerInfo, DockerWatcher, RuntimeEvent, client
from tests.agent.sources.docker.events import ID, line
from tests.waiting import until

DB = {"Id": "b" * 64, "Names": ["/db"], "Image": "pg", "Labels": {}}


@asynccontextmanager
async def names(socket: Path) -> AsyncIterator[DockerWatcher]:
    watched = DockerWatcher(socket)
    task = asyncio.create_task(watched.run())
    try:
        await asyncio.wait_for(watched.listed.wait(), 5)
        yield watched
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def engine(
    socket: Path,
    listing: list[dict[str, Any]],
    *events: bytes,
    images: tuple[list[dict[str, Any]], list[dict[str, Any]]] | None = ([], []),
) -> AsyncIterator[None]:
    """As much of an engine as faults need; the real one is in the lab.

    `images` are its images before the events, and after them; None if it does not allow to list them.
    """
    are_sent = False

    async def list_images(_: web.Request) -> web.Response:
        assert images is not None
        return web.json_response(images[are_sent])

    async def containers(_: web.Request) -> web.Response:
        return web.json_response(listing)

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        nonlocal are_sent
        are_sent = bool(events)
        for event in events:
            await response.write(event)
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_get("/containers/json", containers)
    app.router.add_get("/events", stream)
    if images is not None:
        app.router.add_get("/images/json", list_images)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, str(socket)).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_missing_engine_is_a_gap(tmp_path: Path) -> None:
    async with names(tmp_path / "docker.sock") as watched:
        assert watched.gap is not None
        assert watched.gap.why == (
            f"no Docker engine listens at {tmp_path / 'docker.sock'}; containers are listed by ID"
        )


async def test_the_list_and_then_the_events_give_the_names(tmp_path: Path) -> None:
    async with (
        engine(tmp_path / "s", [DB], line("create", 7.0), line("start", 7.5)),
        names(tmp_path / "s") as watched,
    ):
        await until(lambda: watched.get(ID) is not None)
        assert watched.get(ID) == ContainerInfo("web", "nginx", None, 7.5, restarts=0, startup_seconds=0.5)
        assert watched.get("b" * 64) == ContainerInfo("db", "pg", restarts=0)
        assert watched.gap is None
        assert watched.take_events() == [RuntimeEvent("start", ID, "web", 7.5, 0.5)]
        assert watched.take_events() == []


async def test_unread_events_are_bounded(tmp_path: Path) -> None:
    lines = [line("oom", float(number), "b" * 64) for number in range(6000)]
    async with (
        engine(tmp_path / "s", [], *lines, line("start", 9999.0)),
        names(tmp_path / "s") as watched,
    ):
        await until(lambda: watched.get(ID) is not None)
        taken = watched.take_events()
        assert 0 < len(taken) < 6000
        assert taken[-1] == RuntimeEvent("start", ID, "web", 9999.0)


@pytest.mark.parametrize("nonsense", [b"not json\n", b"[]\n", b'{"Action": 5}\n', b'{"Actor": null}\n'])
async def test_invalid_response_of_the_engine_is_a_gap(tmp_path: Path, nonsense: bytes) -> None:
    async with engine(tmp_path / "s", [], nonsense), names(tmp_path / "s") as watched:
        await until(lambda: watched.gap is not None)


async def test_an_engine_that_comes_later_is_found(tmp_path: Path) -> None:
    async with names(tmp_path / "s") as watched:
        assert watched.gap is not None
        async with engine(tmp_path / "s", [{"Id": ID, "Names": ["/late"], "Image": "x"}]):
            await until(lambda: watched.gap is None)
            assert watched.get(ID) == ContainerInfo("late", "x", restarts=0)


async def test_lost_engine_keeps_names_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with AsyncExitStack() as stack:
        async with engine(tmp_path / "s", [DB]):
            watched = await stack.enter_async_context(names(tmp_path / "s"))
        await until(lambda: watched.gap is not None)
        assert watched.gap is not None
        assert watched.gap.why.endswith("; new containers are listed by ID")
        assert watched.get("b" * 64) == ContainerInfo("db", "pg", restarts=0)
        async with engine(tmp_path / "s", [DB]):
            await until(lambda: watched.gap is None)
    reported = [
        record.getMessage() for record in caplog.records if record.name.startswith("agent.sources.docker")
    ]
    # The engine that is back may be gone again while its images are listed.
    reported = [each for each in reported if "images are not listed" not in each]
    socket = tmp_path / "s"
    assert reported == [
        f"docker: the Docker engine at {socket} closed the connection; new containers are listed by ID",
        f"docker: the engine at {socket} is available again",
    ]


REDIS = {"Id": "sha256:1", "RepoTags": ["redis:7"], "RepoDigests": ["redis@sha256:aa"], "Created": 5}
NGINX = {"Id": "sha256:2", "RepoTags": ["nginx:1"], "RepoDigests": [], "Created": 6}


async def test_images_are_listed_at_the_start_and_after_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_IMAGES_SECONDS", 0.0)
    pulled = line("pull", container_id="nginx:1").replace(b"{", b'{"Type": "image", ', 1)
    async with (
        engine(tmp_path / "s", [DB], pulled, images=([REDIS], [REDIS, NGINX])),
        names(tmp_path / "s") as watched,
    ):
        await until(lambda: watched.images == ("nginx:1", "pg", "redis:7", "redis@sha256:aa"))
        assert watched.take_events() == [], "an event of an image is none of a container"


async def test_an_engine_that_does_not_allow_to_list_images_still_names_containers(tmp_path: Path) -> None:
    async with (
        engine(tmp_path / "s", [], line("start", 7.5), images=None),
        names(tmp_path / "s") as watched,
    ):
        await until(lambda: watched.get(ID) is not None)
        assert (watched.images, watched.gap) == (None, None)
