"""Leftovers of a part of the lab, for tests that check that there are none."""

import os
import subprocess
import tempfile
from pathlib import Path

from tests.lab import guardian


def traces(name: str) -> list[str]:
    """List the processes, links, namespaces, mounts, control groups and files with this name."""
    found = [str(path) for path in Path(tempfile.gettempdir()).iterdir() if name in path.name]
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    found += [mount for mount in mounts if name in mount]
    for hierarchy in guardian.hierarchies():
        found += [folder for folder, _, _ in os.walk(hierarchy) if name in folder]
    for kind in (["link", "show"], ["netns", "list"]):
        output = subprocess.run(["ip", *kind], check=True, capture_output=True, text=True).stdout
        found += [line for line in output.splitlines() if name in line]
    return found + [command for command in _commands() if name in command]


def _commands() -> list[str]:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_text(encoding="utf-8", errors="replace").replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return commands
