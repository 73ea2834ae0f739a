import asyncio
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.act.lease import Lease, lease_path
from collector.analysis.analysis import Analysis
from collector.common.liveness import Liveness
from collector.config import CollectorConfig, ControlConfig, HttpConfig
from collector.features import FEATURES
from collector.history.interface import StoredHistograms
from collector.history.sqlite.history import History
from collector.history.sqlite.schema import VERSION
from collector.main import running
from collector.runtime.analysis import AnalysisJob
from tests.collector.act.builders import FakeDriver
from tests.collector.builders import (
    HEARTBEAT,
    START,
    Client,
    Clock,
    collecting,
    container,
    partial_report,
    report,
    settings,
)
from tests.processes import free_port
from wire.address import parse_address
from wire.errors import UserError
from wire.messages import Alert, ContainerUsage, Event, EventKind, encode
from wire.resources import Resource
from wire.sketch import Sketch


async def test_a_restarted_collector_is_useful_at_once(tmp_path: Path) -> None:
    config = settings(tmp_path / "made" / "on" / "the" / "way" / "history.db")
    clock = Clock()
    async with collecting(config, clock) as collector:
        usage = ContainerUsage("id-of-web", cpu=Sketch({3: 5}, zeros=2))
        await collector.send(
            partial_report(sequence=1, heartbeat=msgspec.structs.replace(HEARTBEAT, usage=(usage,))),
            partial_report(sequence=2, at=START + 1, alerts=(Alert(Resource.CPU, START, "busy"),)),
            report(sequence=3, at=START + 2, containers=[container("web"), container("db")]),
            partial_report(
                sequence=4, at=START + 3, gone=("id-of-db",), events=(Event(EventKind.JOINED, START),)
            ),
            partial_report(sequence=6, at=START + 5, containers=(container("new"),)),
        )
        await collector.send(report("beta", power=None))
        before = await everything(collector)
    assert [len(each) for each in before] == [2, 2, 1, 1]
    async with collecting(config, clock) as collector:
        assert await everything(collector) == before
        assert "sequence_gaps_total 0.0" in await metrics(collector)
        receipt = await collector.send(partial_report(sequence=4), partial_report(sequence=5, at=START + 4))
        assert (receipt.accepted, receipt.duplicates) == (1, 1)


async def test_a_start_answers_what_is_known_and_decides_nothing_until_usage_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings(tmp_path / "history.db")
    usage = ContainerUsage("id-of-web", cpu=Sketch({3: 5}))
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(usage,))
    clock = Clock()
    async with collecting(config, clock) as collector:
        await collector.send(msgspec.structs.replace(report(containers=[container()]), heartbeat=heartbeat))
        clock.now += 10  # a snapshot is used for a moment
        hint = await answer(collector, "POST", "/v1/hints/placement")
        before = await everything(collector)
    served, go_on, load = asyncio.Event(), asyncio.Event(), History.load_usage

    async def load_later(*given: Any) -> StoredHistograms:
        served.set()
        await go_on.wait()
        return await load(*given)

    monkeypatch.setattr(History, "load_usage", load_later)
    with free_port() as (port, held):
        held.close()
        config = msgspec.structs.replace(config, http=HttpConfig(listen=f"127.0.0.1:{port}"))

        async def restart() -> list[list[dict[str, Any]]]:
            async with collecting(config, clock) as complete:
                assert (await answer(complete, "GET", "/readyz"))[0] == HTTPStatus.OK
                assert await answer(complete, "POST", "/v1/hints/placement") == hint
                found = await everything(complete)
                assert (await complete.send(partial_report(sequence=2, at=START + 1))).accepted == 1
                return found

        starting = asyncio.create_task(restart())
        await served.wait()
        async with aiohttp.ClientSession() as http:
            early = Client(f"http://127.0.0.1:{port}", http, Clock())
            [web] = await early.containers()
            assert (web["name"], web["envelope"]["p90"]) == ("web", {})
            assert [(each["name"], each["availability"]) for each in await early.nodes()] == [("alpha", None)]
            # Without this feature, no policy makes room.
            room = [("POST", "/v1/room")] if "energy4cloud" in FEATURES else []
            deploy = [("POST", "/v1/deploy")] if "deployments" in FEATURES else []
            for method, path in (
                ("GET", "/readyz"),
                ("POST", "/v1/hints/placement"),
                *room,
                *deploy,
                ("POST", "/v1/reports"),
            ):
                status, detail = await answer(early, method, path)
                assert status == HTTPStatus.SERVICE_UNAVAILABLE, path
                assert "until the usage of containers is restored" in detail["detail"]
        go_on.set()
        after = await starting
    assert after[1:] == before[1:]


