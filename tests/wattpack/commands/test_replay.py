import json
from pathlib import Path

import pytest

from wattpack.cli import main

SCENARIO = """
title = "Small"
run = ["spread", "binpack"]

[[hosts]]
name = "node"
count = 3
cpu_cores = 4
memory_mb = 4096
watts = [100, 200]

[trace]
generator = "listed"
settings.kinds.web = { cpu_cores = 1, memory_mb = 256 }
settings.order = ["web", "web", "web"]

[policies.noted]
policy = "spread"
note = "the same under another name"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def planetlab(tmp_path: Path) -> Path:
    path = tmp_path / "day.txt"
    values = " ".join(["20"] * 288)
    path.write_text("".join(f"machine {letter} {values}\n" for letter in "abcd"))
    return path


def test_scenario_compares_the_policies_that_it_names(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(scenario)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("POLICY")
    assert [line.split()[0] for line in lines[1:3]] == ["spread", "binpack"]


def test_json_has_one_key_and_all_figures(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(scenario), "--policies", "spread", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["policies"]
    figures = found["policies"]["spread"]
    # Ten minutes on three nodes, each with one container on a quarter of it.
    assert figures["energy_kwh"] == pytest.approx(3 * 125 / 6000, rel=0.01)
    assert figures["node_hours"] == pytest.approx(0.5)
    assert set(figures["overloaded_node_time_ratio"]) == {"cpu", "memory", "disk", "network"}
    assert (figures["placed"], figures["refused"], figures["migrations"]) == (3, 0, 0)


def test_notes_follow_the_table(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(scenario), "--policies", "noted"]) == 0
    assert "noted: the same under another name" in capsys.readouterr().out


def test_csv_and_page_are_written(scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"
    assert main(["replay", str(scenario), "--html", str(page), "--csv", str(rows)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert len(rows.read_text().splitlines()) == 3
    capsys.readouterr()
    assert main(["replay", str(scenario), "--html", str(tmp_path / "no" / "page.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.slow
def test_trace_runs_on_the_hosts_of_a_file(planetlab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", "--trace", str(planetlab), "--format", "planetlab"]
    hosts = Path("scenarios/planetlab-hosts.toml").read_text().replace("count = 400", "count = 4")
    few = planetlab.with_name("hosts.toml")
    few.write_text(hosts)
    assert (
        main([*command, "--hosts", str(few), "--learn", str(planetlab), "--policies", "first-fit", "--json"])
        == 0
    )
    figures = json.loads(capsys.readouterr().out)["policies"]["first-fit"]
    assert figures["placed"] == 4
    assert figures["energy_kwh"] > figures["lower_bound_kwh"] > 0


@pytest.mark.slow
def test_a_machine_that_pauses_ends_as_in_cloudsim_or_is_served_to_the_end(
    planetlab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = " ".join([*["20"] * 100, *["0"] * 8, *["20"] * 180])
    with planetlab.open("a") as day:
        day.write(f"machine e {values}\n")
    few = planetlab.with_name("hosts.toml")
    few.write_text(Path("scenarios/planetlab-hosts.toml").read_text().replace("count = 400", "count = 4"))
    command = ["replay", "--trace", str(planetlab), "--format", "planetlab", "--hosts", str(few), "--json"]
    assert main([*command, "--policies", "lr-mmt,lr-mmt-served"]) == 0
    policies = json.loads(capsys.readouterr().out)["policies"]
    assert {name: each["finished"] for name, each in policies.items()} == {"lr-mmt": 1, "lr-mmt-served": 0}
    assert policies["lr-mmt"]["lower_bound_kwh"] < policies["lr-mmt-served"]["lower_bound_kwh"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "give a scenario"),
        (["--trace", "x"], "--trace needs --hosts"),
        (["--trace", ".", "--hosts", "SCENARIO"], "--trace . needs --format"),
        (["SCENARIO", "--trace", "x"], "give a scenario, or"),
        (["--history", "absent.db"], "no history at"),
        (["--history", "absent.db", "--days", "0"], "--history and a number above 0"),
        (["fleet.toml", "--days", "7"], "--days needs --history"),
        (["SCENARIO", "--policies", "spraed"], "did you mean 'spread'"),
        (["absent.toml"], "cannot read"),
        (["SCENARIO", "--pareto", "spread"], "policy 'spread' has no setting that trades energy"),
    ],
)
def test_invalid_replay_arguments_are_user_errors(
    scenario: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    given = [str(scenario) if each == "SCENARIO" else each for each in arguments]
    assert main(["replay", *given]) == 2
    assert why in capsys.readouterr().err


def test_seed_can_be_chosen(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for _ in range(2):
        main(["replay", str(scenario), "--policies", "random", "--seed", "4", "--json"])
        figures = json.loads(capsys.readouterr().out)["policies"]["random"]
        del figures["timing"]
        found.append(figures)
    assert found[0] == found[1]


@pytest.mark.slow
def test_pareto_compares_several_values_of_a_setting_with_other_policies(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"
    command = ["replay", str(scenario), "--pareto", "--json", "--html", str(page), "--csv", str(rows)]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    # The policies are those that the scenario names, as without --pareto.
    assert list(found["policies"]) == ["spread", "binpack"]
    pareto = found["pareto"]
    assert (pareto["policy"], pareto["knob"]) == ("least-watts", "short_ratio")
    points = pareto["points"]
    assert [point["value"] for point in points] == [0.001, 0.002, 0.005, 0.01, 0.02, 0.05]
    assert [point["value"] for point in points if point["is_default"]] == [0.01]
    assert {"energy_kwh", "short_ratio", "migrations", "dominated"} <= set(points[0])
    # Three nodes with a container each draw more than one with all three.
    spread, binpack = pareto["peers"]
    assert (spread["policy"], spread["dominated"]) == ("spread", True)
    assert (binpack["policy"], binpack["short_ratio"]) == ("binpack", 0.0)
    assert len(rows.read_text().splitlines()) == 1 + 2 + 6
    text = page.read_text()
    assert "least-watts over short_ratio" in text
    assert text.count('<circle class="dot') == 8
    assert text.count('<circle class="ring') == 1


@pytest.mark.slow
def test_pareto_prints_a_table_and_a_plot_without_colour(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["replay", str(scenario), "--policies", "least-watts,spread"]
    assert main([*command, "--pareto", "least-watts:overbooks=true"]) == 0
    out = capsys.readouterr().out
    assert "\033" not in out
    assert "1 least-watts:overbooks=true short_ratio=0.001" in out
    assert "short_ratio=0.01 (default)" in out
    assert "\nA least-watts " in out
    assert out.rstrip().endswith("time short, %")


@pytest.mark.slow
def test_requests_wait_in_a_queue_on_hosts_of_a_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, hosts = tmp_path / "requests.csv", tmp_path / "hosts.csv"
    header = "second,task,job,duration_seconds,cpu,memory,priority,anti_affinity,constraints"
    rows = ["0,1,j,600,0.5,0.1,0,0,", "60,2,k,600,0.5,0.1,9,0,Ql == 3", "60,3,l,600,0.1,0.1,2,0,"]
    trace.write_text("\n".join((header, *rows)))
    hosts.write_text("host,cpu,memory,attributes\n7,0.6,1,Ql=3\n")
    arguments = ["--trace", str(trace), "--format", "requests", "--hosts", str(hosts)]
    assert main(["replay", *arguments, "--policies", "priority,qos-driven", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    assert list(found) == ["priority", "qos-driven"]
    for figures in found.values():
        assert set(figures["slo"]) == {"A", "B", "C"}
        assert set(figures["slo"]["C"]) >= {"met_ratio", "mean_availability", "min_availability", "gini"}
        assert figures["arrived"] == 3
    # The second request takes the place of the first, which comes back when it is over.
    first = found["priority"]
    assert first["preemptions"] == 1
    assert first["slo"]["A"] == {**first["slo"]["A"], "met_ratio": 1.0, "mean_availability": 1.0}
    assert first["slo"]["C"]["mean_availability"] == pytest.approx(600 / 1202.5, abs=0.002)
    assert main(["replay", *arguments, "--policies", "priority"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["POLICY", "CLASS"]
    assert [line.split()[:2] for line in lines[1:4]] == [["priority", each] for each in "ABC"]


def test_a_policy_that_does_not_start_waiting_containers_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, hosts = tmp_path / "requests.csv", tmp_path / "hosts.csv"
    header = "second,task,job,duration_seconds,cpu,memory,priority,anti_affinity,constraints"
    trace.write_text(f"{header}\n0,1,j,600,0.5,0.1,0,0,\n")
    hosts.write_text("host,cpu,memory,attributes\n7,0.6,1,Ql=3\n")
    arguments = ["--trace", str(trace), "--format", "requests", "--hosts", str(hosts)]
    assert main(["replay", *arguments, "--policies", "spread"]) == 2
    assert "spread does not start waiting containers" in capsys.readouterr().err
