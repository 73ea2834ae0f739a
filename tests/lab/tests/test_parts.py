import os
import platform
from pathlib import Path

import pytest

from tests.lab import guardian, parts
from tests.lab.parts import PARTS, Part, why_not


@pytest.mark.parametrize("name", ["docker", "swarm", "systemd", "emulated"])
def test_parts_that_change_the_machine_need_root(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not(name) == "needs root"


@pytest.mark.parametrize("name", ["prometheus", "victoria-metrics"])
def test_stores_need_nothing_but_their_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(parts, "find_program", lambda program: f"/usr/bin/{program}")
    assert why_not(name) is None


def test_missing_programs_are_named_with_the_packages_that_bring_them() -> None:
    part = Part("thing", {"sh": "dash", "no-such-a": "pack", "no-such-b": "pack", "no-such-c": "other"})
    reason = "needs no-such-a, no-such-b, no-such-c (Debian: apt-get install other pack)"
    assert part.why_not() == reason


def test_a_busybox_that_needs_libraries_will_not_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"\x7fELF" + bytes(600) + b"/lib64/ld-linux-x86-64.so.2\0")
    monkeypatch.setattr(parts, "find_program", lambda _: str(busybox))
    for condition in (parts._may_administer, parts._cgroups_are_writable):
        assert condition in PARTS["docker"].conditions
    reason = parts._busybox_is_static()
    assert reason is not None
    assert "busybox-static" in reason


def test_machine_without_control_groups_gets_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian, "hierarchies", list)
    reason = parts._cgroups_are_writable()
    assert reason is not None
    assert "/sys/fs/cgroup" in reason


def test_the_emulated_host_is_a_pc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert parts._is_pc() == "needs an x86_64 machine, this is riscv64"
