"""Computations in a child process: the same answers as without it, and what happens when it ends."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import hypothesis
import numpy as np
import psutil
import pytest
from hypothesis import strategies as st

from collector.analysis.analysis import Analysis
from collector.analysis.bottlenecks import findings
from collector.common.errors import QuestionError, WorkerUnavailable
from collector.common.outages import Outages
from collector.decide.policies.resolve import resolve
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.runtime.analysis import AnalysisJob
from collector.runtime.handover import Held, Keep, Piece, Receiver, Sender, pieces
from collector.runtime.parts import Core
from collector.runtime.worker import Worker, child_process
from collector.runtime.worker_process import memory_bytes
from collector.serve.api.cluster import ready
from collector.snapshot.codec import pack
from collector.snapshot.tables import Snapshot
from tests.collector.builders import START, Clock, apply_report, settings
from tests.collector.report_strategies import clusters
from wire.messages import Report

Value = TypeVar("Value")
MINUTE = 60.0


def example(strategy: st.SearchStrategy[Value], condition: Callable[[Value], bool], seed: int = 1) -> Value:
    """A value that meets a condition, always the same one, and not the smallest."""
    only_generated = hypothesis.settings(phases=[hypothesis.Phase.generate], database=None)
    return hypothesis.find(strategy, condition, settings=only_generated, random=Random(seed))  # noqa: S311


def pid() -> int:
    return os.getpid()


def ask_wrongly() -> None:
    raise QuestionError("no such thing", "$.thing")


def fail() -> None:
    raise ZeroDivisionError("by mistake")


def warn(node: str) -> None:
    logging.getLogger("collector.odd").warning("node %s is odd", node)


def wait_for(path: str, seconds: float) -> None:
    Path(path).touch()
    time.sleep(seconds)


class Total:
    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int) -> Iterator[int]:
        self.total += number
        yield self.total


async def until(what: object, *, seconds: float = 20.0) -> None:
    assert callable(what)
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.01)


@asynccontextmanager
async def core_with(path: Path, worker: Worker, outages: Outages, clock: Clock) -> AsyncIterator[Core]:
    config = settings(path)
    async with open_sqlite(config.history) as history:
        yield Core(config, Registry(config), history, clock, worker=worker, outages=outages)


@pytest.mark.slow
async def test_computations_run_elsewhere_and_their_errors_are_those_of_the_caller() -> None:
    async with child_process(Outages()) as worker:
        await until(lambda: worker.pid)
        assert await worker.run(pid) == worker.pid != os.getpid()
        assert psutil.Process(worker.pid).nice() > psutil.Process().nice()
        with pytest.raises(QuestionError, match="no such thing") as found:
            await worker.run(ask_wrongly)
        assert found.value.field == "$.thing"
        with pytest.raises(ZeroDivisionError, match="by mistake") as error:
            await worker.run(fail)
        assert "in fail" in "".join(error.value.__notes__)
        assert [await worker.run_kept(Total, worker.starts, Total.add, each) for each in (1, 2)] == [[1], [3]]
        child = psutil.Process(worker.pid)
    assert not child.is_running()


@pytest.mark.slow
async def test_a_killed_process_fails_its_calls_shows_and_returns_with_a_full_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outages, reports = Outages(), example(clusters(), lambda each: len(each) > 3)
    async with (
        child_process(outages) as worker,
        core_with(tmp_path / "history.db", worker, outages, Clock(START + MINUTE)) as core,
        core_with(tmp_path / "other.db", Worker(), Outages(), Clock(START + MINUTE)) as other,
    ):
        await until(lambda: worker.pid)
        job, same = AnalysisJob(core), AnalysisJob(other)
        for report in reports:
            for each in (core, other):
                apply_report(each.registry, report, report.at)
        check_same(await job.analyse(), await same.analyse())
        started = tmp_path / "started"
        waiting = asyncio.create_task(worker.run(wait_for, str(started), 60.0))
        await until(started.exists)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerUnavailable, match="the process that computes ended during a computation"):
            await waiting
        await until(lambda: outages.problems)
        assert "signal 9" in (await ready(core)).problems[0]
        with pytest.raises(WorkerUnavailable, match="is started again"):
            await job.analyse()
        await until(lambda: worker.pid)
        check_same(await job.analyse(), await same.analyse())
        await until(lambda: not outages.problems)
        assert caplog.text.count("signal 9") == 1


@pytest.mark.slow
async def test_a_process_that_ends_again_and_again_is_one_outage(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, a process takes long to start: each end is still an early one.
    monkeypatch.setattr("collector.runtime.worker._LONGEST_PAUSE_SECONDS", 1e6)
    outages = Outages()
    async with child_process(outages) as worker:
        for starts in (1, 2):
            await until(lambda starts=starts: worker.pid and worker.starts == starts)
            assert not outages.problems or starts > 1
            await worker.run(pid)
            assert not outages.problems, "it has computed something"
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            await until(lambda: outages.problems)
        await until(lambda: worker.pid)
        await worker.run(pid)
        assert len(outages.problems) == 1
    assert caplog.text.count("signal 9") == 2


@pytest.mark.slow
async def test_the_process_logs_where_the_collector_does(caplog: pytest.LogCaptureFixture) -> None:
    async with child_process(Outages()) as worker:
        await until(lambda: worker.pid)
        await worker.run(warn, "web")
        assert caplog.record_tuples == [("collector.odd", logging.WARNING, "node web is odd")]


@pytest.mark.parametrize(
    ("line", "path", "name"),
    [
        ("0::/system.slice/it.service", "system.slice", "memory.max"),
        ("4:memory:/docker/1", "memory/docker/1", "memory.limit_in_bytes"),
        ("4:memory:/not/here", "memory", "memory.limit_in_bytes"),
    ],
)
def test_the_memory_of_the_process_is_that_of_its_control_groups(
    tmp_path: Path, line: str, path: str, name: str
) -> None:
    own = tmp_path / "own"
    assert memory_bytes(tmp_path, own) == psutil.virtual_memory().total
    own.write_text(f"1:name=systemd:/\n{line}\n")
    (tmp_path / path).mkdir(parents=True)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_bytes(tmp_path, own) == psutil.virtual_memory().total
    (tmp_path / path / name).write_text("1000000\n")
    assert memory_bytes(tmp_path, own) == 1_000_000


@pytest.mark.slow
async def test_a_process_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    outages, start, failed = Outages(), subprocess.Popen, asyncio.Event()

    def fail_once(*given: Any, **options: Any) -> "subprocess.Popen[bytes]":
        if not failed.is_set():
            failed.set()
            raise BlockingIOError("no more processes")
        return start(*given, **options)

    monkeypatch.setattr(subprocess, "Popen", fail_once)
    async with child_process(outages) as worker:
        await failed.wait()
        with pytest.raises(WorkerUnavailable, match="is started again"):
            await worker.run(pid)
        await until(lambda: worker.pid)
        assert await worker.run(pid) == worker.pid


@pytest.mark.slow
def test_the_process_ends_with_the_collector_also_while_it_computes(tmp_path: Path) -> None:
    script = f"""
