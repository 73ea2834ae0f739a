from datetime import UTC, datetime
from math import fsum
from pathlib import Path

import msgspec
import pytest

from powermodels.attribution.split import IdlePolicy
from powermodels.common.host_facts import read_host_facts
from powermodels.common.interface import Load, Scope
from powermodels.estimator import Estimator
from powermodels.meters.ipmi import TOOLS, IpmiMeter, Tool
from powermodels.models.fitted import Origin, Range, ScopeName, Training, fingerprint
from powermodels.models.regression import CurveModel, LinearModel
from powermodels.models.stored import Stored, save
from tests.lab.powercap import Fault, PowercapTree, constant, intel
from tests.powermodels.hosts import SKYLAKE, write_proc
from tests.powermodels.sysfs import write_files
from wire.messages import PowerSource
from wire.resources import Quantities

LOAD = Load(cpu_ratio=0.5, memory_ratio=0.4, disk_ratio=0.1, network_ratio=0.1)
CONTAINERS = {"web": Load(0.2, 0.1), "db": Load(0.1, 0.2, 0.1, None)}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return write_proc(tmp_path / "proc", SKYLAKE)


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return PowercapTree(tmp_path / "powercap", intel(constant(100), constant(50)))


def stored(
    host: str, metered: ScopeName = "NODE", kind: type[LinearModel | CurveModel] = CurveModel
) -> Stored:
    training = Training(samples=500, watts=Range(60.0, 300.0), features={"cpu": Range(0.0, 1.0)})
    origin = Origin(
        features=("cpu", "disk"),
        scaling=Quantities(disk_bytes_per_second=1e9),
        training=training,
        error_ratio=0.04,
        made=datetime(2026, 1, 2, tzinfo=UTC),
        host=host,
        metered=metered,
    )
    return kind(origin=origin, idle_watts=60.0, coefficients_watts={"cpu": 200.0, "disk": 40.0})


def test_metered_host_reports_the_metered_watts_lifted_to_the_machine(proc: Path, tree: PowercapTree) -> None:
    estimator = Estimator.for_host(proc, tree.sys)
    estimator.begin(0)
    tree.advance(3)
    estimate = estimator.estimate(3, LOAD, CONTAINERS)
    assert estimate.source is PowerSource.RAPL
    assert estimate.source_scope is Scope.CPU_AND_MEMORY
    assert estimate.source_watts == pytest.approx(180, rel=0.005)
    assert estimate.watts > 180
    assert 0.1 < estimate.error_ratio < 0.4, "between the meter's and the prior's"
    shares = [share.watts for share in estimate.containers.values()]
    assert fsum((estimate.idle_watts, estimate.system_watts, *shares)) == pytest.approx(estimate.watts)
    assert min(shares) > 0
    assert all(share.error_ratio >= estimate.error_ratio for share in estimate.containers.values())


def test_what_the_meter_does_not_see_is_a_gap(proc: Path, tree: PowercapTree) -> None:
    estimator = Estimator.for_host(proc, tree.sys)
    (gap,) = estimator.gaps
    assert gap.why == "rapl measures CPU and memory only; the rest is estimated"
    meter, model = estimator.describe()
    assert meter.startswith("power: RAPL: package-0, package-0 dram")
    assert model.startswith("power: prior for 2 x Intel(R) Xeon(R) Gold 6140")


def test_while_the_meter_is_silent_what_was_learned_from_it_stands_in(proc: Path, tree: PowercapTree) -> None:
    estimator = Estimator.for_host(proc, tree.sys)
    assert estimator.estimate(0, LOAD, CONTAINERS).source is PowerSource.PRIOR
    tree.advance(3)
    assert estimator.estimate(3, LOAD, CONTAINERS).source is PowerSource.RAPL
    tree.fail("intel-rapl:0", "energy_uj", Fault.EACCES)
    tree.advance(6)
    silent = estimator.estimate(6, LOAD, CONTAINERS)
    assert (silent.source, silent.source_scope) == (PowerSource.MODEL, Scope.CPU_AND_MEMORY)
    assert silent.source_watts == pytest.approx(180, rel=0.01)
    assert [gap.what for gap in estimator.gaps] == ["RAPL"]
    assert len(estimator.describe()) == 1


def test_host_without_a_meter_has_a_gap_and_an_estimate(proc: Path, tmp_path: Path) -> None:
    estimator = Estimator.for_host(proc, tmp_path / "sys")
    estimate = estimator.estimate(0, LOAD, {})
    assert estimate.source is PowerSource.PRIOR
    assert estimate.source_scope is Scope.NODE
    assert estimate.idle_watts + estimate.system_watts == pytest.approx(estimate.watts)
    assert [gap.what for gap in estimator.gaps] == ["RAPL"]


def test_every_meter_is_visible_and_the_one_that_sees_most_is_used(proc: Path, tree: PowercapTree) -> None:
    write_files(tree.sys / "class/hwmon/hwmon0", {"name": "power_meter", "power1_average": 290_000_000})
    write_files(tree.sys / "class/hwmon/hwmon1", {"name": "amdgpu", "power1_average": 20_000_000})
    estimator = Estimator.for_host(proc, tree.sys)
    estimator.begin(0)
    tree.advance(3)
    estimate = estimator.estimate(3, LOAD, CONTAINERS)
    assert estimate.watts == pytest.approx(290)
    assert (estimate.source, estimate.source_scope) == (PowerSource.HWMON, Scope.NODE)
    assert [(state.name, state.used, state.watts) for state in estimator.meters()] == [
        ("acpi", True, 290.0),
        ("rapl", False, pytest.approx(180, rel=0.005)),
        ("hwmon", False, None),
    ]
    assert [part.name for part in estimator.meters()[1].parts][:2] == ["package-0", "package-0 dram"]
    assert not estimator.gaps


