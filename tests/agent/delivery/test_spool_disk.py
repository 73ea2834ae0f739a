"""A disk that is really full, and one that may really not be written: small file systems of their own."""

import asyncio
import logging
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent import config
from agent.delivery.sender import ReportSender
from tests.agent.fake_collector import FakeCollector, serving_reports
from tests.lab.parts import require
from tests.lab.reaper import Reaper
from tests.waiting import until
from wire.messages import Gap, NodeState, Report
from wire.resources import Quantities

pytestmark = pytest.mark.lab


@pytest.fixture
def small_disk() -> Iterator[Path]:
    require("host")
    with Reaper() as reaper:
        disk = reaper.make_directory("small-disk")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small-disk", disk], check=True)
        yield disk


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


def report(sequence: int) -> Report:
    gaps = tuple(Gap(f"{sequence} {number}", f"{hash((sequence, number)):x}" * 20) for number in range(20))
    state = NodeState(used=Quantities(), capacity=Quantities(), gaps=gaps)
    return Report(node="n", boot="b", sequence=sequence, at=1.0, state=state)


class Node:
    """An agent's outbox on a small disk, and a monotonic clock that the test turns."""

    def __init__(self, collector: config.DeliveryConfig, path: Path) -> None:
        self.now = 0.0
        self.sequence = 0
        self.sender = ReportSender(
            collector, config.StorageConfig(directory=str(path.parent)), monotonic=lambda: self.now
        )

    def lacks(self) -> str:
        return self.sender.spool.gap.why if self.sender.spool.gap else ""

    async def report(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 3.0
            self.sequence += 1
            self.sender.enqueue(report(self.sequence))
            await until(lambda: self.sender._writing_count == 0)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "agent.delivery.spool"]


async def delivered(node: Node, receiver: FakeCollector) -> None:
    """All reports have arrived, in order, once."""
    await until(lambda: len(node.sender) == 0)
    assert receiver.sequences("b") == list(range(1, node.sequence + 1))


async def test_a_disk_that_fills_up_and_has_room_again(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    receiver = FakeCollector()
    async with serving_reports(receiver) as settings:
        node = Node(settings, small_disk / "spool.db")
        await node.report(5)
        ballast = fill(small_disk)
        await node.report(50)
        assert "the disk is full" in node.lacks()
        assert len(node.sender) == 55
        assert len(lines(caplog)) == 1

        ballast.unlink()
        await node.report(20)
        assert not node.lacks()
        assert len(lines(caplog)) == 2
        assert "works again" in lines(caplog)[1]
        sending = asyncio.create_task(node.sender.run())
        await delivered(node, receiver)
        await node.sender.close()
        await sending


async def test_reports_go_on_past_a_disk_that_stays_full(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = FakeCollector()
    async with serving_reports(receiver) as settings:
        node = Node(settings, small_disk / "spool.db")
        await node.report(20)
        fill(small_disk)
        await node.report(20)
        sending = asyncio.create_task(node.sender.run())
        await delivered(node, receiver)
        await node.report(50)
        await delivered(node, receiver)
        assert all(times == 1 for times in receiver.times_taken.values()), "also what could not be deleted"
        await node.sender.close()
        await sending
    assert 1 <= len(lines(caplog)) <= 2


async def test_a_spool_that_filled_the_disk_itself_uses_it_again_when_it_was_emptied(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = FakeCollector()
    async with serving_reports(receiver) as settings:
        node = Node(settings, small_disk / "spool.db")
        await node.report(1000)
        assert node.lacks()
        sending = asyncio.create_task(node.sender.run())
        await delivered(node, receiver)
        await node.report(20)
        assert not node.lacks()
        await delivered(node, receiver)
        await node.sender.close()
        await sending
    assert len(lines(caplog)) == 1


async def test_disk_that_becomes_read_only_and_writable_again(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = FakeCollector()
    async with serving_reports(receiver) as settings:
        path = small_disk / "spool.db"
        before = Node(settings, path)
        await before.report(3)
        # It dies here, holding the file open no longer.
        await before.sender._on_disk(before.sender.spool.close)
        remount(small_disk, "ro")
        node = Node(settings, path)
        node.sequence = 3
        await node.report(3)
        assert node.lacks()
        assert len(lines(caplog)) == 1
        remount(small_disk, "rw")
        await node.report(20)
        assert not node.lacks()
        sending = asyncio.create_task(node.sender.run())
        await delivered(node, receiver)
        await node.sender.close()
        await sending
        before.sender._disk.shutdown()
    assert len(lines(caplog)) == 1


async def test_read_only_directory_is_reported_with_its_path(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remount(small_disk, "ro")
    receiver = FakeCollector()
    async with serving_reports(receiver) as settings:
        node = Node(settings, small_disk / "deep" / "down" / "spool.db")
        await node.report(3)
        sending = asyncio.create_task(node.sender.run())
        await delivered(node, receiver)
        await node.sender.close()
        await sending
    (line,) = lines(caplog)
    assert "spool.db" in line
    assert "read-only file system" in line
