"""Replicas of an elastic service that a policy places."""

from pathlib import Path

import numpy as np
import pytest

from replay.setup.hosts import Hosts, build_hosts
from replay.setup.scenario import read_scenario
from replay.simulation.elastic.placement import Placement

SCENARIO = read_scenario(Path(__file__).parents[4] / "scenarios" / "ge-kube-table-2.toml")


def hosts() -> Hosts:
    return build_hosts(SCENARIO.hosts, interleave=SCENARIO.interleave, network=SCENARIO.network)


def place(policy: str, *, mesh: bool, kept: tuple[int, ...] = (), count: int = 6) -> list[int]:
    assert SCENARIO.elastic is not None
    return Placement(policy, SCENARIO.elastic, hosts(), mesh=mesh).place(kept, count, 1.0)


def longest_ms(rows: list[int]) -> float:
    trips = hosts().round_trip_seconds
    assert trips is not None
    return 1e3 * float(trips[np.ix_(rows, rows)].max())


@pytest.mark.parametrize("policy", ["net-aware", "net-optimal", "first-fit"])
def test_a_policy_that_knows_round_trip_times_keeps_the_bound(policy: str) -> None:
    assert longest_ms(place(policy, mesh=True)) <= 85


@pytest.mark.parametrize("policy", ["first-fit", "round-robin", "least-allocated"])
def test_a_policy_that_does_not_know_them_breaks_it(policy: str) -> None:
    assert longest_ms(place(policy, mesh=False)) > 85


def test_replicas_that_stay_keep_their_room_and_attract_new_ones() -> None:
    [new] = place("net-aware", mesh=True, kept=(4,), count=1)
    assert new == 4
    [new] = place("net-aware", mesh=True, kept=(4, 4), count=1)
    assert new != 4
    assert longest_ms([4, new]) <= 85
