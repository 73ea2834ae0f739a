import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.parts import require
from tests.processes import wattpack
from tests.wattpack.test_cli import EVERY_COMMAND
from wattpack.commands.admin_completion import complete

_CASES = [
    ("nod", ["nodes"]),
    ("nodes --sta", ["--state"]),
    ("nodes --state ", ["down", "suspect", "up"]),
    ("admin ", ["--help", "check-config", "completion", "repair"]),
    ("admin check-config a", ["agent"]),
    ("token ad", ["add"]),
    ("token add rea", ["read"]),
    ("services el", ["elastic"]),
    ("services --run", ["--running"]),
    ("services --running --dom", ["--dominant"]),
    ("services slo --cl", ["--class"]),
    ("energy --coll", ["--collector"]),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        printed = wattpack("admin", "completion", shell).run()
        (folder / shell).write_text(printed.stdout, encoding="utf-8")
    command = folder / "wattpack"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m wattpack "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return folder


_BEFORE = {"zsh": "autoload -U compinit; compinit -D -u; "}
"""What a shell needs before it can load a completion."""


def completed(shell: str, scripts: Path, script: str) -> list[str]:
    done = subprocess.run(
        [shell, "-c", f"{_BEFORE.get(shell, '')}source {scripts}/{shell}; {script}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"},
    )
    assert done.stderr == ""
    return sorted(line.partition("\t")[0] for line in done.stdout.splitlines())


def test_every_command_is_completed() -> None:
    for command in EVERY_COMMAND:
        *above, name = command.name.split()
        assert (name, command.summary) in list(complete(above))
        assert "--help" in dict(complete(command.name.split()))


@pytest.mark.parametrize(("line", "expected"), _CASES)
def test_bash_completes(line: str, expected: list[str], scripts: Path) -> None:
    words = ["wattpack", *line.split(" ")]
    array = " ".join(f"'{word}'" for word in words)
    run = (
        f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _wattpack; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    assert completed("bash", scripts, run) == expected


@pytest.mark.lab
@pytest.mark.parametrize(("line", "expected"), _CASES)
def test_fish_completes(line: str, expected: list[str], scripts: Path) -> None:
    require("shells")
    assert completed("fish", scripts, f"complete -C 'wattpack {line}'") == expected


@pytest.mark.lab
def test_zsh_defines_the_completion(scripts: Path) -> None:
    require("shells")
    loaded = completed("zsh", scripts, "print $_comps[wattpack]")
    assert loaded == ["_wattpack"]