import asyncio
from collector.common.outages import Outages
from collector.runtime.worker import child_process
from tests.collector.runtime.test_worker import wait_for

async def main():
    async with child_process(Outages()) as worker:
        while worker.pid is None:
            await asyncio.sleep(0.01)
        print(worker.pid, flush=True)
        await worker.run(wait_for, {str(tmp_path / "started")!r}, 60.0)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        child.send_signal(signal.SIGINT)
        parent.kill()
        deadline = time.monotonic() + 1.0
        # Nobody may wait for an orphan, so it remains as a zombie in some containers.
        while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def check_same(one: Analysis, other: Analysis) -> None:
    assert one.services.keys() == other.services.keys()
    assert (one.groups, one.at) == (other.groups, other.at)
    np.testing.assert_array_equal(one.capacity, other.capacity)
    for name, each in one.services.items():
        assert str(each) == str(other.services[name])


def received(sender: Sender, receiver: Receiver, snapshot: Snapshot) -> Snapshot:
    """The snapshot on the other side."""
    *messages, held = sender.messages(snapshot)
    for message in messages:
        assert isinstance(message, Piece | Keep)
        receiver.take(message)
    assert isinstance(held, Held)
    found: Snapshot = receiver.get(held)
    return found


@hypothesis.given(clusters(), st.integers(1, 3))
def test_a_snapshot_arrives_as_it_was_sent_and_what_did_not_change_is_not_sent_again(
    reports: list[Report], after: int
) -> None:
    registry, sender, receiver = Registry(settings()), Sender(), Receiver()
    now = START
    for number, report in enumerate(reports):
        now = max(now, report.at)
        apply_report(registry, report, now)
        if number % after == 0:
            taken = registry.tables.snapshot(now + number)
            assert pack(received(sender, receiver, taken)) == pack(taken)
            assert [type(each) for each in sender.messages(taken)] == [Keep, Held]
            # Pending tasks change nodes; what was computed from the tasks is shared.
            taken.cached("answer", lambda: 42)
            there = received(sender, receiver, taken)
            there.cached("answer", lambda: 43)
            folded = taken.with_pending(replace(taken.nodes), taken.services, taken.pending, 1)
            assert received(sender, receiver, folded).cached("answer", lambda: 44) == 43


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_large_values_are_sent_in_parts_that_count_what_is_inside(count: int) -> None:
    of_nodes = tuple(frozenset(f"image{node}.{each}" for each in range(50)) for node in range(count))
    for value in (of_nodes, dict(enumerate(of_nodes))):
        parts = list(pieces(value))
        assert max(map(len, parts)) <= 40
        assert {type(each) for each in parts} == {type(value)}
        assert [each for part in parts for each in part] == list(value)


@pytest.mark.slow
async def test_both_ways_give_the_same_answers(tmp_path: Path) -> None:
    outages, clock = Outages(), Clock(START)
    found = [example(clusters(), lambda each: len(each) > 2, seed) for seed in range(6)]
    chosen = [resolve(name, {}, "rebalance") for name in ("least-watts", "draps", "energy4cloud")]
    async with child_process(outages) as worker:
        await until(lambda: worker.pid)
        for number, reports in enumerate(found):
            async with (
                core_with(tmp_path / f"{number}.db", worker, outages, clock) as core,
                core_with(tmp_path / f"{number}-direct.db", Worker(), Outages(), clock) as other,
            ):
                job, same = AnalysisJob(core), AnalysisJob(other)
                for report in reports:
                    clock.now = max(clock.now, report.at) + 1.0
                    for each in (core, other):
                        apply_report(each.registry, report, clock.now)
                    check_same(await job.analyse(), await same.analyse())
                    assert core.registry.tables.snapshot(clock.now).tasks.group.tolist() == (
                        other.registry.tables.snapshot(clock.now).tasks.group.tolist()
                    )
                snapshot = core.registry.tables.snapshot(clock.now)
                assert await worker.run(findings, snapshot) == findings(snapshot)
                for policy in chosen:
                    assert repr(await worker.run(policy.rebalance, snapshot)) == repr(
                        policy.rebalance(snapshot)
                    )
