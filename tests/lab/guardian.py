"""The process that cleans up after the lab, whatever becomes of the test run.

It is started by `tests.lab.reaper` as a script of its own (only the standard library, a session of its own,
so that neither Ctrl-C nor a crash of the tests reaches it). Undo steps come in as JSON lines on standard
input. When that ends - because the tests are done or because they were killed - the steps are carried out in
reverse order, and what could not be undone goes out as JSON lines on standard output.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

POLL_SECONDS: Final = 0.02
STEP_SECONDS: Final = 30.0
"""How long one step may take, on top of the grace a process is given."""


# --- Processes ------------------------------------------------------------------------------


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its pid, this names it for all time."""
    stat = _stat(pid)
    return None if stat is None else int(stat[19])


def _stat(pid: int) -> list[str] | None:
    """Give the fields of /proc/<pid>/stat from the state on, or None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _members(pid: int, *, group: bool) -> list[int]:
    """List the living processes that a step is about; a zombie only waits for its parent to look."""
    found = []
    for candidate in _all_pids() if group else [pid]:
        stat = _stat(candidate)
        if stat is not None and stat[0] not in "ZX" and (not group or int(stat[2]) == pid):
            found.append(candidate)
    return found


def _all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def kill(*, pid: int, ticks: int, group: bool, grace_seconds: float) -> None:
    """Ask a process (with its whole group) to end, make it end after the grace, and see it gone."""
    if start_ticks(pid) not in {ticks, None}:
        return  # another process has this number by now
    _signal(_members(pid, group=group), signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while left := _members(pid, group=group):
        if time.monotonic() >= deadline:
            _signal(left, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


# --- Files and mounts -----------------------------------------------------------------------


def mounts_below(path: str) -> list[str]:
    """List what is mounted at or below a path, the latest (hence deepest) first."""
    points = [_unescape(fields[4]) for fields in _mountinfo()]
    return [point for point in reversed(points) if point == path or point.startswith(path + "/")]


def _mountinfo() -> Iterator[list[str]]:
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        yield line.split(" ")


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def remove(*, path: str) -> None:
    """Unmount everything at and below a path, then delete it."""
    for point in mounts_below(path):
        # A mount that is still in use somewhere is detached here and ends with its last user.
        if subprocess.run(["umount", point], check=False, capture_output=True).returncode != 0:
            subprocess.run(["umount", "--lazy", point], check=True, capture_output=True)
    if Path(path).is_dir() and not Path(path).is_symlink():
        shutil.rmtree(path)
    else:
        Path(path).unlink(missing_ok=True)


# --- Control groups -------------------------------------------------------------------------


def hierarchies() -> list[Path]:
    """List the mount point of every cgroup hierarchy of this machine, v1 and v2."""
    kinds = {"cgroup", "cgroup2"}
    return [Path(_unescape(fields[4])) for fields in _mountinfo() if fields[fields.index("-") + 1] in kinds]


def rmdir_cgroup(*, name: str) -> None:
    """Kill whatever is left in a control group and remove it with its children, in every hierarchy."""
    # All hierarchies in every round: what one of them keeps frozen cannot die in the others.
    while groups := [path for hierarchy in hierarchies() if (path := hierarchy / name).exists()]:
        for folder in (folder for group in groups for folder, _, _ in os.walk(group, topdown=False)):
            _empty(Path(folder))
            with suppress(OSError):  # busy until its last process has ended, or gone already: next round
                Path(folder).rmdir()
        time.sleep(POLL_SECONDS)


def _empty(group: Path) -> None:
    with suppress(OSError):
        (group / "freezer.state").write_text("THAWED", encoding="ascii")  # what is frozen cannot die
    with suppress(OSError):
        pids = (group / "cgroup.procs").read_text(encoding="ascii").split()
        _signal([int(pid) for pid in pids], signal.SIGKILL)


# --- Anything else --------------------------------------------------------------------------


def run(*, command: list[str], only_if_exists: str | None) -> None:
    """Run a command that undoes something, unless what it would undo is not there."""
    if only_if_exists is None or Path(only_if_exists).exists():
        subprocess.run(command, check=True, capture_output=True, text=True)


UNDO: Final[dict[str, Callable[..., None]]] = {
    "kill": kill,
    "remove": remove,
    "rmdir_cgroup": rmdir_cgroup,
    "run": run,
}


def carry_out(step: dict[str, Any]) -> str | None:
    """Undo one step within its time; say why when that fails."""
    what, details = step["undo"], step["details"]
    signal.setitimer(signal.ITIMER_REAL, STEP_SECONDS + details.get("grace_seconds", 0.0))
    try:
        UNDO[what](**details)
    except subprocess.CalledProcessError as error:
        return f"{what} {details}: {error.cmd} ended with {error.returncode}: {error.stderr}"
    except Exception as error:  # noqa: BLE001 - one step that fails must not keep the others from being undone
        return f"{what} {details}: {error!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def _time_is_up(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError("it took too long")


def _carry_on(_number: int, _frame: FrameType | None) -> None:
    """Take no notice: the end of standard input is the only signal to act on."""


def main() -> None:
    """Take steps in until the tests end, then undo them, the latest first."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _carry_on)
    signal.signal(signal.SIGALRM, _time_is_up)
    # A line without its end was being written when the tests were killed: its resource was never made.
    steps = [json.loads(line) for line in sys.stdin if line.endswith("\n")]
    left = [reason for step in reversed(steps) if (reason := carry_out(step)) is not None]
    for reason in left:
        try:
            print(json.dumps(reason), flush=True)
        except BrokenPipeError:  # the tests were killed: only a person reads this
            sys.stderr.write(f"lab: could not undo {reason}\n")


if __name__ == "__main__":
    main()
