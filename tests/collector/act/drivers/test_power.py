import asyncio
from pathlib import Path

import psutil
import pytest

from collector.act.drivers.interface import DriverError
from collector.act.drivers.power import run_hook


async def test_the_node_is_the_last_argument_and_never_an_option(tmp_path: Path) -> None:
    for name in ("rack 1", "-rf", "--force"):
        await run_hook(f"sh -c 'echo $0 $1 >{tmp_path}/said'", name, 10.0)
        assert (tmp_path / "said").read_text(encoding="utf-8") == f"-- {name}\n"


async def test_background_processes_end_with_the_command(tmp_path: Path) -> None:
    async with asyncio.timeout(10):
        await run_hook(f"sh -c 'sleep 1000 & echo $! >{tmp_path}/pid'", "web1", 60.0)
    await ends(tmp_path / "pid")


async def test_the_output_of_a_command_is_bounded_and_printable() -> None:
    with pytest.raises(DriverError) as failed:
        await run_hook("sh -c 'yes no | head -c 10000000; printf \"\\033[31mred\"; exit 1'", "web1", 60.0)
    assert str(failed.value).endswith("\\u001b[31mred")
    assert len(str(failed.value)) < 2000


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sh -c 'echo no power at $1; exit 3'", r"failed with exit code 3: no power at web1$"),
        ("false", r"failed with exit code 1: no output$"),
        ("/nowhere/command", r"cannot run /nowhere/command -- web1 \(no such file or directory\)"),
    ],
)
async def test_failed_command_is_reported_with_its_output(command: str, why: str) -> None:
    with pytest.raises(DriverError, match=why):
        await run_hook(command, "web1", 10.0)


async def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"did not end within 1 s and was killed"):
        await run_hook(f"sh -c 'echo $$ >{tmp_path}/pid; exec sleep 1000'", "web1", 1.0)
    await ends(tmp_path / "pid")


async def ends(file: Path) -> None:
    """Wait until the process whose id a file has ends: one that was killed may take a moment."""
    async with asyncio.timeout(10):
        while is_running(file):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)


def is_running(file: Path) -> bool:
    """Whether the process whose id a file has runs; one that ended may wait for its parent."""
    try:
        process = psutil.Process(int(file.read_text(encoding="utf-8")))
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
