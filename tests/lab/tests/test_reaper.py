import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import guardian
from tests.lab.parts import require
from tests.lab.reaper import LeftBehindError, Reaper
from tests.lab.waiting import eventually

REPOSITORY = Path(__file__).parents[3]

# Makes one of everything, says what it made, and waits to be killed.
VICTIM = """
import subprocess, sys
from pathlib import Path
from tests.lab import guardian
from tests.lab.parts import require
from tests.lab.reaper import Reaper

with Reaper() as reaper:
    root = reaper.make_directory()
    (root / "mnt" / "inner").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "lab", str(root / "mnt")], check=True)
    (root / "mnt" / "inner").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "lab", str(root / "mnt" / "inner")], check=True)
    reaper.will_rmdir_cgroup(root.name)
    for hierarchy in guardian.hierarchies():
        (hierarchy / root.name / "child").mkdir(parents=True)
    sleeper = reaper.start(["sleep", "1000"])
    # Left in the group only: not even a descendant by the time it is found.
    joined = guardian.hierarchies()[-1] / root.name / "child" / "cgroup.procs"
    orphan = subprocess.run(
        ["sh", "-c", f"echo 0 > {joined}; setsid sleep 1000 >/dev/null 2>&1 & echo $!"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()
    print(root, sleeper.pid, orphan, flush=True)
    sys.stdin.read()
"""


def alive(pid: int) -> bool:
    return bool(guardian._members(pid, group=False))


@pytest.mark.lab
def test_a_killed_test_run_leaves_no_directory_mount_process_or_control_group() -> None:
    require("host")
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as victim:
        assert victim.stdout is not None
        root, sleeper, orphan = victim.stdout.readline().split()
        assert alive(int(sleeper))
        assert alive(int(orphan))
        assert len(guardian.mounts_below(root)) == 2
        groups = [hierarchy / Path(root).name for hierarchy in guardian.hierarchies()]
        assert all(group.exists() for group in groups)
        victim.send_signal(signal.SIGKILL)

    eventually(lambda: not Path(root).exists(), 10)
    assert guardian.mounts_below(root) == []
    assert not alive(int(sleeper))
    assert not alive(int(orphan))
    assert not any(group.exists() for group in groups)


def test_everything_is_gone_when_the_block_is_left() -> None:
    with Reaper() as reaper:
        root = reaper.make_directory()
        (root / "file").write_text("", encoding="ascii")
        process = reaper.start(["sleep", "1000"])
        assert process.poll() is None
    assert not root.exists()
    assert process.returncode == -signal.SIGTERM


def test_steps_are_undone_in_reverse_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Reaper() as reaper:
        for word in ("first", "second", "third"):
            reaper.will_run(["sh", "-c", f"echo {word} >>{log}"])
    assert log.read_text(encoding="ascii").split() == ["third", "second", "first"]


def test_the_whole_group_of_a_process_is_killed_even_after_its_leader_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Reaper() as reaper:
        leader = reaper.start(["sh", "-c", "sleep 1000 & echo $!"], log=log)
        leader.wait()
        member = int(log.read_text(encoding="ascii"))
        assert alive(member)
    assert not alive(member)


def test_a_process_that_will_not_end_is_killed_after_its_grace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with Reaper() as reaper:
        process = reaper.start(["sh", "-c", stubborn], log=log, grace_seconds=0.3)
        eventually(lambda: "ready" in log.read_text(encoding="ascii"), 5)
        asked = time.monotonic()
    assert process.returncode == -signal.SIGKILL
    assert time.monotonic() - asked >= 0.3


def test_reused_pid_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        ticks = guardian.start_ticks(bystander.pid)
        assert ticks is not None
        guardian.kill(pid=bystander.pid, ticks=ticks - 1, group=False, grace_seconds=0)
        assert alive(bystander.pid)
        bystander.kill()


def test_what_cannot_be_undone_is_reported_and_the_rest_is_undone(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()

    def leave_something() -> None:
        with Reaper() as reaper:
            reaper.will_remove(made)
            reaper.will_run(["sh", "-c", "echo no such luck >&2; exit 3"])

    with pytest.raises(LeftBehindError, match="no such luck"):
        leave_something()
    assert not made.exists()


def test_an_error_of_the_block_is_not_hidden_by_one_of_the_teardown() -> None:
    def fail_twice() -> None:
        with Reaper() as reaper:
            reaper.will_run(["false"])
            raise KeyError("the cause")

    with pytest.raises(KeyError) as caught:
        fail_twice()
    assert "could not undo" in "".join(caught.value.__notes__)


def test_a_step_that_hangs_is_given_up_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang() -> None:
        time.sleep(1000)

    monkeypatch.setattr(guardian, "STEP_SECONDS", 0.1)
    monkeypatch.setitem(guardian.UNDO, "hang", hang)
    previous = signal.signal(signal.SIGALRM, guardian._raise_timeout)
    try:
        reason = guardian.undo_step({"undo": "hang", "details": {}})
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert reason is not None
    assert "too long" in reason


def test_an_undo_whose_object_was_never_made_is_no_failure(tmp_path: Path) -> None:
    with Reaper() as reaper:
        reaper.will_remove(tmp_path / "never-made")
        reaper.will_rmdir_cgroup("wattpack-never-made")
        reaper.will_run(["false"], only_if_exists=tmp_path / "never-made")


@pytest.mark.parametrize("path", ["/", "/usr", "/tmp/.."])
def test_nothing_near_the_root_is_ever_removed(path: str) -> None:
    with Reaper() as reaper, pytest.raises(ValueError, match="too close to the root"):
        reaper.will_remove(path)


@pytest.mark.parametrize("name", ["", "/", "../other", "a/../.."])
def test_only_a_control_group_of_our_own_is_ever_removed(name: str) -> None:
    with Reaper() as reaper, pytest.raises(ValueError, match="of our own"):
        reaper.will_rmdir_cgroup(name)
