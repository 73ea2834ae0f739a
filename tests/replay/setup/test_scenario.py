"""Scenario files are strict, and what is wrong in one is named."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from collector.decide.policies.interface import Stability
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Host, Scenario, Simulation, parse_scenario, read_scenario
from replay.simulation.compare import fit_reservations
from replay.simulation.policy_runs import PolicyRun, resolve_runs
from tests.replay.setups import PLAIN, workload
from wire.errors import UserError

HOSTS = '[[hosts]]\nname = "n"\ncpu_cores = 2\nmemory_mb = 64\nwatts = [10, 20]\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "x"),
        ("[[hosts]\n", "not TOML"),
        (HOSTS + "cpu_mips = 5\n", "cpu_cores or cpu_mips"),
        (HOSTS + 'generation = "middle"\n', "nursery"),
        (HOSTS.replace("[10, 20]", "[10]"), "watts"),
        (HOSTS.replace("64", "-1"), "memory_mb"),
        (HOSTS + '[trace]\nformat = "planetlab"\n', "file or a generator"),
        (HOSTS + '[trace]\nfile = "x"\n', "format"),
        (HOSTS + '[simulation]\nwhen_full = "panic"\n', "when_full"),
    ],
)
def test_mistakes_are_named(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_scenario(text, "s.toml")


def test_hosts_can_stand_in_another_file_and_policies_add_up(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(
        HOSTS + '[simulation]\nseed = 5\n[policies.a]\npolicy = "spread"\n[policies.b]\npolicy = "spread"\n'
    )
    (tmp_path / "all.toml").write_text('hosts_file = "hosts.toml"\n[policies.b]\npolicy = "binpack"\n')
    scenario = read_scenario(tmp_path / "all.toml")
    assert scenario.hosts[0].name == "n"
    assert scenario.simulation.seed == 5
    assert {name: choice.policy for name, choice in scenario.policies.items()} == {
        "a": "spread",
        "b": "binpack",
    }


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.toml \(no such file or directory\): check its path"):
        read_scenario(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe4"')
    with pytest.raises(UserError, match=r"latin\.toml is not UTF-8 text"):
        read_scenario(tmp_path / "latin.toml")


def test_scenario_without_hosts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text('title = "x"\n')
    with pytest.raises(UserError, match="no hosts"):
        read_scenario(tmp_path / "none.toml")
    with pytest.raises(UserError, match="cannot read"):
        read_scenario(tmp_path / "absent.toml")


def test_kinds_of_hosts_take_turns_where_they_are_interleaved() -> None:
    kinds = [msgspec.structs.replace(PLAIN, name=name, count=count) for name, count in (("x", 2), ("y", 3))]
    assert build_hosts(kinds, interleave=True).names == ("1-x", "2-y", "3-x", "4-y", "5-y")
    assert build_hosts(kinds).names == ("x-1", "x-2", "y-1", "y-2", "y-3")


def test_watts_lie_equally_far_apart() -> None:
    hosts = build_hosts([Host(name="h", cpu_mips=5320, memory_mb=1, watts=(90, 100, 120))])
    ratios = np.zeros((3, 4))
    ratios[:, 0] = [0.0, 0.25, 1.0]
    assert hosts.power.watts(ratios, np.zeros(3, dtype=np.intp)).tolist() == [90, 95, 120]
    assert hosts.capacity[0, 0] == pytest.approx(5.32)


def moves_of(policy_run: PolicyRun) -> int:
    settings = policy_run.chosen.settings
    assert isinstance(settings, Stability)
    return settings.moves


class TestChoosing:
    scenario = parse_scenario(
        HOSTS
        + '[policies.calm]\npolicy = "draps"\nsettings = { moves = 3 }\n'
        + "simulation = { seed = 9 }\ncontrol = { max_moves_per_hour = 2 }\n",
        "s",
    )

    def test_settings_follow_a_name(self) -> None:
        plain, set_ = resolve_runs(["draps", "calm:moves=7"], self.scenario)
        assert moves_of(plain) == 20
        assert moves_of(set_) == 7
        assert (set_.simulation.seed, set_.collector.control.max_moves_per_hour) == (9, 2)
        assert set_.name == "calm:moves=7"

    def test_the_default_policy_is_replayed_with_the_admission_that_it_has_live(self) -> None:
        ours, theirs = resolve_runs(["least-watts", "draps"], self.scenario)
        assert (ours.has_admission, theirs.has_admission) == (True, False)
        both = msgspec.structs.replace(self.scenario, simulation=Simulation(admission=True))
        assert all(each.has_admission for each in resolve_runs(["least-watts", "draps"], both))
        none = msgspec.structs.replace(self.scenario, simulation=Simulation(admission=False))
        assert not any(each.has_admission for each in resolve_runs(["least-watts", "draps"], none))

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("sprad", "did you mean 'spread'"),
            ("draps:moves", "KEY=VALUE"),
            ("draps:moves=many", "moves"),
            ("draps:hops=1", "hops"),
        ],
    )
    def test_mistakes_are_named(self, name: str, why: str) -> None:
        with pytest.raises(UserError, match=why):
            resolve_runs([name], self.scenario)


def test_no_container_reserves_more_than_the_largest_host_has() -> None:
    hosts = build_hosts([PLAIN])
    asks = workload((0.5, 0.0), (0.5, 0.0), requested=[(8.0, float("nan")), (0.5, 0.0)])
    requested = fit_reservations(asks, hosts).requested
    assert requested[:, 0].tolist() == [1.0, 0.5]
    assert np.isnan(requested[0, 1])


def test_empty_scenario_has_defaults_that_hold() -> None:
    assert msgspec.convert({}, Scenario) == Scenario()
