import pytest

from powermodels.accounts import EnergyAccounts
from powermodels.interface import Estimate, Share
from wire.messages import PowerSource


def estimate(watts: float, **containers: float) -> Estimate:
    shares = {name: Share(share, 0.5) for name, share in containers.items()}
    return Estimate(watts, 0.0, watts - sum(containers.values()), PowerSource.PRIOR, 0.4, shares)


def test_watts_over_time_are_joules() -> None:
    accounts = EnergyAccounts()
    accounts.add(estimate(100, web=30), 3)
    accounts.add(estimate(50, web=10, db=5), 2)
    assert accounts.node_joules == pytest.approx(400)
    assert accounts.container_joules("web") == pytest.approx(110)
    assert accounts.container_joules("db") == pytest.approx(10)
    assert accounts.container_joules("never seen") == 0


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    accounts = EnergyAccounts()
    accounts.add(estimate(100, web=30), 3)
    accounts.add(estimate(100, web=30), -2)
    accounts.add(estimate(100, web=30), 0)
    assert (accounts.node_joules, accounts.container_joules("web")) == (300, 90)


def test_containers_that_are_gone_are_forgotten_and_the_node_keeps_their_energy() -> None:
    accounts = EnergyAccounts()
    for number in range(1000):
        name = f"job-{number}"
        accounts.add(estimate(10, **{name: 5}), 1)
        accounts.keep({name})
    assert len(accounts) == 1
    assert accounts.node_joules == pytest.approx(10_000)
