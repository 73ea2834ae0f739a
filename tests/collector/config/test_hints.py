import pytest

from collector.config import Placement
from collector.policies.table import POLICIES
from wire.errors import Complaint


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_chosen(policy: str) -> None:
    assert Placement(policy=policy).policy == policy


def test_a_policy_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(Complaint, match=r"there is no 'best': choose one of random, .*least-watts"):
        Placement(policy="best")
