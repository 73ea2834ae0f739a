"""A small Debian for the lab's machines: built once, cached, and used only through an overlay.

The cache is /var/cache/wattpack-lab, with one entry per recipe. It may be deleted at any time.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.lab.reaper import Reaper
from wire.errors import UserError

CACHE: Final = Path("/var/cache/wattpack-lab")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Contents of a tree; another recipe is another tree."""

    suite: str
    packages: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that are written before the packages are installed, so that packages find their settings."""


PACKAGES: Final = (
    "systemd-sysv",
    "dbus",
    "udev",
    "linux-image-cloud-amd64",  # a quarter of the usual kernel's size, with everything that containers need
    "initramfs-tools",
    "python3",
    "python3-venv",
    "docker.io",
    "apparmor",  # the engine needs its tools if the kernel has it
    "busybox-static",
)

FILES: Final = {
    "etc/hostname": "lab\n",
    # Nothing has to survive a power failure, and manuals are not needed.
    "etc/dpkg/dpkg.cfg.d/lean": "force-unsafe-io\n"
    "path-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/locale/*\n",
    # The initial RAM disk needs only the driver of the emulated disk.
    "etc/initramfs-tools/conf.d/lean": "MODULES=list\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
}


def host_tree() -> Path:
    """Return the tree of an ordinary container host: systemd, Docker, Python, a kernel. Never write to it."""
    recipe = Recipe(suite=_own_suite(), packages=PACKAGES, files=FILES)
    key = hashlib.sha256(json.dumps(asdict(recipe), sort_keys=True).encode()).hexdigest()[:16]

    def build(reaper: Reaper, target: Path) -> None:
        log = reaper.make_directory("tree") / "log"
        run_step(
            reaper, log, "debootstrap", "--variant=minbase", recipe.suite, str(target), _mirror(recipe.suite)
        )
        for name, text in recipe.files.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        apt = ("chroot", str(target), "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-qqy")
        run_step(reaper, log, *apt, "update")
        # Keep our settings where a package has its own, without a question.
        keep = ("-o", "Dpkg::Options::=--force-confold")
        run_step(reaper, log, *apt, "install", "--no-install-recommends", *keep, *recipe.packages)
        run_step(reaper, log, *apt, "clean")
        shutil.rmtree(target / "var/lib/apt/lists")

    return cached(f"tree-{key}", build)


def writable_copy(tree: Path, reaper: Reaper) -> Path:
    """Mount an overlay on a tree; the reaper removes the changes, and the tree stays as it is."""
    scratch = reaper.make_directory("overlay")
    # Users other than root access a machine's root folder, and nspawn uses the mode of this folder.
    scratch.chmod(0o755)
    root = scratch / "root"
    for name in ("root", "changes", "work"):
        (scratch / name).mkdir()
    options = f"lowerdir={tree},upperdir={scratch / 'changes'},workdir={scratch / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)
    return root


def cached(name: str, build: Callable[[Reaper, Path], None]) -> Path:
    """Return a folder of the cache, and build it if it is missing, atomically and by one run at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / name
    with (CACHE / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with Reaper() as reaper:
                part = CACHE / f"{name}.part-{os.urandom(4).hex()}"
                reaper.will_remove(part)
                build(reaper, part)
                part.rename(target)
    return target


def _own_suite() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def _mirror(suite: str) -> str:
    """Find the package mirror of this machine."""
    listing = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(RELEASE) $(COMPONENT) $(REPO_URI)",
            "Created-By: Packages",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for line in listing.splitlines():
        release, component, uri = line.split(" ", 2)
        if (release, component) == (suite, "main"):
            return uri
    raise UserError(f"apt knows no package lists of {suite}: run apt-get update")


def run_step(reaper: Reaper, log: Path, *command: str) -> None:
    """Run one step of a build; its output is shown only if it fails."""
    if reaper.start(command, log=log).wait() != 0:
        output = log.read_text(encoding="utf-8", errors="replace")[-4000:]
        raise RuntimeError(f"{' '.join(command)} failed:\n{output}")
