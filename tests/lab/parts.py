"""The parts of the lab, their requirements, and the reasons why a part cannot run on this machine.

A new part is one entry in PARTS; `tests.lab.install` installs its packages. The context manager or fixture of
the part calls `require` first.
"""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.lab import guardian

_CAP_SYS_ADMIN: Final = 21
_CAP_NET_ADMIN: Final = 12


def find_program(name: str) -> str | None:
    """Find a program, also in the folders of root's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


# --- Conditions: None if met, else the reason - ---------------------------------------------


def _may_administer() -> str | None:
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        if ":\t" in line
    )
    held = int(status["CapEff"], 16)
    if os.geteuid() != 0:
        return "needs root"
    if not held >> _CAP_SYS_ADMIN & held >> _CAP_NET_ADMIN & 1:
        return (
            "needs root's full powers (CAP_SYS_ADMIN, CAP_NET_ADMIN), which a plain container does not give"
        )
    return None


def _cgroups_are_writable() -> str | None:
    hierarchies = guardian.hierarchies()
    if not hierarchies:
        return "needs control groups mounted under /sys/fs/cgroup"
    closed = [str(path) for path in hierarchies if not os.access(path, os.W_OK)]
    return f"needs control groups that can be written, which {', '.join(closed)} cannot" if closed else None


def _busybox_is_static() -> str | None:
    path = find_program("busybox")
    if path is not None:
        with Path(path).open("rb") as file:
            if b"/ld-" in file.read(4096):  # the dynamic loader, which the image would not have
                return "needs a static busybox (Debian: apt-get install busybox-static)"
    return None


def _is_pc() -> str | None:
    return (
        None if platform.machine() == "x86_64" else f"needs an x86_64 machine, this is {platform.machine()}"
    )


def _has_tun() -> str | None:
    return None if Path("/dev/net/tun").exists() else "needs TUN devices (/dev/net/tun)"


# --- The table ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the lab."""

    name: str
    programs: dict[str, str]
    """Its programs, each with the Debian package that contains it."""
    conditions: tuple[Callable[[], str | None], ...] = ()

    def why_not(self) -> str | None:
        """Return why this part cannot run here, or None if it can."""
        for condition in self.conditions:
            if (reason := condition()) is not None:
                return reason
        missing = [program for program in self.programs if find_program(program) is None]
        if missing:
            packages = sorted({self.programs[program] for program in missing})
            return f"needs {', '.join(missing)} (Debian: apt-get install {' '.join(packages)})"
        return None


_ENGINE: Final = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
_HOST: Final = (_may_administer, _cgroups_are_writable)

PARTS: Final = {
    part.name: part
    for part in (
        Part("host", {"mount": "mount"}, _HOST),  # only the permission to create mounts and control groups
        Part("docker", _ENGINE, (*_HOST, _busybox_is_static)),
        Part("swarm", {**_ENGINE, "ip": "iproute2", "hostname": "hostname"}, (*_HOST, _busybox_is_static)),
        Part("link", {"ip": "iproute2", "nsenter": "util-linux"}, (_may_administer, _has_tun)),
        Part(
            "redis",
            {
                "redis-server": "redis-server",
                "redis-cli": "redis-tools",
                "redis-benchmark": "redis-tools",
                "ldd": "libc-bin",
            },
        ),
        Part("web", {"socat": "socat", "ldd": "libc-bin"}),
        Part("systemd", {"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap"}, _HOST),
        Part(
            "emulated",
            {
                "qemu-system-x86_64": "qemu-system-x86",
                "debootstrap": "debootstrap",
                "mkfs.ext4": "e2fsprogs",
                "debugfs": "e2fsprogs",
            },
            (_may_administer, _is_pc),
        ),
        Part("prometheus", {"prometheus": "prometheus", "promtool": "prometheus"}),
        Part("browser", {"chromium": "chromium"}),
        Part("shells", {"zsh": "zsh", "fish": "fish"}),
        Part("certificates", {"openssl": "openssl"}),
        Part("victoria-metrics", {"victoria-metrics": "victoria-metrics"}),
    )
}


def why_not(part: str) -> str | None:
    """Return why a part cannot run here, or None if it can."""
    return PARTS[part].why_not()


def require(part: str) -> None:
    """Skip the running test, with the reason, unless this part of the lab can run."""
    if (reason := why_not(part)) is not None:
        pytest.skip(f"{part}: {reason}")
