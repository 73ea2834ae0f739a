from math import fsum
from pathlib import Path

import pytest

from powermodels.estimator import Estimator
from powermodels.interface import Load
from tests.lab.powercap import Fault, PowercapTree, constant, intel
from wire.messages import PowerSource

CPUINFO = """\
processor\t: {n}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz
stepping\t: 4
physical id\t: {n}
core id\t\t: 0
flags\t\t: fpu vme
"""
LOAD = Load(cpu_ratio=0.5, memory_ratio=0.4, disk_ratio=0.1, network_ratio=0.1)
CONTAINERS = {"web": Load(0.2, 0.1), "db": Load(0.1, 0.2, 0.1, None)}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "cpuinfo").write_text("\n".join(CPUINFO.format(n=n) for n in range(2)))
    (folder / "meminfo").write_text("MemTotal: 196608000 kB\n")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return PowercapTree(tmp_path / "powercap", intel(constant(100), constant(50)))


def test_a_metered_host_reports_what_the_meter_says(proc: Path, tree: PowercapTree) -> None:
    estimator = Estimator.for_host(proc, tree.sys)
    estimator.begin(0)
    tree.advance(3)
    estimate = estimator.estimate(3, LOAD, CONTAINERS)
    assert estimate.source is PowerSource.RAPL
    assert estimate.watts == pytest.approx(180, rel=0.005)
    shares = [share.watts for share in estimate.containers.values()]
    assert fsum((estimate.idle_watts, estimate.system_watts, *shares)) == pytest.approx(estimate.watts)
    assert min(shares) > 0
    assert all(share.error_ratio >= estimate.error_ratio for share in estimate.containers.values())


def test_what_the_meter_does_not_see_is_a_gap(proc: Path, tree: PowercapTree) -> None:
    estimator = Estimator.for_host(proc, tree.sys)
    (gap,) = estimator.gaps
    assert gap.why == "rapl sees CPU and memory only, not the rest of it"
    meter, model = estimator.describe()
    assert meter.startswith("power: RAPL meter: package-0, package-0 dram")
    assert model.startswith("power: prior for 2 x Intel(R) Xeon(R) Gold 6140")


def test_the_model_stands_in_while_the_meter_is_silent(proc: Path, tree: PowercapTree) -> None:
    estimator = Estimator.for_host(proc, tree.sys)
    assert estimator.estimate(0, LOAD, CONTAINERS).source is PowerSource.PRIOR
    tree.advance(3)
    assert estimator.estimate(3, LOAD, CONTAINERS).source is PowerSource.RAPL
    tree.fail("intel-rapl:0", "energy_uj", Fault.EACCES)
    tree.advance(6)
    silent = estimator.estimate(6, LOAD, CONTAINERS)
    assert silent.source is PowerSource.PRIOR
    assert silent.watts > 0
    assert [gap.what for gap in estimator.gaps] == ["RAPL"]
    assert len(estimator.describe()) == 1


def test_a_host_without_a_meter_says_so_and_answers(proc: Path, tmp_path: Path) -> None:
    estimator = Estimator.for_host(proc, tmp_path / "sys")
    estimate = estimator.estimate(0, LOAD, {})
    assert estimate.source is PowerSource.PRIOR
    assert estimate.idle_watts + estimate.system_watts == pytest.approx(estimate.watts)
    assert [gap.what for gap in estimator.gaps] == ["RAPL"]


def test_this_machine_gets_sane_watts() -> None:
    estimator = Estimator.for_host(Path("/proc"), Path("/sys"))
    idle_watts, full_watts = (estimator.estimate(0, Load(u, u), {}).watts for u in (0.0, 1.0))
    threads = estimator.facts.threads
    gigabytes = estimator.facts.memory_bytes / 1e9
    assert 0.1 * threads < idle_watts < full_watts < 150 + 25 * threads + gigabytes
    assert estimator.describe()
