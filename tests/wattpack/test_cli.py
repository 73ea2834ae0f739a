import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.processes import free_port, wattpack
from wattpack.cli import main
from wattpack.commands import COMMANDS, Command
from wire.messages import Report
from wire.version import __version__

EVERY_COMMAND = [
    each for commands in COMMANDS.values() for command in commands for each in (command, *command.parts)
]


def test_help_lists_every_command_by_what_one_wants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    listed = [command for commands in COMMANDS.values() for command in commands]
    assert len(listed) <= 22
    assert all(f"  {command.name} " in shown and command.summary in shown for command in listed)
    assert all(f"\n{title}:\n" in shown for title in COMMANDS)
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: command.name)
def test_every_command_has_help(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.name.split(), "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: wattpack {command.name} ")
    assert all(part.summary in shown for part in command.parts)


def test_a_command_that_needs_a_sub_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power"]) == 0
    assert "  doctor " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("agnet",), "unknown command 'agnet': did you mean 'agent'?"),
        (("frobnicate",), "unknown command 'frobnicate': 'wattpack --help' lists all commands"),
        (("power", "docter"), "unknown command 'power docter': did you mean 'power doctor'?"),
        (("services", "xy"), "unknown command 'services xy': 'wattpack services --help' lists all commands"),
    ],
)
def test_an_unknown_command_suggests_the_nearest(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"wattpack: {sentence}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("control", "pause", "--for", "-5m"),
            "'-5m' is not a duration above 0: use a value such as 90s, 30m, 1h or 2d",
        ),
        (("energy", "--days", "-3"), "--days -3: use a number above 0 and up to 36500"),
        (("top", "--interval", "0"), "--interval 0: use at least 0.2 seconds"),
        (
            ("top", "--collector", "web1:8640"),
            "--collector web1:8640: use a URL such as http://127.0.0.1:8640",
        ),
    ],
)
def test_an_invalid_value_is_refused_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"wattpack: {sentence}\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"wattpack {__version__} ")


