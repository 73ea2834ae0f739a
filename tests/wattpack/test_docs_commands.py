"""Every command with data in the docs runs on a clone without data, after a sample is written."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.samples import write_sample
from wattpack.cli import main

ROOT = Path(__file__).parents[2]
WITH_DATA = ("wattpack data", "wattpack power evaluate", "wattpack replay")
NEEDS_A_COLLECTOR = "--history"
HOSTS = 8
SLOTS_PER_DAY = 288


def shown_commands() -> list[str]:
    """Lines of code blocks, each once, in the order of the pages."""
    found: list[str] = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        blocks = page.read_text(encoding="utf-8").split("```")[1::2]
        lines = [line.strip() for block in blocks for line in block.splitlines()]
        found += [line for line in lines if line.startswith(WITH_DATA) and NEEDS_A_COLLECTOR not in line]
    return list(dict.fromkeys(found))


def copy_scenarios(folder: Path) -> None:
    """The scenarios with fewer hosts: the sample has few machines, and every host that is on takes time."""
    shutil.copytree(ROOT / "scenarios", folder)
    for path in folder.glob("*.toml"):
        path.write_text(re.sub(r"^count = \d{2,}$", f"count = {HOSTS}", path.read_text(), flags=re.MULTILINE))


def thin(data: Path) -> None:
    """Keep one machine of six and one day of the sample."""
    for number, path in enumerate(sorted(data.glob("planetlab/*/*"))):
        if number % 6:
            path.unlink()
    for number, path in enumerate(sorted(data.glob("bitbrains/*/*/*.csv"))):
        if number % 6:
            path.unlink()
        else:
            path.write_text("".join(path.read_text().splitlines(keepends=True)[: 1 + SLOTS_PER_DAY]))


@pytest.mark.slow
def test_every_command_in_the_docs_runs_on_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WATTPACK_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    copy_scenarios(tmp_path / "scenarios")
    commands = shown_commands()
    write_sample(tmp_path / "data")
    thin(tmp_path / "data")
    for command in commands:
        arguments = shlex.split(command.replace("FOLDER", "data/bitbrains/rnd/2013-8"))[1:]
        assert main(arguments) == 0, f"{command}: {capsys.readouterr().err}"
    assert len(commands) > 4
