"""Installation of the services into a tree that is not running, with install.sh as a user would."""

import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from tests.lab.hosts.trees import cached, run_step
from tests.lab.reaper import Reaper

CHECKOUT: Final = Path(__file__).resolve().parents[3]
INSTALLER: Final = "/usr/src/wattpack/systemd/install.sh"
"""Path of the checkout's installer inside a machine."""
WHEELS: Final = "/usr/src/wheels"
_SOURCE: Final = "usr/src/wattpack"


def wheels(tree: Path) -> Path:
    """Return a folder with every wheel that locks/run.txt pins, for the Python of a tree."""
    version = (tree / "usr/bin/python3").readlink().name.removeprefix("python")
    lock = CHECKOUT / "locks/run.txt"
    key = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]

    def build(reaper: Reaper, target: Path) -> None:
        log = reaper.make_directory("wheels") / "log"
        pip = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "download", "--no-deps")
        wanted = ("--only-binary=:all:", f"--python-version={version}", "--require-hashes", "-r", str(lock))
        run_step(reaper, log, *pip, *wanted, "-d", str(target))

    return cached(f"wheels-{key}-{version}", build)


def _put_checkout(root: Path, tree: Path) -> None:
    """Copy the files that the installation needs into `root`, and the wheels for the Python of `tree`."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for folder in (*packages, "systemd", "locks"):
        shutil.copytree(
            CHECKOUT / folder, root / _SOURCE / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, root / _SOURCE / file)
    shutil.copytree(wheels(tree), root / WHEELS.strip("/"))


def install_services(root: Path, tree: Path) -> None:
    """Install and enable agent and collector in `root`: they start when it boots."""
    _put_checkout(root, tree)
    command = ["chroot", str(root), INSTALLER, "--wheels", WHEELS]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
