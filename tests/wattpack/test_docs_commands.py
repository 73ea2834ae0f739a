"""Every command with data that the documents show runs on a clone without any, after a sample is written."""

import shlex
from pathlib import Path

import pytest

from wattpack.cli import main

ROOT = Path(__file__).parents[2]
WITH_DATA = ("wattpack data", "wattpack evaluate", "wattpack replay")
NEEDS_A_COLLECTOR = "--history"


def shown_commands() -> list[str]:
    """Lines of code blocks, in the order of the documents."""
    found: list[str] = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        blocks = page.read_text(encoding="utf-8").split("```")[1::2]
        lines = [line.strip() for block in blocks for line in block.splitlines()]
        found += [line for line in lines if line.startswith(WITH_DATA) and NEEDS_A_COLLECTOR not in line]
    return found


@pytest.mark.slow
def test_every_command_that_is_shown_runs_on_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WATTPACK_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    commands = shown_commands()
    sample = "wattpack data sample data"
    assert sample in commands
    commands.remove(sample)
    for command in (sample, *commands):
        arguments = shlex.split(command.replace("FOLDER", "data/bitbrains/rnd/2013-8"))[1:]
        assert main(arguments) == 0, f"{command}: {capsys.readouterr().err}"
    assert len(commands) > 4
