"""Finished containers on Docker hosts: engines in memory, and a real one."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from collector.act.drivers.engine import client
from collector.act.drivers.interface import DriverError, RefusedError
from collector.act.records import Decision, Load, Pause, Step, StepState, Trigger
from collector.common.orchestrator import NodeView
from collector.config import CollectorConfig, DriverConfig
from collector.decide.policies.actions import Kill
from collector.features.cleanup.controllers import _MOST, Cleanup
from collector.features.cleanup.settings import CleanupConfig
from tests.collector.act.builders import FakeDriver, Stage, actor_of, staged
from tests.collector.builders import HEARTBEAT, START, state
from tests.lab.engines.docker import Engine
from tests.lab.waiting import eventually
from wire.errors import UserError

HOUR = 3600.0


@dataclass
class FakeEngine:
    """Finished containers by name: the hours since they ended."""

    ended: dict[str, float] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Containers that cannot be removed, and whose files cannot be counted."""
    measured: list[str] = field(default_factory=list)
    is_away: bool = False

    async def get(self, path: str, kind: type[Any], **query: str) -> Any:
        if self.is_away:
            raise DriverError("no Docker engine answers")
        if path == "/containers/json":
            assert (query["all"], query["filters"]) == ("true", '{"status":["exited"]}')
            listed = [{"Id": name, "Created": START - hours * HOUR - 1} for name, hours in self.ended.items()]
            return msgspec.convert(listed, kind)
        name = path.split("/")[2]
        if query.get("size") == "true":
            self.measured.append(name)
            if name in self.broken:
                raise DriverError("timeout")
        ended = datetime.fromtimestamp(START - self.ended[name] * HOUR, UTC).isoformat()
        described = {
            "Id": name,
            "Name": f"/{name}",
            "State": {"Status": "exited", "FinishedAt": ended},
            "SizeRw": 1000,
        }
        return msgspec.convert(described, kind)

    async def delete(self, path: str, **query: str) -> None:
        assert not query, "neither volumes nor running containers are removed"
        name = path.split("/")[2]
        if name in self.broken:
            raise RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "device is busy")
        del self.ended[name]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


async def cleanup_of(
    stage: Stage, finished: str = "remove", address: str = "", **engines: FakeEngine
) -> Cleanup:
    config = msgspec.structs.replace(
        stage.core.config,
        driver=DriverConfig(name="docker", engines={"alpha": address}),
        cleanup=CleanupConfig(finished=cast("Any", finished), after_hours=24.0),
    )
    stage.core = replace(stage.core, config=config)
    for node in ("alpha", "beta"):
        stage.send_report(node, state=state(), heartbeat=HEARTBEAT)
    made = Cleanup(await actor_of(stage, FakeDriver()))
    made._engines = client.Engines({name: cast("client.Engine", each) for name, each in engines.items()})
    return made


