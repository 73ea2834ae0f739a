"""Install what the lab needs, where that can be done: `python -m tests.lab.install`, as root on Debian.

Anywhere else nothing is touched, and one line says what the tests will leave out.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.lab.parts import PARTS
from tests.lab.reaper import Reaper
from wire.errors import UserError

POLICY: Final = Path("/usr/sbin/policy-rc.d")
"""Debian asks this program before it starts a service; 101 forbids it."""


def main() -> int:
    """Install what is missing; the exit status is a failure only in CI, where nothing may be left out."""
    try:
        if can_install():
            install_packages(_wanted_packages())
        elif lines := [f"{part.name} ({why})" for part in PARTS.values() if (why := part.why_not())]:
            print(f"lab: only root on Debian installs its parts; left out will be: {'; '.join(lines)}")
    except UserError as complaint:
        print(f"lab: {complaint}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return 0


def can_install() -> bool:
    """Only root on Debian installs packages."""
    return os.geteuid() == 0 and _is_debian()


def install_packages(wanted: Iterable[str]) -> None:
    """Install those of the packages that are missing; anywhere but as root on Debian, nothing is touched."""
    if can_install():
        _install(missing_packages(wanted))


def _is_debian() -> bool:
    try:
        return platform.freedesktop_os_release()["ID"] == "debian"
    except OSError:
        return False


def _wanted_packages() -> set[str]:
    return {package for part in PARTS.values() for package in part.programs.values()}


def missing_packages(wanted: Iterable[str]) -> list[str]:
    """Give those of the packages that are not installed."""
    names = sorted(wanted)
    # It fails for an unknown package, and still lists the others.
    answer = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *names],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    installed = {line.split()[0] for line in answer.splitlines() if line.endswith(" installed")}
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
            "the tests of what is missing will be left out; see to it that the package mirror can be reached"
        )


if __name__ == "__main__":
    sys.exit(main())
