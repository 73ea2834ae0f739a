"""The booted systemd, and the services in it: installed, running, stopped, upgraded and removed."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.machine import Machine, systemd_machine
from tests.lab.parts import require
from tests.lab.service import INSTALLER, WHEELS, install_services
from tests.lab.trees import host_tree
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab

AGENT, COLLECTOR = "wattpack-agent.service", "wattpack-collector.service"

NOTIFIER = """\
[Service]
Type=notify
NotifyAccess=all
ExecStart=/bin/sh -c 'echo hello from inside; systemd-notify --ready; exec sleep infinity'
"""


def test_a_unit_runs_is_ready_and_stops() -> None:
    require("systemd")

    def prepare(root: Path) -> None:
        (root / "etc/systemd/system/notifier.service").write_text(NOTIFIER, encoding="utf-8")

    with systemd_machine(prepare) as machine:
        machine.run("systemctl", "start", "notifier")
        assert machine.property_of("notifier", "ActiveState") == "active"
        assert "hello from inside" in machine.journal("notifier")
        machine.run("systemctl", "stop", "notifier")
        machine.wait_for_unit("notifier", "inactive")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A host that has no container engine, and both services."""
    require("systemd")

    def prepare(root: Path) -> None:
        # As on a host without Docker: a unit that named this group could not start.
        groups = root / "etc/group"
        text = groups.read_text(encoding="utf-8")
        groups.write_text(
            "".join(line for line in text.splitlines(keepends=True) if not line.startswith("docker:"))
        )
        install_services(root, host_tree())

    with systemd_machine(prepare) as booted:
        for unit in (AGENT, COLLECTOR):
            booted.wait_for_unit(unit, "active")
        yield booted


def _get(machine: Machine, url: str) -> str:
    fetch = (
        "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"
    )
    return machine.run("python3", "-c", fetch, url).stdout


def _status(machine: Machine, unit: str) -> dict[str, str]:
    """Give what the kernel says of a service's main process."""
    text = machine.run("cat", f"/proc/{machine.property_of(unit, 'MainPID')}/status").stdout
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_the_units_have_nothing_that_systemd_would_mention(machine: Machine) -> None:
    done = machine.run("systemd-analyze", "verify", "--man=no", AGENT, COLLECTOR)
    assert "wattpack" not in done.stdout + done.stderr


def test_the_agent_answers_and_reports_to_the_collector(machine: Machine) -> None:
    eventually(lambda: "wattpack_node_power_watts{" in _get(machine, "http://127.0.0.1:9640/metrics"), 15)
    (node,) = eventually(lambda: json.loads(_get(machine, "http://127.0.0.1:8640/v1/nodes"))["nodes"], 15)
    assert (node["name"], node["state"]) == ("lab", "up")


def test_neither_runs_as_root(machine: Machine) -> None:
    for unit in (AGENT, COLLECTOR):
        status = _status(machine, unit)
        assert "0" not in status["Uid"].split()
        assert int(status["CapBnd"], 16) == 0
        assert status["Seccomp"] == "2"


def test_history_lies_where_only_the_collector_can_go(machine: Machine) -> None:
    assert machine.run("readlink", "/var/lib/wattpack").stdout.strip() == "private/wattpack"
    mode, owner = machine.run("stat", "-Lc", "%a %u", "/var/lib/wattpack").stdout.split()
    assert (mode, owner) == ("700", _status(machine, COLLECTOR)["Uid"].split()[0])
    machine.run("test", "-s", "/var/lib/wattpack/collector.db")


@pytest.mark.parametrize("unit", [AGENT, COLLECTOR])
def test_stops_cleanly_within_five_seconds_and_starts_again(machine: Machine, unit: str) -> None:
    began = time.monotonic()
    machine.run("systemctl", "stop", unit)
    assert time.monotonic() - began < 5
    assert machine.property_of(unit, "Result") == "success"
    assert machine.property_of(unit, "ExecMainStatus") == "0"
    machine.run("systemctl", "start", unit)
    machine.wait_for_unit(unit, "active")


@pytest.mark.parametrize("unit", [AGENT, COLLECTOR])
def test_comes_back_after_being_killed(machine: Machine, unit: str) -> None:
    killed = machine.property_of(unit, "MainPID")
    machine.run("systemctl", "kill", "--signal=KILL", unit)
    machine.wait_for_unit(unit, "activating")
    machine.wait_for_unit(unit, "active")
    assert machine.property_of(unit, "MainPID") not in {killed, "0"}


@contextmanager
def _settings(machine: Machine, text: str) -> Iterator[None]:
    """Give the agent other settings for a while; it takes them up when it is started next."""
    machine.run("cp", "/etc/wattpack/agent.toml", "/root/agent.toml")
    machine.run("sh", "-c", 'printf "%s" "$1" >/etc/wattpack/agent.toml', "sh", text)
    try:
        yield
    finally:
        machine.run("mv", "/root/agent.toml", "/etc/wattpack/agent.toml")
        machine.run("systemctl", "restart", AGENT)


def _install(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return machine.run(INSTALLER, "--wheels", WHEELS, *arguments, check=False, timeout=120)


def test_a_second_installation_keeps_the_settings_and_starts_the_new_one(machine: Machine) -> None:
    before = machine.property_of(AGENT, "MainPID")
    with _settings(machine, 'node = "renamed"'):
        done = _install(machine, "--role", "agent")
        assert done.returncode == 0, done.stderr
        assert machine.property_of(AGENT, "ActiveState") == "active"
        assert machine.property_of(AGENT, "MainPID") != before
        assert machine.run("cat", "/etc/wattpack/agent.toml").stdout == 'node = "renamed"'


def test_a_mistake_in_the_settings_is_said_in_the_journal(machine: Machine) -> None:
    with _settings(machine, "nod = 1"):
        done = _install(machine, "--role", "agent")
        assert done.returncode == 2
        assert done.stderr.endswith("did not start: see journalctl -u wattpack-agent.service\n")
        assert "unknown key 'nod'" in machine.journal(AGENT)


def test_uninstalling_leaves_settings_and_history_only(machine: Machine) -> None:
    machine.run(INSTALLER, "--uninstall", "--role", "agent")
    assert machine.property_of(AGENT, "LoadState") == "not-found"
    assert machine.property_of(COLLECTOR, "ActiveState") == "active"
    machine.run(INSTALLER, "--uninstall")
    units = "/etc/systemd/system"
    left = machine.run(
        "sh", "-c", f"ls -d /opt/wattpack {units}/*wattpack* {units}/*/*wattpack*", check=False
    )
    assert left.stdout == ""
    machine.run("test", "-e", "/etc/wattpack/agent.toml", "-a", "-s", "/var/lib/wattpack/collector.db")
    assert _install(machine).returncode == 0
