import pytest

from collector.config import CollectorConfig, ControlConfig, DriverConfig, PlacementConfig
from collector.decide.policies.table import POLICIES
from collector.decide.question import check_policies
from wire.errors import UserError


def test_managers_are_split_at_commas() -> None:
    managers = "tcp://10.0.0.1:2376, ,tcp://10.0.0.2:2376 "
    assert DriverConfig(managers=managers).manager_addresses == ("tcp://10.0.0.1:2376", "tcp://10.0.0.2:2376")
    assert DriverConfig(managers="").manager_addresses == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_chosen(policy: str) -> None:
    check_policies(CollectorConfig(placement=PlacementConfig(policy=policy)))


def test_an_unknown_policy_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"there is no policy 'best': choose one of least-watts, draps"):
        check_policies(CollectorConfig(placement=PlacementConfig(policy="best")))


@pytest.mark.parametrize(("containers", "at_once", "per_hour"), [(0, 1, 20), (99, 1, 20), (1000, 10, 100)])
def test_budgets_of_moves_grow_with_the_cluster(containers: int, at_once: int, per_hour: int) -> None:
    settings = ControlConfig()
    assert settings.concurrent_moves(containers) == at_once
    assert settings.hourly_moves(containers) == per_hour


def test_no_moves_per_hour_are_none_in_any_cluster() -> None:
    assert ControlConfig(max_moves_per_hour=0).hourly_moves(100_000) == 0
