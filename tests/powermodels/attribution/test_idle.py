from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.attribution.split import IdlePolicy, Split, share_idle
from powermodels.common.interface import Load

watts = st.floats(0, 1e4)
names = st.text(min_size=1, max_size=4)
ratios = st.floats(0, 4)
splits = st.builds(Split, watts, watts, st.dictionaries(names, watts, max_size=12))
promises = st.dictionaries(names, st.builds(Load, ratios, st.none() | ratios), max_size=12)

PARTS = Split(idle_watts=60, system_watts=10, containers={"web": 20, "db": 10})


@given(st.sampled_from(IdlePolicy), splits, promises)
def test_no_policy_hands_out_more_than_there_is(
    policy: IdlePolicy, parts: Split, reserved: dict[str, Load]
) -> None:
    shares = share_idle(policy, parts, reserved)
    assert shares.keys() == parts.containers.keys()
    assert min(shares.values(), default=0.0) >= 0
    assert fsum(shares.values()) <= parts.idle_watts * (1 + 1e-12)


@pytest.mark.parametrize(
    ("policy", "web", "db"),
    [
        (IdlePolicy.NONE, 0, 0),
        (IdlePolicy.EQUAL, 30, 30),
        (IdlePolicy.BY_USE, 30, 15),
        (IdlePolicy.BY_RESERVATION, 15, 30),
    ],
)
def test_each_policy_shares_by_its_own_measure(policy: IdlePolicy, web: float, db: float) -> None:
    reserved = {"web": Load(0.25, 0.1), "db": Load(0.1, 0.5), "gone": Load(1.0)}
    assert share_idle(policy, PARTS, reserved) == {"web": pytest.approx(web), "db": pytest.approx(db)}


def test_promises_of_more_than_there_is_are_scaled_down() -> None:
    shares = share_idle(IdlePolicy.BY_RESERVATION, PARTS, {"web": Load(1.0), "db": Load(0.5)})
    assert shares == {"web": pytest.approx(40), "db": pytest.approx(20)}


def test_who_reserved_nothing_answers_for_nothing() -> None:
    assert share_idle(IdlePolicy.BY_RESERVATION, PARTS, {}) == {"web": 0, "db": 0}
