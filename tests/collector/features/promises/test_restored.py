"""The ledger of promises survives restarts and kills: nothing is lost, and nothing counts twice."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from collector.common.outages import Outages
from collector.config import CollectorConfig
from collector.features.promises.jobs import store_promises
from collector.features.promises.live import PromiseTracker
from collector.features.promises.snapshot import TaskPromises
from collector.history.sqlite.history import open_history
from collector.main import restore, restore_usage, running
from collector.observe.registry import Registry
from collector.runtime.analysis import restored_analysis
from collector.runtime.parts import Core
from collector.runtime.revocation import Revocations
from collector.serve.ingest import store_reports
from tests.collector.builders import HEARTBEAT, START, Client, Clock, partial_report, settings, state
from tests.collector.features.promises.tracking.builders import note_silence, promised, seconds
from wire.messages import ContainerState, Event, EventKind, Report

_NODES = ("alpha", "beta")
_SERVICES = ("shop", "store")
_DOWN_SECONDS = 10 * HEARTBEAT.beacon_seconds


@dataclass
class _Cluster:
    """Nodes that start and stop containers; each change is a report."""

    now: float = START
    sequences: dict[str, int] = field(default_factory=dict)
    boots: dict[str, int] = field(default_factory=dict)
    containers: dict[str, dict[str, ContainerState]] = field(
        default_factory=lambda: {name: {} for name in _NODES}
    )
    count: int = 0

    def report(self, node: str, **parts: Any) -> Report:
        self.sequences[node] = self.sequences.get(node, 0) + 1
        boot = f"boot{self.boots.get(node, 0)}"
        return partial_report(node, boot=boot, sequence=self.sequences[node], at=self.now, **parts)

    def heartbeat(self, node: str) -> Report:
        there = tuple(self.containers[node].values())
        return self.report(node, state=state(), containers=there, heartbeat=HEARTBEAT)

    def restart_agent(self, node: str) -> Report:
        self.boots[node] = self.boots.get(node, 0) + 1
        self.sequences[node] = 0
        return self.heartbeat(node)

    def start(self, node: str, service: str) -> Report:
        self.count += 1
        new = promised(f"c{self.count}", service, started_at=self.now)
        self.containers[node][new.id] = new
        return self.report(node, containers=(new,), events=(Event(EventKind.STARTED, self.now, new.id),))

    def stop(self, node: str) -> Report:
        if not self.containers[node]:
            return self.report(node)
        gone = next(iter(self.containers[node]))
        del self.containers[node][gone]
        return self.report(node, gone=(gone,), events=(Event(EventKind.DIED, self.now, gone, exit_code=1),))


_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["start", "stop", "heartbeat", "agent", "again", "silence", "store", "kill", "kill"]),
        st.sampled_from(_NODES),
        st.sampled_from(_SERVICES),
        st.floats(1.0, 20.0),
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.slow
@hypothesis_settings(max_examples=25)
@given(_OPERATIONS)
def test_a_collector_that_is_killed_again_and_again_has_the_same_ledger(
    operations: Sequence[tuple[str, str, str, float]],
) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(_compare(settings(Path(folder) / "history.db"), operations))


async def _compare(config: CollectorConfig, operations: Sequence[tuple[str, str, str, float]]) -> None:
    cluster, undisturbed = _Cluster(), Registry(config)
    sent: list[Report] = []
    pending = list(operations)
    for node in _NODES:
        first = cluster.heartbeat(node)
        sent.append(first)
        undisturbed.apply(first, cluster.now)
    while True:
        async with open_history(config, Outages()) as history:
            core = Core(config, Registry(config), history, lambda: cluster.now)
            await restore(core)
            await restore_usage(core, await restored_analysis(core), Revocations(core, frozenset))
            for registry in (core.registry, undisturbed):
                registry.liveness.restored_at = 0.0
                note_silence(registry, cluster.now)
            if len(sent) == len(_NODES) and not history.stats().reports:
                await store_reports(core, sent)
            while pending:
                name, node, service, wait_seconds = pending.pop(0)
                if name == "kill":
                    break
                await _operate(name, node, service, wait_seconds, cluster, core, undisturbed, sent)
            found = seconds(core.registry.part(PromiseTracker).standings(cluster.now))
            expected = seconds(undisturbed.part(PromiseTracker).standings(cluster.now))
            assert found.keys() == expected.keys()
            for key, times in expected.items():
                assert found[key] == pytest.approx(times, abs=1e-6), key
            if not pending:
                return


async def _operate(  # noqa: PLR0913, PLR0917 - the two collectors, and all that may happen to them
    name: str,
    node: str,
    service: str,
    wait_seconds: float,
    cluster: _Cluster,
    core: Core,
    undisturbed: Registry,
    sent: list[Report],
) -> None:
    cluster.now += wait_seconds
    match name:
        case "start":
            new = cluster.start(node, service)
        case "stop":
            new = cluster.stop(node)
        case "heartbeat":
            new = cluster.heartbeat(node)
        case "agent":
            new = cluster.restart_agent(node)
        case "again":
            await store_reports(core, sent[-3:])
            return
        case "silence":
            cluster.now += _DOWN_SECONDS
            for registry in (core.registry, undisturbed):
                registry.liveness.restored_at = 0.0
                note_silence(registry, cluster.now)
            return
        case _:
            await store_promises(core)
            return
    sent.append(new)
    undisturbed.apply(new, cluster.now)
    receipt = await store_reports(core, [new])
    assert receipt.accepted == 1


@pytest.mark.slow
async def test_events_that_were_acknowledged_before_a_kill_are_not_lost(tmp_path: Path) -> None:
    killed = multiprocessing.get_context("spawn").Process(target=_report_until_killed, args=(tmp_path,))
    killed.start()
    await asyncio.to_thread(killed.join)
    assert killed.exitcode == -signal.SIGKILL
    clock = Clock(START + 300)
    async with running(settings(tmp_path / "history.db"), clock=clock) as collector:
        found = seconds(collector.core.registry.part(PromiseTracker).standings(clock.now))
        assert found == {("shop", "1"): (250, 30), ("store", "1"): (100, 0)}
        promises = collector.core.registry.tables.snapshot(clock.now).part(TaskPromises)
        assert promises is not None
        assert [promises.promises[code].name for code in promises.promise] == ["silver", "silver"]


def _report_until_killed(folder: Path) -> None:
    asyncio.run(_report(folder))


async def _report(folder: Path) -> None:
    clock, cluster = Clock(), _Cluster()

    async def send(client: Client, made: Report, at: float) -> None:
        clock.now = at
        await client.send(msgspec.structs.replace(made, at=at))

    async with (
        running(settings(folder / "history.db"), clock=clock) as collector,
        aiohttp.ClientSession() as http,
    ):
        client = Client(collector.address.url, http, clock)
        await send(client, cluster.heartbeat("alpha"), START)
        web = promised("web", "shop", started_at=START + 20)
        start = cluster.report(
            "alpha", containers=(web,), events=(Event(EventKind.STARTED, START + 20, web.id),)
        )
        await send(client, start, START + 20)
        await store_promises(collector.core)
        end = cluster.report("alpha", gone=(web.id,), events=(Event(EventKind.DIED, START + 100, web.id),))
        await send(client, end, START + 100)
        again = msgspec.structs.replace(web, started_at=START + 130)
        start = cluster.report(
            "alpha", containers=(again,), events=(Event(EventKind.STARTED, START + 130, web.id),)
        )
        await send(client, start, START + 130)
        other = promised("db", "store", started_at=START + 200)
        event = Event(EventKind.STARTED, START + 200, other.id)
        await send(client, cluster.report("alpha", containers=(other,), events=(event,)), START + 200)
        os.kill(os.getpid(), signal.SIGKILL)
