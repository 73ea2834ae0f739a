"""A disk that is really full: a small file system of its own."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from collector.config import CollectorConfig
from collector.main import running
from tests.collector.builders import altered, collecting, container, report, settings
from tests.lab.reaper import Reaper
from wire.errors import UserError
from wire.messages import encode

pytestmark = pytest.mark.lab


@pytest.fixture
def small_disk() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("small disk: needs root")
    with Reaper() as reaper:
        disk = reaper.make_directory("small-disk")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small-disk", disk], check=True)
        yield disk


def to_the_last_byte(disk: Path) -> CollectorConfig:
    """Settings without a floor of free space."""
    config = settings(disk / "history.db")
    return msgspec.structs.replace(config, history=altered(config.history, min_free_bytes=0))


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


async def test_a_full_disk_is_reported_at_the_start(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(UserError, match="no space left on device"):
        async with running(to_the_last_byte(small_disk)):
            pass


async def test_a_disk_that_fills_up_refuses_reports_until_there_is_room_again(small_disk: Path) -> None:
    many = [container(f"c{number}") for number in range(100)]
    async with collecting(to_the_last_byte(small_disk)) as collector:
        assert (await collector.send(report(sequence=1))).accepted == 1
        ballast = fill(small_disk)
        status, problem = await collector.post(encode([report(sequence=2, containers=many)]))
        assert (status, problem["detail"]) == (
            503,
            "the history is unavailable: the disk is full, or history.max_size_bytes is reached",
        )
        assert (await collector.ask("/readyz"))[0] == 503
        assert (await collector.ask("/healthz"))[0] == 200
        (node,) = await collector.nodes()
        assert node["containers"] == 0

        ballast.unlink()
        assert (await collector.ask("/readyz"))[0] == 200
        receipt = await collector.send(report(sequence=1), report(sequence=2, containers=many))
        assert (receipt.accepted, receipt.duplicates) == (1, 1)
        assert len(await collector.containers()) == 100
