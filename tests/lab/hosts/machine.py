"""A machine whose init is a real systemd: a Debian tree booted in namespaces of its own, in about a second.

It shares this machine's kernel and control groups (whatever version they are) and has no network but its own
loopback. What needs another kernel or cgroup v2 is for `tests.lab.hosts.emulated`.
"""

import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab import guardian
from tests.lab.hosts.trees import host_tree, writable_copy
from tests.lab.reaper import Reaper
from tests.lab.waiting import eventually

BOOT_SECONDS: Final = 60.0
_ENGINE_UNITS: Final = ("docker.service", "docker.socket", "containerd.service")


@dataclass(frozen=True, slots=True)
class Machine:
    """A booted machine, and ways to look into it."""

    leader: int
    """Its init, as this machine numbers it."""

    @property
    def root(self) -> Path:
        """Its files, seen from here."""
        return Path(f"/proc/{self.leader}/root")

    def run(
        self, *command: str, check: bool = True, timeout: float = 30.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root; with `check`, one that fails is an AssertionError with its words."""
        clean = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8")
        done = subprocess.run(
            ["nsenter", f"--target={self.leader}", "--all", *clean, *command],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert not check or done.returncode == 0, (
            f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        return done

    def property_of(self, unit: str, name: str) -> str:
        """What systemd says of a unit, such as its ActiveState or Result."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def wait_for_unit(self, unit: str, state: str = "active", timeout_seconds: float = 30.0) -> None:
        """Wait until a unit is in a state; its journal tells why it did not get there."""
        try:
            eventually(lambda: self.property_of(unit, "ActiveState") == state, timeout_seconds)
        except TimeoutError as error:
            error.add_note(self.journal(unit))
            raise

    def journal(self, unit: str) -> str:
        """The output of a unit, and of systemd about it."""
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}").stdout


@contextmanager
def systemd_machine(prepare: Callable[[Path], None] = lambda _root: None) -> Iterator[Machine]:
    """Boot a machine; `prepare` is given its root to put things in before. No container engine runs in it."""
    with Reaper() as reaper:
        root = writable_copy(host_tree(), reaper)
        subprocess.run(["chroot", str(root), "systemctl", "--quiet", "mask", *_ENGINE_UNITS], check=True)
        prepare(root)
        scratch = reaper.make_directory("machine")
        console = scratch / "console"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(scratch / "notify"))
            reaper.start(
                [
                    *_in_cgroup_of_its_own(scratch.name, reaper),
                    *("systemd-nspawn", f"--directory={root}", f"--machine={scratch.name}", "--hostname=lab"),
                    *("--register=no", "--keep-unit", "--private-network", "--notify-ready=yes", "--boot"),
                ],
                log=console,
                env=os.environ | {"NOTIFY_SOCKET": str(scratch / "notify")},
            )
            leader = _wait_for_boot(notices, console)
        yield Machine(leader)


def _in_cgroup_of_its_own(name: str, reaper: Reaper) -> list[str]:
    """Give the start of a command that goes into a new control group: nspawn divides the one it stands in."""
    reaper.will_rmdir_cgroup(name)
    enter = []
    for hierarchy in guardian.hierarchies():
        # Of v1, systemd keeps its processes apart in a hierarchy without controllers.
        if hierarchy.name == "systemd" or (hierarchy / "cgroup.controllers").exists():
            group = hierarchy / name
            group.mkdir()
            enter.append(f"echo $$ >{shlex.quote(str(group / 'cgroup.procs'))}")
    return ["sh", "-c", f'{" && ".join(enter)} && exec "$@"', "sh"]


def _wait_for_boot(notices: socket.socket, console: Path) -> int:
    """Wait until the machine's init says that it has started everything; give its pid."""
    notices.settimeout(BOOT_SECONDS)
    notified: dict[str, str] = {}
    try:
        while notified.get("READY") != "1":
            notified |= dict(line.split("=", 1) for line in notices.recv(4096).decode().splitlines())
    except TimeoutError as error:
        error.add_note(console.read_text(encoding="utf-8", errors="replace"))
        raise
    return int(notified["X_NSPAWN_LEADER_PID"])
