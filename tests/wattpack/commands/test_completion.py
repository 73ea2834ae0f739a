import subprocess
from pathlib import Path

import pytest

from tests.lab.parts import require
from wattpack.commands import every_command
from wattpack.commands.admin_completion import describe_commands
from wattpack.output.completion import SCRIPTS

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
    folder, described = tmp_path_factory.mktemp("completion"), describe_commands()
    for shell, script in SCRIPTS.items():
        (folder / shell).write_text("\n".join(script(described)) + "\n", encoding="utf-8")
    return folder


def completed(shell: str, script: str) -> list[str]:
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return sorted(line.partition("\t")[0] for line in done.stdout.splitlines())


def test_every_command_is_completed() -> None:
    assert {each.name for each in describe_commands()} == {command.name for command in every_command()}
    assert all(each.summary for each in describe_commands())


@pytest.mark.parametrize(("line", "expected"), _CASES)
def test_bash_completes(line: str, expected: list[str], scripts: Path) -> None:
    words = ["wattpack", *line.split(" ")]
    array = " ".join(f"'{word}'" for word in words)
    run = (
        f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _wattpack; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    assert completed("bash", f"source {scripts}/bash; {run}") == expected


@pytest.mark.lab
@pytest.mark.parametrize(("line", "expected"), _CASES)
def test_fish_completes(line: str, expected: list[str], scripts: Path) -> None:
    require("shells")
    assert completed("fish", f"source {scripts}/fish; complete -C 'wattpack {line}'") == expected


@pytest.mark.lab
def test_zsh_defines_the_completion(scripts: Path) -> None:
    require("shells")
    loaded = completed(
        "zsh", f"autoload -U compinit; compinit -D -u; source {scripts}/zsh; print $_comps[wattpack]"
    )
    assert loaded == ["_wattpack"]
