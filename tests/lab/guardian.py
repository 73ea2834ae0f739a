"""The process that cleans up after the lab, even if the test run is killed.

`tests.lab.reaper` starts it as a script with only the standard library, in a new session, so that neither
Ctrl-C nor a crash of the tests reaches it. It reads undo steps as JSON lines from standard input. When that
ends, because the tests are done or were killed, it executes the steps in reverse order, and prints the steps
that failed as JSON lines.
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
STEP_SECONDS: Final = 90.0
"""Timeout of one step, in addition to the grace period of a process."""


# --- Processes ------------------------------------------------------------------------------


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; with the pid, this is a unique id."""
    stat = _stat(pid)
    return None if stat is None else int(stat[19])


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat from the state on, or None if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _members(pid: int, *, group: bool) -> list[int]:
    """List the running processes of a step, without zombies."""
    found = []
    for candidate in _all_pids() if group else [pid]:
        stat = _stat(candidate)
        if stat is not None and stat[0] not in "ZX" and (not group or int(stat[2]) == pid):
            found.append(candidate)
    return found


def _all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def kill(*, pid: int, ticks: int, group: bool, grace_seconds: float) -> None:
    """Terminate a process or its group, kill it after the grace period, and wait until it is gone."""
    if start_ticks(pid) not in {ticks, None}:
        return  # another process has this pid now
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
    """List the mount points at and below a path, the latest (and deepest) first."""
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
        # A mount that is in use is detached, and ends with its last user.
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
    """Kill the processes of a control group and remove it with its children, in every hierarchy."""
    # All hierarchies in every round: a process that is frozen in one cannot be killed in another.
    while groups := [path for hierarchy in hierarchies() if (path := hierarchy / name).exists()]:
        for folder in (folder for group in groups for folder, _, _ in os.walk(group, topdown=False)):
            _empty(Path(folder))
            with suppress(OSError):  # it has processes, or is gone already: next round
                Path(folder).rmdir()
        time.sleep(POLL_SECONDS)


def _empty(group: Path) -> None:
    with suppress(OSError):
        (group / "freezer.state").write_text("THAWED", encoding="ascii")  # a frozen process cannot be killed
    with suppress(OSError):
        pids = (group / "cgroup.procs").read_text(encoding="ascii").split()
        _signal([int(pid) for pid in pids], signal.SIGKILL)


# --- Anything else --------------------------------------------------------------------------


def run(*, command: list[str], only_if_exists: str | None) -> None:
    """Run a command that undoes something, unless a given path does not exist."""
    if only_if_exists is None or Path(only_if_exists).exists():
        subprocess.run(command, check=True, capture_output=True, text=True)


UNDO: Final[dict[str, Callable[..., None]]] = {
    "kill": kill,
    "remove": remove,
    "rmdir_cgroup": rmdir_cgroup,
    "run": run,
}


def undo_step(step: dict[str, Any]) -> str | None:
    """Undo one step within its timeout; return the reason if that fails."""
    what, details = step["undo"], step["details"]
    signal.setitimer(signal.ITIMER_REAL, STEP_SECONDS + details.get("grace_seconds", 0.0))
    try:
        UNDO[what](**details)
    except subprocess.CalledProcessError as error:
        return f"{what} {details}: {error.cmd} ended with {error.returncode}: {error.stderr}"
    except Exception as error:  # noqa: BLE001 - the other steps must still be undone
        return f"{what} {details}: {error!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def _raise_timeout(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError("it took too long")


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal: only the end of standard input counts."""


def main() -> None:
    """Read steps until the tests end, then undo them, the latest first."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore)
    signal.signal(signal.SIGALRM, _raise_timeout)
    # The tests were killed while they wrote an incomplete line, so its resource was never created.
    steps = [json.loads(line) for line in sys.stdin if line.endswith("\n")]
    left = [reason for step in reversed(steps) if (reason := undo_step(step)) is not None]
    for reason in left:
        try:
            print(json.dumps(reason), flush=True)
        except BrokenPipeError:  # the tests were killed: only a person reads this
            sys.stderr.write(f"lab: could not undo {reason}\n")


if __name__ == "__main__":
    main()