def test_check_config_shows_changed_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.toml"
    file.write_text("[sampling]\ninterval_seconds = 5\n")
    assert main(["admin", "check-config", "agent", str(file)]) == 0
    assert capsys.readouterr().out == (
        f"{file} is a valid agent configuration.\n  sampling.interval_seconds = 5.0  (default 3.0)\n"
    )
    assert main(["admin", "check-config", "agent", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sampling"] == {"interval_seconds": 5.0}


def test_check_config_shows_values_as_the_file_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "collector.toml"
    file.write_text("[elastic.web]\nmetric_max = 0.2\n[brownout]\nenabled = false\n")
    assert main(["admin", "check-config", "collector", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  elastic.web.metric_max = 0.2" in lines
    assert '  elastic.web.policy = "queueing"' in lines
    assert "  brownout.enabled = false  (default true)" in lines
    assert not any("None" in line or "{" in line for line in lines)


def test_check_config_rejects_what_the_service_rejects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "collector.toml"
    file.write_text('[http]\nlisten = "0.0.0.0:8640"\n')
    assert main(["admin", "check-config", "collector", str(file)]) == 2
    assert "loopback" in capsys.readouterr().err
    file.write_text('[driver]\nname = "docker"\n')
    assert main(["admin", "check-config", "collector", str(file)]) == 2
    assert "[driver.engines] is empty" in capsys.readouterr().err
    file.write_text('[pull]\nurl = "http://127.0.0.1:9090"\ncredentials_file = "/absent"\n')
    assert main(["admin", "check-config", "collector", str(file)]) == 2
    assert "check pull.credentials_file" in capsys.readouterr().err
    store = '[store]\nurl = "http://127.0.0.1:9090"\ncredentials_file = "/absent"\n'
    for asking in ('[elastic.web]\nmetric_max = 1\nquery = "up"\n', '[energy]\nprice_query = "up"\n'):
        file.write_text(store + asking)
        assert main(["admin", "check-config", "collector", str(file)]) == 2
        assert "check store.credentials_file" in capsys.readouterr().err
    file.write_text('[host]\ncgroup = "/absent"\n')
    assert main(["admin", "check-config", "agent", str(file)]) == 2
    assert "host.cgroup" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--days", "-1"], "wattpack: --days -1: use a number above 0 and up to 36500\n"),
        (["--days", "nan"], "wattpack: --days nan: use a number above 0 and up to 36500\n"),
        (
            ["--start", "2026-05-02", "--end", "2026-05-01"],
            "wattpack: --start 2026-05-02 00:00:00 is not before the end of the period, 2026-05-01 00:00:00",
        ),
    ],
)
def test_energy_of_an_impossible_period_is_a_user_error(
    options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["energy", "--collector", "http://127.0.0.1:1", *options]) == 2
    assert capsys.readouterr().err.startswith(expected)


@pytest.mark.slow
def test_agent_once_prints_a_report_as_json() -> None:
    ended = wattpack("agent", "--once", "--json", "--set", "node=here").run()
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["node"] == "here"
    assert report["state"]["power"]["source"] in {"rapl", "hwmon", "ipmi", "model", "prior"}
    assert report["state"]["power"]["watts"] > 0
    assert report["state"]["power"]["error_ratio"] > 0
    assert 0 <= report["state"]["used"]["cpu_cores"] <= report["state"]["capacity"]["cpu_cores"] * 1.05
    assert isinstance(msgspec.json.decode(ended.stdout, type=Report), Report)


@pytest.mark.slow
def test_agent_once_prints_a_table() -> None:
    ended = wattpack("agent", "--once", "--set", "node=here").run()
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("here: ")
    assert "\nPOWER  " in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("taken", "free", "key"),
    [("collector", "agent", "http.listen"), ("agent", "collector", "agent.http.listen")],
)
def test_port_in_use_is_a_user_error_and_leaves_no_files(
    taken: str, free: str, key: str, tmp_path: Path
) -> None:
    with free_port() as (port, _taken):
        ended = wattpack(
            "up",
            "--data",
            str(tmp_path / "data"),
            "--set",
            f"{taken}.http.listen=127.0.0.1:{port}",
            "--set",
            f"{free}.http.listen=127.0.0.1:0",
        ).run()
    assert ended.returncode == 2
    # Log lines of the service come before it.
    assert ended.stderr.splitlines()[-1] == (
        f"wattpack: 127.0.0.1:{port} is already in use: stop that process, or set {key} to another address"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_agent_does_not_import_numpy_sdks_or_the_collector() -> None:
    listing = "import sys, wattpack.commands.agent; print(*{name.partition('.')[0] for name in sys.modules})"
    seen = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True, env={"PYTHONPATH": "."}
    ).stdout.split()
    assert "agent" in seen
    heavy = {"numpy", "scipy", "sklearn", "pandas", "docker", "requests"}
    assert set(seen) & (heavy | {"collector", "replay"}) == set()


@pytest.mark.slow
def test_commands_for_tokens_import_no_numpy() -> None:
    listing = "import sys, wattpack.commands.token; print(*sys.modules)"
    seen = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True, env={"PYTHONPATH": "."}
    ).stdout.split()
    assert "collector.config" in seen
    assert "numpy" not in seen


@pytest.mark.slow
def test_collector_imports_no_driver_and_no_store_before_it_needs_one() -> None:
    listing = "import sys, wattpack.commands.collector; print(*sys.modules)"
    seen = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True, env={"PYTHONPATH": "."}
    ).stdout.split()
    assert "collector.main" in seen
    optional = {f"collector.act.drivers.{name}" for name in ("docker", "kubernetes", "swarm")}
    assert set(seen) & (optional | {"collector.features.prometheus.history"}) == set()


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["POSIX", "C"])
def test_output_in_a_posix_locale_replaces_what_it_cannot_show(locale: str) -> None:
    plain = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "wattpack", "agent", "--once"],
        env=plain,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"W" in done.stdout
    assert done.stdout.isascii()
