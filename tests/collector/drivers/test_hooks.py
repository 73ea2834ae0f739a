from pathlib import Path

import psutil
import pytest

from collector.drivers.hooks import run_hook
from collector.drivers.interface import DriverError


async def test_the_node_is_the_last_argument(tmp_path: Path) -> None:
    await run_hook(f"sh -c 'echo $0 >{tmp_path}/said'", "rack 1", 10.0)
    assert (tmp_path / "said").read_text(encoding="utf-8") == "rack 1\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sh -c 'echo no power at $0; exit 3'", r"failed with exit code 3: no power at web1$"),
        ("false", r"failed with exit code 1: no output$"),
        ("/nowhere/command", r"cannot run '/nowhere/command web1' \(no such file or directory\)"),
    ],
)
async def test_failed_command_is_reported_with_its_output(command: str, why: str) -> None:
    with pytest.raises(DriverError, match=why):
        await run_hook(command, "web1", 10.0)


async def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"did not end within 1 s and was killed"):
        await run_hook(f"sh -c 'echo $$ >{tmp_path}/pid; exec sleep 1000'", "web1", 1.0)
    pid = (tmp_path / "pid").read_text(encoding="utf-8").strip()
    assert not psutil.pid_exists(int(pid))
