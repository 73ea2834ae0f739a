"""The services in a booted systemd: installed, running, stopped, upgraded and removed."""

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import pytest

from tests.certificates import Authority
from tests.lab.hosts.machine import Machine, systemd_machine
from tests.lab.hosts.service import INSTALLER, WHEELS, install_services
from tests.lab.hosts.trees import host_tree
from tests.lab.parts import require
from tests.lab.powercap import PowercapTree, constant, intel
from tests.lab.waiting import eventually

pytestmark = [pytest.mark.lab, pytest.mark.host]

AGENT, COLLECTOR = "wattpack-agent.service", "wattpack-collector.service"
METRICS = "http://127.0.0.1:9640/metrics"

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
    """A host without a container engine, with both services."""
    require("systemd")

    def prepare(root: Path) -> None:
        # As on a host without Docker, where a unit that needs this group could not start.
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


def _get(machine: Machine, url: str, user: str = "") -> str:
    """Send a request from inside, with user and password if given, and without checking the certificate."""
    fetch = (
        "import ssl, sys, urllib.request;"
        "request = urllib.request.Request(sys.argv[1], headers={'Authorization': sys.argv[2]});"
        "context = ssl._create_unverified_context() if sys.argv[1].startswith('https') else None;"
        "print(urllib.request.urlopen(request, timeout=5, context=context).read().decode())"
    )
    done = machine.run("python3", "-c", fetch, url, f"Basic {base64.b64encode(user.encode()).decode()}")
    return done.stdout


