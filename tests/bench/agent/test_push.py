import argparse
import gzip
import io
import json
from itertools import product
from pathlib import Path

import pytest

from agent.config import ReportingConfig
from agent.reporting.reporter import Reporter
from bench.__main__ import main
from bench.agent import push as agent_push
from bench.agent import traffic as push_traffic
from bench.common.bitbrains import read_machines
from bench.common.progress import Progress
from bench.common.results import Figure
from wire.errors import UserError
from wire.resources import Quantities

SLOTS = 12
MEBIBYTE = 1 << 20


def used(machine: int, slot: int) -> tuple[float, ...]:
    """A machine that is steady, one that moves a little, one that jumps once, and two that copy once."""
    match machine:
        case 1:
            return (500, 4000, 0, 10, 5, 5)
        case 2:
            return (400 + 20 * slot, 1000 + 40 * slot, 0, 0, 0, 10 + slot)
        case 3:
            return (100 if slot < 7 else 700, 500, 0, 0, 0, 0)
        case _:
            return (0, 0, 5000, 0, 0, 5000) if slot == 3 else (0, 0, 0, 0, 0, 0)


@pytest.fixture(name="traces")
def make_traces(tmp_path: Path) -> Path:
    rows = ["vm,slot,cpu_mhz,mem_mb,disk_read_kbs,disk_write_kbs,net_rx_kbs,net_tx_kbs"]
    rows += [
        ",".join(map(str, (machine, slot, *used(machine, slot))))
        for machine, slot in product(range(1, 6), range(SLOTS))
        if (machine, slot) not in {(1, 0), (1, 5)}
    ]
    with gzip.open(tmp_path / "bitbrains-rnd-2013-08-week.csv.gz", "wt") as file:
        file.write("\n".join(rows) + "\n")
    machines = ["vm,cores,cpu_capacity_mhz,mem_capacity_mb,slots"]
    machines += [f"{machine},2,2000,8000,{SLOTS}" for machine in range(1, 5)]
    machines += [f"5,0,0,8000,{SLOTS}"]
    (tmp_path / "bitbrains-rnd-vms.csv").write_text("\n".join(machines) + "\n", encoding="ascii")
    return tmp_path


@pytest.fixture(name="figures")
def few_minutes_of_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_traffic, "_MINUTES", 5)
    monkeypatch.setattr(push_traffic, "CONTAINERS", 5)


def run(traces: Path, *, hours: int = 1, per_node: int = 25) -> dict[str, Figure]:
    options = argparse.Namespace(data=traces, hours=hours, per_node=per_node)
    result = agent_push.run(options, Progress(io.StringIO()))
    return {figure.name: figure for figure in result.figures}


def test_the_trace_is_read_in_the_units_of_the_wire(traces: Path) -> None:
    machines = read_machines(traces, 2)
    assert [machine.name for machine in machines] == ["vm-0001", "vm-0002", "vm-0003", "vm-0004"]
    assert machines[0].limit == Quantities(cpu_cores=2.0, memory_bytes=8000 * MEBIBYTE)
    assert machines[1].slots[1] == pytest.approx((0.42, 1040 * MEBIBYTE, 0, 11 * 1024))


def test_a_missing_slot_repeats_the_previous_one(traces: Path) -> None:
    steady = read_machines(traces, SLOTS)[0]
    assert len(steady.slots) == SLOTS
    assert set(steady.slots) == {(0.5, 4000 * MEBIBYTE, 10 * 1024, 10 * 1024)}


@pytest.mark.usefixtures("figures")
def test_small_trace_is_reported_accurately_with_few_reports(traces: Path) -> None:
    figures = run(traces)
    assert all(figure.ok for figure in figures.values()), [str(figure) for figure in figures.values()]
    assert figures["values_compared"].value is not None
    assert figures["values_compared"].value >= 4 * 4 * 80
    assert figures["sent_because_of_changes"].value is not None
    assert figures["sent_because_of_changes"].value > 0
    assert figures["container_messages_saved"].at_least == 80
    assert figures["worst_p90"].at_most == 2
    assert figures["steady_traffic"].at_most == 6000
    assert figures["steady_reports"].value == 2


@pytest.mark.slow
@pytest.mark.usefixtures("figures")
def test_an_agent_that_reports_too_little_misses_a_bound(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lax(Reporter):
        def __init__(self, node: str, boot: str, push: ReportingConfig, sample_seconds: float) -> None:
            lax = ReportingConfig(threshold_points=40.0, heartbeat_seconds=push.heartbeat_seconds)
            super().__init__(node, boot, lax, sample_seconds)

    monkeypatch.setattr(agent_push, "Reporter", Lax)
    figures = run(traces)
    assert not figures["values_off_by_the_threshold"].ok


@pytest.mark.slow
@pytest.mark.usefixtures("figures")
def test_agent_that_sends_every_window_saves_nothing(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Talkative(Reporter):
        def __init__(self, node: str, boot: str, _: ReportingConfig, sample_seconds: float) -> None:
            super().__init__(node, boot, ReportingConfig(threshold_points=0.0), sample_seconds)

    monkeypatch.setattr(agent_push, "Reporter", Talkative)
    saved = run(traces)["container_messages_saved"]
    assert not saved.ok
    assert saved.value is not None
    assert saved.value < 0


@pytest.mark.parametrize(("hours", "per_node"), [(0, 3), (24, 3), (1, 0)])
def test_invalid_options_are_rejected(traces: Path, hours: int, per_node: int) -> None:
    with pytest.raises(UserError, match="must be"):
        run(traces, hours=hours, per_node=per_node)


def test_missing_trace_is_a_user_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATTPACK_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["agent-push", "--data", str(tmp_path)], progress=Progress(io.StringIO())) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "bitbrains-rnd-2013-08-week is not installed" in output.err
    assert f"put it at {tmp_path / 'bitbrains/rnd/2013-8'}" in output.err
    assert len(output.err.splitlines()) == 1


@pytest.mark.usefixtures("figures")
def test_the_command_prints_one_json_object(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["agent-push", "--data", str(traces), "--hours", "1"], progress=Progress(io.StringIO()))
    found = json.loads(capsys.readouterr().out)
    assert (status, found["benchmark"], found["ok"]) == (0, "agent-push", True)