async def test_a_start_gives_no_hint_before_the_first_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, clock = settings(tmp_path / "history.db"), Clock()
    async with collecting(config, clock) as collector:
        await collector.send(report(containers=[container()]))
    analyse, refused = AnalysisJob.analyse, asyncio.Event()

    async def analyse_later(job: AnalysisJob) -> Analysis:
        await refused.wait()
        return await analyse(job)

    monkeypatch.setattr(AnalysisJob, "analyse", analyse_later)
    with free_port() as (port, held):
        held.close()
        config = msgspec.structs.replace(config, http=HttpConfig(listen=f"127.0.0.1:{port}"))

        async def restart() -> int:
            async with collecting(config, clock) as complete:
                return (await answer(complete, "POST", "/v1/hints/placement"))[0]

        starting = asyncio.create_task(restart())
        async with aiohttp.ClientSession() as http:
            early, status = Client(f"http://127.0.0.1:{port}", http, Clock()), None
            while status is None:
                with suppress(aiohttp.ClientConnectionError):
                    status, _ = await answer(early, "POST", "/v1/hints/placement")
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert (await answer(early, "POST", "/v1/hints/placement"))[0] == HTTPStatus.SERVICE_UNAVAILABLE
        refused.set()
        assert await starting == HTTPStatus.OK


async def test_a_collector_that_restores_leaves_the_lease_to_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, clock = settings(tmp_path / "history.db"), Clock()
    async with collecting(config, clock) as collector:
        await collector.send(report())
    other, load = Lease(lease_path(config), "other", config.control.lease_seconds), History.load_usage

    async def load_later(*given: Any) -> StoredHistograms:
        clock.now += 600
        assert (await other.take()).mine
        return await load(*given)

    monkeypatch.setattr(History, "load_usage", load_later)
    async with (
        running(config, clock=clock, driver=FakeDriver()) as collecting_again,
        aiohttp.ClientSession() as http,
    ):
        status, control = await Client(collecting_again.address.url, http, clock).ask("/v1/control")
        assert (status, control["lease_holder"]) == (HTTPStatus.OK, "other")
    assert (await other.take()).mine


async def test_of_two_collectors_with_copies_of_one_history_one_acts(tmp_path: Path) -> None:
    """A host that was cloned, or a history that was restored from a backup while the first one runs."""
    copies = [settings(tmp_path / name / "history.db") for name in ("one", "other")]
    async with running(copies[0], clock=Clock(), driver=FakeDriver()):
        pass
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    shared = ControlConfig(lease_file=str(tmp_path / "lease.db"))
    one, other = (msgspec.structs.replace(each, control=shared) for each in copies)
    async with (
        running(one, clock=Clock(), driver=FakeDriver()) as first,
        running(other, clock=Clock(), driver=FakeDriver()) as second,
        aiohttp.ClientSession() as http,
    ):
        holders = [
            (await Client(each.address.url, http, Clock()).ask("/v1/control"))[1]["lease_holder"]
            for each in (first, second)
        ]
    assert holders[0] is None
    assert holders[1] is not None


async def test_nodes_are_not_down_because_a_start_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, clock = settings(tmp_path / "history.db"), Clock()
    async with collecting(config, clock) as collector:
        await collector.send(report())
    load = History.load_usage

    async def load_later(*given: Any) -> StoredHistograms:
        clock.now += 600
        return await load(*given)

    monkeypatch.setattr(History, "load_usage", load_later)
    async with running(config, clock=clock) as started:
        core = started.core
        assert core.registry.node_count(clock.now)[Liveness.UP] == 1
        assert (await core.snapshot()).nodes.liveness.tolist() == [Liveness.UP]
        clock.now += 600
        assert core.registry.node_count(clock.now)[Liveness.DOWN] == 1
        assert (await core.snapshot()).nodes.liveness.tolist() == [Liveness.DOWN]


async def answer(collector: Client, method: str, path: str) -> tuple[int, Any]:
    bodies = {
        "/v1/reports": encode([partial_report(sequence=2)]),
        "/v1/deploy": b'{"services": [{"name": "web", "replicas": 1}]}',
    }
    async with collector.http.request(
        method,
        collector.url + path,
        data=bodies.get(path, b"{}") if method == "POST" else None,
        headers={"Content-Type": "application/json"},
    ) as response:
        return response.status, await response.json()


async def everything(collector: Client) -> list[list[dict[str, Any]]]:
    containers = await collector.containers()
    nodes = await collector.nodes()
    # The analysis runs at a start: before, these are known only up to the last pass.
    for each in containers:
        del each["group"]
    for each in nodes:
        del each["availability"]
    return [nodes, containers, await collector.alerts(), await collector.events()]


async def test_a_node_has_time_to_report_after_a_restart_before_it_is_forgotten(tmp_path: Path) -> None:
    config = settings(tmp_path / "history.db")
    async with collecting(config) as collector:
        await collector.send(report())
    clock = Clock(START + 7 * 3600)
    async with running(config, clock=clock) as restarted:
        registry = restarted.core.registry
        assert [each.liveness for each in registry.nodes(clock.now)] == [Liveness.DOWN]
        registry.drop_old(clock.now + 5 * 3600)
        assert registry.names() == ["alpha"]
        registry.drop_old(clock.now + 7 * 3600)
        assert registry.names() == []