def _metric(machine: Machine, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", _get(machine, METRICS), re.MULTILINE)
    assert found is not None, f"no {name}"
    return float(found[1])


def _status(machine: Machine, unit: str) -> dict[str, str]:
    """Return the kernel's status of a service's main process."""
    text = machine.run("cat", f"/proc/{machine.property_of(unit, 'MainPID')}/status").stdout
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_systemd_has_no_warning_about_the_units(machine: Machine) -> None:
    done = machine.run("systemd-analyze", "verify", "--man=no", AGENT, COLLECTOR)
    assert "wattpack" not in done.stdout + done.stderr


@pytest.mark.parametrize("unit", [AGENT, COLLECTOR])
def test_the_sandbox_as_installed_is_rated_two_or_better(machine: Machine, unit: str) -> None:
    machine.run("systemd-analyze", "security", "--no-pager", "--threshold=20", unit)


def test_the_agent_responds_and_reports_to_the_collector(machine: Machine) -> None:
    eventually(lambda: "wattpack_node_power_watts{" in _get(machine, METRICS), 15)
    (node,) = eventually(lambda: json.loads(_get(machine, "http://127.0.0.1:8640/v1/nodes"))["nodes"], 15)
    assert (node["name"], node["state"]) == ("lab", "up")


def test_both_report_their_status_in_one_line(machine: Machine) -> None:
    # Logged with each watchdog notification, three times per watchdog timeout.
    eventually(lambda: " W by " in machine.property_of(AGENT, "StatusText"), 30)
    assert machine.property_of(COLLECTOR, "StatusText") == "listening on http://127.0.0.1:8640"


def test_neither_runs_as_root(machine: Machine) -> None:
    for unit in (AGENT, COLLECTOR):
        status = _status(machine, unit)
        assert "0" not in status["Uid"].split()
        assert int(status["CapBnd"], 16) == 0
        assert status["Seccomp"] == "2"


@pytest.mark.parametrize(
    ("unit", "folder", "file"),
    [(AGENT, "wattpack-agent", "spool.db"), (COLLECTOR, "wattpack", "collector.db")],
)
def test_only_its_service_can_access_the_data(machine: Machine, unit: str, folder: str, file: str) -> None:
    assert machine.run("readlink", f"/var/lib/{folder}").stdout.strip() == f"private/{folder}"
    mode, owner = machine.run("stat", "-Lc", "%a %u", f"/var/lib/{folder}").stdout.split()
    assert (mode, owner) == ("700", _status(machine, unit)["Uid"].split()[0])
    machine.run("test", "-s", f"/var/lib/{folder}/{file}")


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
def test_restarts_after_being_killed(machine: Machine, unit: str) -> None:
    killed = machine.property_of(unit, "MainPID")
    machine.run("systemctl", "kill", "--signal=KILL", unit)
    machine.wait_for_unit(unit, "activating")
    machine.wait_for_unit(unit, "active")
    assert machine.property_of(unit, "MainPID") not in {killed, "0"}


def test_undelivered_reports_survive_when_the_agent_is_killed(machine: Machine) -> None:
    machine.run("systemctl", "stop", COLLECTOR)
    machine.run("systemctl", "restart", AGENT)
    queued = eventually(lambda: _metric(machine, "wattpack_agent_queued_reports"), 15)
    machine.run("systemctl", "kill", "--signal=KILL", AGENT)
    machine.wait_for_unit(AGENT, "activating")
    machine.wait_for_unit(AGENT, "active")
    assert _metric(machine, "wattpack_agent_queued_reports") >= queued
    machine.run("systemctl", "start", COLLECTOR)
    eventually(lambda: _metric(machine, "wattpack_agent_delivered_reports_total") > queued, 60)
    assert _metric(machine, "wattpack_agent_dropped_reports_total") == 0


@contextmanager
def _drop_in(machine: Machine, unit: str, text: str) -> Iterator[None]:
    """Change a unit while the block runs, like `systemctl edit --runtime`; restart it before and after."""
    folder = machine.root / f"run/systemd/system/{unit}.d"
    folder.mkdir(parents=True)
    (folder / "test.conf").write_text(f"[Service]\n{text}\n", encoding="utf-8")
    try:
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", unit)
        yield
    finally:
        (folder / "test.conf").unlink()
        folder.rmdir()
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", unit)


# The agent's watchdog timeout is at least four of its samples, regardless of the unit.
@pytest.mark.parametrize(("unit", "patience_seconds"), [(AGENT, 12), (COLLECTOR, 6)])
def test_a_service_that_hangs_is_killed_and_started_again(
    machine: Machine, unit: str, patience_seconds: int
) -> None:
    with _drop_in(machine, unit, f"WatchdogSec={patience_seconds}s"):
        hung = machine.property_of(unit, "MainPID")
        machine.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", unit)
        began = time.monotonic()
        machine.wait_for_unit(unit, "activating", timeout_seconds=60)
        noticed_seconds = time.monotonic() - began
        assert machine.property_of(unit, "Result") == "watchdog"
        assert "Fatal Python error: Aborted" in machine.journal(unit), "where it hung is not logged"
        machine.wait_for_unit(unit, "active")
        assert machine.property_of(unit, "MainPID") not in {hung, "0"}
        # The watchdog may have been notified just before, and the service has the usual time to stop.
        assert patience_seconds / 2 < noticed_seconds < patience_seconds + 5 + 2


@contextmanager
def _settings(machine: Machine, text: str) -> Iterator[None]:
    """Change the agent's settings while the block runs; they apply from its next start."""
    machine.run("cp", "/etc/wattpack/agent.toml", "/root/agent.toml")
    machine.run("sh", "-c", 'printf "%s" "$1" >/etc/wattpack/agent.toml', "sh", text)
    try:
        yield
    finally:
        machine.run("mv", "/root/agent.toml", "/etc/wattpack/agent.toml")
        machine.run("systemctl", "restart", AGENT)


def _install(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return machine.run(INSTALLER, "--wheels", WHEELS, *arguments, check=False, timeout=120)


def test_a_second_installation_keeps_the_settings_and_starts_the_new_version(machine: Machine) -> None:
    before = machine.property_of(AGENT, "MainPID")
    with _settings(machine, 'node = "renamed"'):
        done = _install(machine, "--role", "agent")
        assert done.returncode == 0, done.stderr
        assert machine.property_of(AGENT, "ActiveState") == "active"
        assert machine.property_of(AGENT, "MainPID") != before
        assert machine.run("cat", "/etc/wattpack/agent.toml").stdout == 'node = "renamed"'


def test_a_reload_applies_a_changed_period_without_a_restart(machine: Machine) -> None:
    before = machine.property_of(AGENT, "MainPID")
    with _settings(machine, "sampling.interval_seconds = 0.2"):
        machine.run("systemctl", "reload", AGENT)
        # With the old period this would take a minute.
        eventually(lambda: _metric(machine, "wattpack_agent_samples_total") > 20, 15)
        assert machine.property_of(AGENT, "MainPID") == before
        assert machine.property_of(AGENT, "ActiveState") == "active"


def test_a_reload_of_a_broken_file_fails_and_changes_nothing(machine: Machine) -> None:
    before = machine.property_of(AGENT, "MainPID")
    with _settings(machine, "sampling.interval = 1"):
        assert machine.run("systemctl", "reload", AGENT, check=False).returncode != 0
        assert "unknown key 'sampling.interval'" in machine.journal(AGENT)
        # A signal without systemctl is logged too.
        machine.run("systemctl", "kill", "--kill-who=main", "--signal=HUP", AGENT)
        eventually(lambda: "the new settings are rejected" in machine.journal(AGENT), 10)
        assert machine.property_of(AGENT, "ActiveState") == "active"
        assert machine.property_of(AGENT, "MainPID") == before
        assert _metric(machine, "wattpack_agent_samples_total") > 0


def test_the_collector_can_be_reloaded(machine: Machine) -> None:
    before = machine.property_of(COLLECTOR, "MainPID")
    starts = machine.journal(COLLECTOR).count("listening on")
    machine.run("systemctl", "reload", COLLECTOR)
    eventually(lambda: machine.journal(COLLECTOR).count("listening on") > starts, 10)
    assert machine.property_of(COLLECTOR, "MainPID") == before
    eventually(lambda: json.loads(_get(machine, "http://127.0.0.1:8640/v1/nodes"))["nodes"], 10)


def test_credentials_enable_tls_and_basic_authentication(machine: Machine, tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("server")
    web = {
        "tls_server_config": {"cert_file": "tls.crt", "key_file": "tls.key"},
        "basic_auth_users": {"alice": bcrypt.hashpw(b"wonder", bcrypt.gensalt(4)).decode()},
    }
    (tmp_path / "web.yml").write_text(json.dumps(web), encoding="utf-8")
    secret = machine.root / "root/secret"
    secret.mkdir(mode=0o700)
    given = {"web.yml": tmp_path / "web.yml", "tls.crt": pair.certificate, "tls.key": pair.key}
    for name, file in given.items():
        (secret / name).write_bytes(file.read_bytes())
    loading = "\n".join(f"LoadCredential={name}:/root/secret/{name}" for name in given)
    with _drop_in(machine, AGENT, loading):
        assert "metrics at https://127.0.0.1:9640/metrics" in machine.journal(AGENT)
        secure = METRICS.replace("http", "https")
        assert "wattpack_agent_build_info" in _get(machine, secure, "alice:wonder")
        for url, user in ((secure, "alice:wrong"), (secure, ""), (METRICS, "alice:wonder")):
            with pytest.raises(AssertionError):
                _get(machine, url, user)


def test_only_the_agents_group_can_read_energy_counters(machine: Machine) -> None:
    tree = PowercapTree(machine.root / "srv/rapl", intel(constant(40.0)))
    shown = ("class", "devices/virtual")
    counter = "/sys/class/powercap/intel-rapl:0/energy_uj"
    for part in shown:
        machine.run("mount", "--bind", f"/srv/rapl/sys/{part}", f"/sys/{part}")
    try:
        assert tree.zones
        machine.run("systemctl", "restart", AGENT)
        assert machine.run("stat", "-Lc", "%U %G %a", counter).stdout.split() == [
            "root",
            "wattpack-power",
            "440",
        ]
        began = time.monotonic()

        def measured() -> bool:
            spent_uj = (time.monotonic() - began) * 40e6
            machine.run("sh", "-c", f"echo {spent_uj:.0f} >{counter}")
            return re.search(r'wattpack_node_power_watts{.*source="rapl"', _get(machine, METRICS)) is not None

        eventually(measured, 20)
    finally:
        for part in shown:
            machine.run("umount", f"/sys/{part}")
        machine.run("systemctl", "restart", AGENT)


def test_mistake_in_the_settings_is_in_the_journal(machine: Machine) -> None:
    with _settings(machine, "nod = 1"):
        done = _install(machine, "--role", "agent")
        assert done.returncode == 2
        assert done.stderr.endswith("did not start: see journalctl -u wattpack-agent.service\n")
        assert "unknown key 'nod'" in machine.journal(AGENT)


def test_uninstalling_leaves_settings_and_history_only(machine: Machine) -> None:
    machine.run(INSTALLER, "--uninstall", "--role", "agent", timeout=120)
    assert machine.property_of(AGENT, "LoadState") == "not-found"
    assert machine.property_of(COLLECTOR, "ActiveState") == "active"
    machine.run(INSTALLER, "--uninstall", timeout=120)
    units = "/etc/systemd/system"
    left = machine.run(
        "sh", "-c", f"ls -d /opt/wattpack {units}/*wattpack* {units}/*/*wattpack*", check=False
    )
    assert left.stdout == ""
    machine.run("test", "-e", "/etc/wattpack/agent.toml", "-a", "-s", "/var/lib/wattpack/collector.db")
    machine.run("test", "-e", "/var/lib/wattpack-agent/spool.db")
    assert _install(machine).returncode == 0
