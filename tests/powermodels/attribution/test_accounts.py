import os
import signal
import subprocess
import sys
from math import fsum
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.attribution.accounts import DurableFile, EnergyAccounts
from powermodels.common.interface import Estimate, Share, Terms
from wire.messages import PowerSource

DAY = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def estimate(watts: float, **containers: float) -> Estimate:
    shares = {name: Share(share, 0.5, idle_watts=share / 10) for name, share in containers.items()}
    idle_watts = watts / 4
    system_watts = watts - idle_watts - sum(containers.values())
    terms = Terms(idle_watts, watts - idle_watts)
    return Estimate(terms, system_watts, PowerSource.PRIOR, 0.4, containers=shares)


def test_watts_over_time_are_joules() -> None:
    accounts = EnergyAccounts()
    accounts.add(estimate(100, web=30), 3)
    accounts.add(estimate(50, web=10, db=5), 2)
    assert accounts.node_joules == pytest.approx(400)
    assert accounts.container_joules("web") == pytest.approx(110)
    assert accounts.container_joules("db") == pytest.approx(10)
    assert accounts.container_joules("unknown") == 0


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(0, 1), st.floats(0, 60)), max_size=30))
def test_saved_energy_of_the_node_is_the_sum_of_its_parts(samples: list[tuple[float, float, float]]) -> None:
    with TemporaryDirectory() as folder:
        accounts = EnergyAccounts.restore(Path(folder, "energy"), "boot")
        for watts, share, seconds in samples:
            accounts.add(estimate(watts, web=watts * share * 0.5, db=watts * share * 0.2), seconds)
        accounts.save()
        saved = msgspec.json.decode(DurableFile(Path(folder, "energy")).read() or b"")
    containers = (joules for joules, _, _ in saved["containers"].values())
    parts = (saved["idle_joules"], saved["system_joules"], *containers)
    assert fsum(parts) == pytest.approx(saved["node_joules"])


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    accounts = EnergyAccounts()
    accounts.add(estimate(100, web=30), 3)
    accounts.add(estimate(100, web=30), -2)
    accounts.add(estimate(100, web=30), 0)
    assert (accounts.node_joules, accounts.container_joules("web")) == (300, 90)


def test_a_container_that_comes_back_within_a_day_goes_on_where_it_was() -> None:
    clock = Clock()
    accounts = EnergyAccounts(clock)
    accounts.add(estimate(100, web=30), 1)
    accounts.keep({"web"})
    clock.now += DAY
    accounts.keep(())
    accounts.add(estimate(100, web=30), 1)
    assert accounts.container_joules("web") == 60
    accounts.keep({"web"})
    clock.now += DAY + 1
    accounts.keep(())
    assert accounts.container_joules("web") == 0
    assert accounts.node_joules == 200


def test_no_more_is_held_than_there_is_room_for() -> None:
    clock = Clock()
    accounts = EnergyAccounts(clock)
    for number in range(10_050):
        clock.now += 1
        accounts.add(estimate(10, **{f"job-{number}": 5}), 1)
    accounts.keep({"job-0"})
    assert accounts.container_joules("job-0") == 5
    assert accounts.container_joules("job-50") == 0
    assert accounts.container_joules("job-51") == 5
    assert accounts.node_joules == pytest.approx(100_500)


@pytest.mark.parametrize("stopped", [True, False])
def test_counters_continue_after_a_restart_of_the_agent(tmp_path: Path, stopped: bool) -> None:  # noqa: FBT001 - pytest's parameter
    path = tmp_path / "energy"
    node_joules = web_joules = 0.0
    for _ in range(5):
        accounts = EnergyAccounts.restore(path, "this boot")
        assert (accounts.node_joules, accounts.container_joules("web")) == (node_joules, web_joules)
        accounts.add(estimate(100, web=30), 3)
        accounts.keep({"web"})
        accounts.save(stopped=stopped)
        node_joules, web_joules = accounts.node_joules, accounts.container_joules("web")
    assert (node_joules, web_joules) == (1500, 450)


def test_after_a_planned_reboot_it_counts_on_and_after_a_crash_of_the_machine_from_zero(
    tmp_path: Path,
) -> None:
    path = tmp_path / "energy"
    accounts = EnergyAccounts.restore(path, "first boot")
    accounts.add(estimate(100), 3)
    accounts.save(stopped=True)
    accounts = EnergyAccounts.restore(path, "second boot")
    assert accounts.node_joules == 300
    accounts.add(estimate(100), 3)
    accounts.save()
    assert EnergyAccounts.restore(path, "second boot").node_joules == 600
    assert EnergyAccounts.restore(path, "third boot").node_joules == 0


@pytest.mark.parametrize("rubbish", [b"", b"[]", b'{"boot": 5}', b"\xff"])
def test_unreadable_counters_start_at_zero(tmp_path: Path, rubbish: bytes) -> None:
    DurableFile(tmp_path / "energy").write(rubbish)
    assert EnergyAccounts.restore(tmp_path / "energy", "boot").node_joules == 0


def test_counting_continues_with_a_gap_if_saving_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    accounts = EnergyAccounts.restore(tmp_path / "file/energy", "boot")
    accounts.add(estimate(100), 3)
    accounts.save()
    assert accounts.node_joules == 300
    assert accounts.gap is not None
    assert "cannot be saved" in accounts.gap.why
    (tmp_path / "file").unlink()
    accounts.save()
    assert EnergyAccounts.restore(tmp_path / "file/energy", "boot").node_joules == 300


_COUNTING = """
import sys
from pathlib import Path
from powermodels.attribution.accounts import EnergyAccounts
from powermodels.common.interface import Estimate, Share, Terms
from wire.messages import PowerSource
accounts = EnergyAccounts.restore(Path(sys.argv[1]), "boot")
while True:
    accounts.add(Estimate(Terms(20, 30), 10, PowerSource.PRIOR, 0.4, containers={"web": Share(20, 0.4)}), 3)
    accounts.keep({"web"})
    accounts.save()
    print(accounts.container_joules("web"), flush=True)
"""


def test_killed_at_any_moment_no_counter_goes_back(tmp_path: Path) -> None:
    shown = 0.0
    for passes in (1, 2, 40, 300):
        counting = subprocess.Popen(
            [sys.executable, "-c", _COUNTING, str(tmp_path / "energy")], stdout=subprocess.PIPE, text=True
        )
        assert counting.stdout is not None
        for _ in range(passes):
            joules = float(counting.stdout.readline())
            assert joules > shown
            shown = joules
        os.kill(counting.pid, signal.SIGKILL)
        # Output after our last look counts as shown too.
        printed = counting.stdout.read().splitlines()
        counting.stdout.close()
        counting.wait()
        shown = max([shown, *(float(line) for line in printed[:-1])])
        assert EnergyAccounts.restore(tmp_path / "energy", "boot").container_joules("web") >= shown
