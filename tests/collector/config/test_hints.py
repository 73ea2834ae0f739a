import pytest

from collector.config import PlacementConfig
from collector.policies.table import POLICIES
from wire.errors import UserError


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_chosen(policy: str) -> None:
    assert PlacementConfig(policy=policy).policy == policy


def test_a_policy_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match=r"there is no 'best': choose one of random, .*least-watts"):
        PlacementConfig(policy="best")
