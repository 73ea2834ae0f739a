"""What is known of containers, against a real engine."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from agent.sources.docker import DockerWatcher, RuntimeEvent
from tests.lab.engines import image
from tests.lab.engines.docker import Engine, docker_engine
from tests.waiting import until

pytestmark = pytest.mark.lab

_PATIENCE_SECONDS = 40.0
"""The agent looks for a lost engine at longer and longer intervals."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_engine() as engine:
        yield engine


@asynccontextmanager
async def names_of(engine: Engine) -> AsyncIterator[DockerWatcher]:
    names = DockerWatcher(engine.socket)
    task = asyncio.create_task(names.run())
    try:
        await asyncio.wait_for(names.listed.wait(), 10)
        assert names.gap is None
        yield names
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Ears:
    """Collects events until what a test waits for is among them."""

    def __init__(self, names: DockerWatcher) -> None:
        self._names = names
        self._events: list[RuntimeEvent] = []

    async def wait_for_events(self, container_id: str, *kinds: str) -> list[RuntimeEvent]:
        def those() -> list[RuntimeEvent]:
            self._events += self._names.take_events()
            return [event for event in self._events if event.container_id == container_id]

        await until(lambda: sorted(event.kind for event in those()) == sorted(kinds), _PATIENCE_SECONDS)
        return those()


async def test_container_is_reported_from_creation_to_exit(engine: Engine) -> None:
    async with names_of(engine) as names:
        ears = Ears(names)
        web = await asyncio.to_thread(
            engine.run, "life", "sh", "-c", "sleep 0.2; exit 3", labels={"tier": "front"}
        )
        start, die = await ears.wait_for_events(web, "start", "die")
        assert start.name == die.name == "life"
        assert start.startup_seconds is not None
        assert 0 < start.startup_seconds < 30
        assert die.exit_code == 3
        assert 0.2 <= die.unix_seconds - start.unix_seconds < 30
        info = names.get(web)
        assert info is not None
        assert info.labels["tier"] == "front"
        assert info.restarts == 0
        assert info.startup_seconds == start.startup_seconds


async def test_a_crash_loop_is_counted(engine: Engine) -> None:
    async with names_of(engine) as names:
        command = ("sh", "-c", "sleep 0.1; exit 1")
        web = await asyncio.to_thread(engine.run, "loop", *command, extra=["--restart=on-failure:2"])
        await Ears(names).wait_for_events(web, "start", "die", "start", "die", "start", "die")
        info = names.get(web)
        assert info is not None
        assert info.restarts == 2


async def test_oom_kill_is_reported(engine: Engine) -> None:
    async with names_of(engine) as names:
        greedy = await asyncio.to_thread(
            engine.run, "greedy", "sh", "-c", "sleep 0.5; tail -c 100m /dev/zero", memory="8m"
        )
        # The engine receives the kill and the exit from two sources, and sends them in either order.
        by_kind = {
            event.kind: event for event in await Ears(names).wait_for_events(greedy, "start", "oom", "die")
        }
        assert by_kind["oom"].name == "greedy"
        assert by_kind["die"].exit_code == 137


async def test_names_survive_a_restart_of_the_engine(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agent.sources.docker")
    async with names_of(engine) as names:
        ears = Ears(names)
        web = await asyncio.to_thread(engine.run, "stays", "sleep", "1000")
        await ears.wait_for_events(web, "start")
        before = names.get(web)
        await asyncio.to_thread(engine.stop_daemon)
        await until(lambda: names.gap is not None)
        assert names.get(web) == before
        await asyncio.to_thread(engine.start_daemon)
        await until(lambda: names.gap is None, _PATIENCE_SECONDS)
        assert names.get(web) == before
        later = await asyncio.to_thread(engine.run, "later", "sleep", "1000")
        await ears.wait_for_events(later, "start")
        info = names.get(later)
        assert info is not None
        assert info.name == "later"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_images_follow_the_engine(engine: Engine) -> None:
    async with names_of(engine) as names:
        await until(lambda: names.images is not None and image.NAME in names.images)
        await asyncio.to_thread(engine.docker, "tag", image.NAME, "renamed:2")
        await until(lambda: "renamed:2" in (names.images or ()), _PATIENCE_SECONDS)
        await asyncio.to_thread(engine.docker, "rmi", "renamed:2")
        await until(lambda: "renamed:2" not in (names.images or ()), _PATIENCE_SECONDS)
