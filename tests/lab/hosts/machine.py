"""A machine with a real systemd as init: a Debian tree that boots in its own namespaces, in about a second.

It shares this machine's kernel and control groups (of any version), and its only network is its own loopback.
Tests that need another kernel or cgroup v2 use `tests.lab.hosts.emulated`.
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
    """A booted machine."""

    leader: int
    """Pid of its init on this machine."""

    @property
    def root(self) -> Path:
        """Its root folder on this machine."""
        return Path(f"/proc/{self.leader}/root")

    def run(
        self, *command: str, check: bool = True, timeout: float = 30.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root; with `check`, a failure raises AssertionError with its output."""
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
        """Return a property of a unit, such as its ActiveState or Result."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def wait_for_unit(self, unit: str, state: str = "active", timeout_seconds: float = 30.0) -> None:
        """Wait until a unit is in a state; a timeout has its journal as a note."""
        try:
            eventually(lambda: self.property_of(unit, "ActiveState") == state, timeout_seconds)
        except TimeoutError as error:
            error.add_note(self.journal(unit))
            raise

    def journal(self, unit: str) -> str:
        """Return the output of a unit, and of systemd about it."""
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}").stdout


@contextmanager
def systemd_machine(prepare: Callable[[Path], None] = lambda _root: None) -> Iterator[Machine]:
    """Boot a machine without a container engine; `prepare` can change its root folder before."""
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
                    *_enter_new_cgroup(scratch.name, reaper),
                    *("systemd-nspawn", f"--directory={root}", f"--machine={scratch.name}", "--hostname=lab"),
                    *("--register=no", "--keep-unit", "--private-network", "--notify-ready=yes", "--boot"),
                ],
                log=console,
                env=os.environ | {"NOTIFY_SOCKET": str(scratch / "notify")},
            )
            leader = _wait_for_boot(notices, console)
        yield Machine(leader)


def _enter_new_cgroup(name: str, reaper: Reaper) -> list[str]:
    """Return a command prefix that enters a new control group, because nspawn divides its own group."""
    reaper.will_rmdir_cgroup(name)
    enter = []
    for hierarchy in guardian.hierarchies():
        # With v1, systemd tracks its processes in a hierarchy without controllers.
        if hierarchy.name == "systemd" or (hierarchy / "cgroup.controllers").exists():
            group = hierarchy / name
            group.mkdir()
            enter.append(f"echo $$ >{shlex.quote(str(group / 'cgroup.procs'))}")
    return ["sh", "-c", f'{" && ".join(enter)} && exec "$@"', "sh"]


def _wait_for_boot(notices: socket.socket, console: Path) -> int:
    """Wait until the machine's init is ready; return its pid."""
    notices.settimeout(BOOT_SECONDS)
    notified: dict[str, str] = {}
    try:
        while notified.get("READY") != "1":
            notified |= dict(line.split("=", 1) for line in notices.recv(4096).decode().splitlines())
    except TimeoutError as error:
        error.add_note(console.read_text(encoding="utf-8", errors="replace"))
        raise
    return int(notified["X_NSPAWN_LEADER_PID"])