async def test_old_samples_are_dropped_after_their_retention_of_running_time(tmp_path: Path) -> None:
    config, clock = settings(tmp_path / "history.db", retention_hours=1.0), Clock(START)
    async with collecting(config, clock) as collector:
        await collector.send(report(), report(sequence=2, at=START + 60))
    clock.now += 24 * 3600
    async with running(config, clock=clock) as restarted:
        history = restarted.core.history
        await history.apply_retention(clock.now)
        assert history.stats().reports == 2
        await history.apply_retention(clock.now + 2 * 3600)
        # The last heartbeat stays: the energy counters of the next are held against it.
        assert history.stats().reports == 1


async def metrics(collector: Client) -> str:
    async with collector.http.get(collector.url + "/metrics") as answer:
        return await answer.text()


async def refused(config: CollectorConfig) -> str:
    with pytest.raises(UserError) as complaint:
        async with running(config):
            pass
    return str(complaint.value)


async def test_a_second_collector_on_the_same_file_is_refused(tmp_path: Path) -> None:
    config = settings(tmp_path / "history.db")
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "history.db")
    async with running(config):
        for path in (tmp_path / "history.db", link):
            sentence = await refused(settings(path))
            assert "another collector (process " in sentence
            assert str(path) in sentence
    async with running(config):
        pass


async def test_a_port_in_use_is_refused_and_the_file_is_free_again(tmp_path: Path) -> None:
    async with running(settings()) as first:
        taken = CollectorConfig(
            http=HttpConfig(listen=str(first.address)), history=settings(tmp_path / "x.db").history
        )
        assert "already in use" in await refused(taken)
    async with running(taken):
        pass


async def test_a_file_that_cannot_be_used_is_one_clear_sentence(tmp_path: Path) -> None:
    assert "is a folder" in await refused(settings(tmp_path))

    (tmp_path / "file").touch()
    assert "cannot store the history" in await refused(settings(tmp_path / "file" / "history.db"))
    assert "cannot store the history" in await refused(settings("/proc/none/history.db"))

    (tmp_path / "letter.db").write_text("Dear reader, this is not a database." * 100)
    assert "it is not a database" in await refused(settings(tmp_path / "letter.db"))

    with closing(sqlite3.connect(tmp_path / "theirs.db")) as theirs:
        theirs.execute("CREATE TABLE bookmarks (url TEXT)")
    assert "another program" in await refused(settings(tmp_path / "theirs.db"))

    ours = settings(tmp_path / "ours.db")
    async with running(ours):
        pass
    with closing(sqlite3.connect(tmp_path / "ours.db", isolation_level=None)) as locking:
        locking.execute("BEGIN EXCLUSIVE")
        assert "locked" in await refused(ours)
    # With counts of this version next to it, its header is damaged instead.
    (tmp_path / "ours.db.counts").unlink()
    for version in (VERSION - 1, VERSION + 1):
        with closing(sqlite3.connect(tmp_path / "ours.db")) as other:
            other.execute(f"PRAGMA user_version = {version}")
        refusal = await refused(ours)
        assert f"has format {version}, and this collector reads format {VERSION}" in refusal
        assert "history.path" in refusal


COLLECTOR = """
import asyncio, sys
from collector.main import running
from collector.runtime.analysis import AnalysisJob
from tests.collector.builders import settings

async def main():
    async with running(settings(sys.argv[1])) as collector:
        print(collector.address, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_kill_9_in_the_middle_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", COLLECTOR, str(tmp_path / "history.db")),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    acknowledged: list[tuple[str, int]] = []
    enough = asyncio.Event()

    async def keep_sending(collector: Client, node: str) -> None:
        for sequence in range(1, 100_000):
            receipt = await collector.send(report(node, sequence=sequence, containers=[container()]))
            assert receipt.accepted == 1
            acknowledged.append((node, sequence))
            if len(acknowledged) >= 300:
                enough.set()

    async with aiohttp.ClientSession() as http:
        try:
            address = parse_address((await process.stdout.readline()).decode().strip())
            collector = Client(address.url, http, Clock())
            sending = [asyncio.create_task(keep_sending(collector, f"node-{n}")) for n in range(8)]
            async with asyncio.timeout(60):
                await enough.wait()
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        ended = await asyncio.gather(*sending, return_exceptions=True)
        assert all(isinstance(each, aiohttp.ClientError) for each in ended), ended

    async with collecting(settings(tmp_path / "history.db"), Clock(time.time())) as collector:
        for node, sequence in acknowledged:
            receipt = await collector.send(report(node, sequence=sequence, containers=[container()]))
            assert receipt.duplicates == 1, (node, sequence)
