"""The files in systemd/: settings with defaults, the errors of the installer, the sandbox of the units."""

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from agent.config import AgentConfig
from agent.features import settings_class
from collector.config import CollectorConfig
from tests.lab.parts import require

SYSTEMD = Path(__file__).resolve().parents[2] / "systemd"
ROLES: dict[str, type[AgentConfig | CollectorConfig]] = {
    "agent": settings_class(),
    "collector": CollectorConfig,
}


@pytest.mark.parametrize("role", ROLES)
def test_the_settings_file_as_shipped_changes_nothing(role: str) -> None:
    shipped = (SYSTEMD / f"{role}.toml").read_bytes()
    assert msgspec.toml.decode(shipped, type=ROLES[role]) == ROLES[role]()


@pytest.mark.parametrize("role", ROLES)
def test_the_settings_file_shows_every_key_with_its_default(role: str) -> None:
    shipped = (SYSTEMD / f"{role}.toml").read_text(encoding="utf-8")
    uncommented = re.sub(r"^#(?=\w)", "", shipped, flags=re.MULTILINE)
    assert msgspec.toml.decode(uncommented) == msgspec.json.decode(msgspec.json.encode(ROLES[role]()))


def test_docs_have_the_memory_limits_of_the_units() -> None:
    found = [
        re.search(r"^MemoryMax=(\d+)(M|G)$", (SYSTEMD / f"wattpack-{role}.service").read_text(), re.MULTILINE)
        for role in ROLES
    ]
    limits = " | ".join(f"{each[1]} {each[2]}B" for each in found if each)
    operations = (SYSTEMD.parent / "docs/operations.md").read_text(encoding="utf-8")
    assert f"| memory, at most (`MemoryMax`) | {limits} |" in operations


def _install(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SYSTEMD / "install.sh"), *arguments], check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rolle", "agent"], "--rolle is not an option: see --help"),
        (["--role"], "--role needs a value: see --help"),
        (["--role", "wizard"], "wizard is not a role: use agent, collector or both"),
    ],
)
def test_installer_reports_errors_in_one_sentence(arguments: list[str], message: str) -> None:
    done = _install(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"install: {message}\n")


@pytest.mark.lab
@pytest.mark.parametrize("role", ROLES)
def test_the_sandbox_is_tight(role: str) -> None:
    require("systemd")
    done = subprocess.run(
        # In tenths: an exposure above 2.0 is a failure.
        [
            "systemd-analyze",
            "security",
            "--offline=yes",
            "--threshold=20",
            str(SYSTEMD / f"wattpack-{role}.service"),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