def test_when_the_better_meter_goes_the_other_one_is_used(proc: Path, tree: PowercapTree) -> None:
    folder = write_files(
        tree.sys / "class/power_supply/BAT0",
        {"type": "Battery", "status": "Discharging", "power_now": 290_000_000},
    )
    estimator = Estimator.for_host(proc, tree.sys)
    estimator.begin(0)
    tree.advance(12)
    before = estimator.estimate(12, LOAD, {})
    assert before.source_scope is Scope.NODE
    assert before.watts == pytest.approx(290)
    write_files(folder, {"status": "Charging"})
    tree.advance(15)
    after = estimator.estimate(15, LOAD, {})
    # The whole machine was measured before: the model of that continues, unless RAPL is more accurate.
    assert after.watts == pytest.approx(290, rel=0.15)
    assert after.error_ratio < 0.3
    assert estimator.model.scope is Scope.NODE, (
        "the values of RAPL are not learned as those of the whole machine"
    )


@pytest.mark.parametrize("policy", IdlePolicy)
def test_idle_share_is_not_part_of_the_sum(proc: Path, tmp_path: Path, policy: IdlePolicy) -> None:
    estimator = Estimator.for_host(proc, tmp_path / "sys", idle_policy=policy)
    reserved = {"web": Load(0.25), "db": Load(0.1, 0.5)}
    estimate = estimator.estimate(0, LOAD, CONTAINERS, reserved=reserved)
    shares = estimate.containers.values()
    parts = (estimate.idle_watts, estimate.system_watts, *(share.watts for share in shares))
    assert fsum(parts) == pytest.approx(estimate.watts)
    handed_out = fsum(share.idle_watts for share in shares)
    assert handed_out <= estimate.idle_watts * (1 + 1e-12)
    assert (handed_out > 0) == (policy is not IdlePolicy.NONE)


def test_the_hosts_own_model_is_used_where_there_is_one(proc: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    facts = Estimator.for_host(proc, tmp_path).facts
    save(stored(fingerprint(facts)), path)
    estimator = Estimator.for_host(proc, tmp_path / "sys", model_path=path)
    estimate = estimator.estimate(0, Load(0.5), {})
    assert (estimate.watts, estimate.source, estimate.error_ratio) == (160, PowerSource.MODEL, 0.04)
    assert "on 2026-01-02" in estimator.model.describe()


def test_a_load_is_taken_by_the_capacity_that_the_model_was_fitted_with(proc: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save(stored(fingerprint(Estimator.for_host(proc, tmp_path).facts)), path)
    estimator = Estimator.for_host(proc, tmp_path / "sys", model_path=path)
    load = Load(0.5, disk_ratio=0.5)
    capacity = Quantities(disk_bytes_per_second=2e8)
    assert estimator.estimate(0, load, {}).watts == pytest.approx(180)
    assert estimator.estimate(0, load, {}, capacity=capacity).watts == pytest.approx(164)


@pytest.mark.parametrize(("content", "why"), [(None, "another machine"), (b"{}", "is not a valid model")])
def test_a_model_that_is_not_this_hosts_is_left_alone_and_named(
    proc: Path, tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "model.json"
    if content is None:
        save(stored("somebody else"), path)
    else:
        path.write_bytes(content)
    estimator = Estimator.for_host(proc, tmp_path / "sys", model_path=path)
    assert estimator.estimate(0, LOAD, {}).source is PowerSource.PRIOR
    assert any(why in gap.why for gap in estimator.gaps)


def test_a_calibrated_line_is_used_as_it_is(proc: Path, tree: PowercapTree, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    host = fingerprint(Estimator.for_host(proc, tree.sys).facts)
    save(stored(host, "CPU_AND_MEMORY", LinearModel), path)
    before = path.read_bytes()
    estimator = Estimator.for_host(proc, tree.sys, model_path=path)
    estimator.begin(0)
    tree.advance(3)
    estimator.estimate(3, LOAD, {})
    estimator.close()
    assert estimator.model.terms(Load(1.0)).watts == 260
    assert path.read_bytes() == before


def test_a_calibrated_curve_goes_on_learning(proc: Path, tree: PowercapTree, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    host = fingerprint(Estimator.for_host(proc, tree.sys).facts)
    save(stored(host, "CPU_AND_MEMORY"), path)
    estimator = Estimator.for_host(proc, tree.sys, model_path=path)
    estimator.begin(0)
    for seconds in range(3, 60, 3):
        tree.advance(seconds)
        estimator.estimate(seconds, Load(0.5), {})
    estimator.close()
    assert estimator.model.terms(Load(0.5)).watts == pytest.approx(180, rel=0.02)
    assert msgspec.json.decode(path.read_bytes())["kind"] == "adaptive"


def test_a_closed_estimator_leaves_no_running_tool(proc: Path, tmp_path: Path) -> None:
    program = tmp_path / "ipmitool"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    meter = IpmiMeter(Tool((str(program),), TOOLS[0].answer))
    facts = read_host_facts(proc, tmp_path / "sys")
    estimator = Estimator(facts, [meter])
    estimator.begin(0)
    running = meter._running
    assert running is not None
    estimator.close()
    assert running.returncode == -9


def test_this_machine_gets_sane_watts() -> None:
    estimator = Estimator.for_host(Path("/proc"), Path("/sys"))
    idle_watts, full_watts = (estimator.estimate(0, Load(u, u), {}).watts for u in (0.0, 1.0))
    threads = estimator.facts.threads
    gigabytes = estimator.facts.memory_bytes / 1e9
    assert 0.1 * threads < idle_watts < full_watts < 150 + 25 * threads + gigabytes
    assert estimator.describe()