async def test_what_ended_long_ago_is_removed_and_its_size_is_counted_only_then(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine, away = FakeEngine({"old": 25.0, "new": 23.0}), FakeEngine({"old": 25.0}, is_away=True)
    cleanup = await cleanup_of(stage, alpha=engine, beta=away)
    await cleanup.run_round()
    assert (set(engine.ended), engine.measured) == ({"new"}, ["old"])
    assert "removed finished container old on alpha" in caplog.text
    assert "freed 1000 bytes" in caplog.text
    assert "cannot clean up finished containers on beta: no Docker engine answers" in caplog.text
    stage.clock.now += 2 * HOUR
    await cleanup.run_round()
    assert not engine.ended


async def test_a_dry_run_shows_each_once_and_removes_nothing(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    engine = FakeEngine({"older": 48.0, "old": 25.0})
    cleanup = await cleanup_of(stage, "show", alpha=engine)
    await cleanup.run_round()
    await cleanup.run_round()
    assert engine.ended.keys() == {"older", "old"}
    assert engine.measured == ["older", "old"]
    assert caplog.messages == [
        "would remove finished container older on alpha: frees 1000 bytes, of 1000 bytes on this host",
        "would remove finished container old on alpha: frees 1000 bytes, of 2000 bytes on this host",
    ]


async def test_a_container_that_cannot_be_removed_does_not_keep_the_others(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine({"stuck": 48.0, "old": 25.0}, broken={"stuck"})
    await (await cleanup_of(stage, alpha=engine)).run_round()
    assert engine.ended.keys() == {"stuck"}
    assert "cannot remove finished container stuck on alpha: device is busy" in caplog.text


async def test_a_round_removes_a_bounded_number_and_the_oldest_first(stage: Stage) -> None:
    engine = FakeEngine({f"job-{hours}": float(hours) for hours in range(30, 33 + _MOST)})
    cleanup = await cleanup_of(stage, alpha=engine)
    await cleanup.run_round()
    assert engine.ended.keys() == {"job-30", "job-31", "job-32"}
    await cleanup.run_round()
    assert not engine.ended


async def test_nothing_is_removed_while_paused_or_while_another_collector_acts(stage: Stage) -> None:
    engine = FakeEngine({"old": 25.0})
    cleanup = await cleanup_of(stage, alpha=engine)
    situation = cleanup._situation
    await situation.journal.set_pause(Pause(since=START))
    await cleanup.run_round()
    await situation.journal.set_pause(None)
    situation.holder = "another"
    await cleanup.run_round()
    assert (engine.ended, engine.measured) == ({"old": 25.0}, [])
    situation.holder = None
    await cleanup.run_round()
    assert not engine.ended


async def test_a_host_that_opted_out_or_is_unknown_keeps_its_containers(stage: Stage) -> None:
    engine, unknown = FakeEngine({"old": 25.0}), FakeEngine({"old": 25.0})
    cleanup = await cleanup_of(stage, alpha=engine, gamma=unknown)
    stage.core.registry.tables.put_status(NodeView(name="alpha", labels={"wattpack.act": "never"}))
    await cleanup.run_round()
    assert engine.ended
    assert unknown.ended


def test_it_is_off_by_default_and_only_for_docker_hosts() -> None:
    assert CollectorConfig().section(CleanupConfig).finished == "keep"
    with pytest.raises(UserError, match=r"only driver\.name = docker"):
        msgspec.structs.replace(CollectorConfig(), cleanup=CleanupConfig(finished="show"))


@pytest.mark.lab
@pytest.mark.slow
async def test_a_real_engine_loses_only_what_finished_and_keeps_its_volumes(
    stage: Stage, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write = ("sh", "-c", "head -c 3000000 /dev/zero >/big; echo x >/data/x")
    volume = ("--volume=kept:/data",)
    engine.run("job", *write, extra=volume)
    engine.run("wanted", "true", labels={"wattpack.act": "never"})
    engine.run("stopped", "sleep", "1000", extra=("--restart=unless-stopped",))
    engine.stop("stopped")
    engine.run("waits", "sleep", "1000")
    engine.stop("waits")
    engine.run("runs", "sleep", "1000")
    engine.docker("wait", "job", "wanted")
    job, waits = engine.inspect("job"), engine.inspect("waits")
    ended = datetime.fromisoformat(job["State"]["FinishedAt"]).timestamp()
    try:
        await record_stop(stage, waits["Id"])
        stays = {"wanted", "stopped", "waits", "runs"}
        for finished, hours in (("remove", 23.9), ("show", 24.1)):
            stage.clock.now = ended + hours * HOUR
            cleanup = await cleanup_of(stage, finished, address=f"unix://{engine.socket}")
            async with client.open_engines(stage.core.config.driver) as cleanup._engines:
                await cleanup.run_round()
            assert names(engine) == {"job", *stays}
        cleanup = await cleanup_of(stage, address=f"unix://{engine.socket}")
        async with AsyncExitStack() as stack:
            await cleanup.start(stack)
            # It is logged once the engine has answered.
            await asyncio.to_thread(eventually, lambda: "removed finished container" in caplog.text, 60)
        assert names(engine) == stays
        [shown] = [each for each in caplog.messages if each.startswith("would remove")]
        [removed] = [each for each in caplog.messages if each.startswith("removed")]
        frees = int(removed.rsplit(" ", 2)[1])
        assert 3_000_000 <= frees < 3_100_000
        assert f"frees {frees} bytes" in shown
        assert "kept" in engine.docker("volume", "ls", "--quiet").split()
    finally:
        engine.remove(*engine.docker("ps", "--all", "--quiet").split())
        engine.docker("volume", "rm", "kept")


def names(engine: Engine) -> set[str]:
    return set(engine.docker("ps", "--all", "--format={{.Names}}").split())


async def record_stop(stage: Stage, container: str) -> None:
    """Record that a container was stopped until there is room."""
    situation = (await actor_of(stage, FakeDriver())).situation
    step = Step(
        action=Kill(task=container, node="alpha", target=None, reasons=("because",)),
        state=StepState.VERIFIED,
        started_at=START,
        done_at=START,
    )
    decision = Decision(
        id=situation.journal.new_id(),
        at=START,
        trigger=Trigger.ALERT,
        policy="draps",
        settings={},
        driver="docker",
        dry=False,
        steps=(step,),
        before=Load(at=START, watts=None, used_ratios={}, alerts=()),
        ended_at=START,
    )
    await situation.journal.add(decision, b"")
