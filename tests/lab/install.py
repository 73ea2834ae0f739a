"""Install the packages of the lab, and build its trees: `python -m tests.lab.install`, as root on Debian.

Elsewhere it installs nothing, and prints the parts that tests will skip.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.lab.hosts.service import wheels
from tests.lab.hosts.trees import host_tree
from tests.lab.parts import PARTS, why_not
from tests.lab.reaper import Reaper
from wire.errors import UserError

POLICY: Final = Path("/usr/sbin/policy-rc.d")
"""Debian runs this program before it starts a service; status 101 forbids the start."""


def main() -> int:
    """Install missing packages; the exit status is a failure only in CI, where no part may be skipped."""
    try:
        if can_install():
            install_packages(_required_packages())
        elif lines := [f"{part.name} ({why})" for part in PARTS.values() if (why := part.why_not())]:
            print(f"lab: parts are installed only by root on Debian; tests skip: {'; '.join(lines)}")
    except UserError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return 0


def can_install() -> bool:
    """Whether this is root on Debian."""
    return os.geteuid() == 0 and _is_debian()


def install_packages(packages: Iterable[str]) -> None:
    """Install missing packages, but only as root on Debian."""
    if can_install():
        _install(missing_packages(packages))


def _is_debian() -> bool:
    try:
        return platform.freedesktop_os_release()["ID"] == "debian"
    except OSError:
        return False


def _required_packages() -> set[str]:
    return {package for part in PARTS.values() for package in part.programs.values()}


def missing_packages(packages: Iterable[str]) -> list[str]:
    """Return the packages that are not installed."""
    names = sorted(packages)
    # dpkg-query fails for an unknown package, but still lists the others.
    output = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *names],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    installed = {line.split()[0] for line in output.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def _install(packages: list[str]) -> None:
    if not packages:
        return
    print(f"lab: installing {' '.join(packages)}", flush=True)
    with Reaper() as reaper:
        if not POLICY.exists():
            reaper.will_remove(POLICY)
            POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
            POLICY.chmod(0o755)
        _apt_get("update")
        _apt_get("install", "--no-install-recommends", *packages)


def _apt_get(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", "-qq", "--yes", "-o", "DPkg::Lock::Timeout=300", *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if line.startswith("E:")]
        raise UserError(
            f"apt-get {arguments[0]} failed ({' '.join(errors) or done.stdout[-500:].strip()}): "
            "tests of missing parts are skipped; check that the package mirror can be reached"
        )


def build_trees() -> None:
    """Build what tests of whole hosts boot, so that none of them waits for it."""
    if why_not("systemd") is None:
        wheels(host_tree())


if __name__ == "__main__":
    status = main()
    build_trees()
    sys.exit(status)
