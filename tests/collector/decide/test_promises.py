"""No decision of any policy takes a container beyond what its class tolerates, earlier cuts included."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.resolve import PolicyChoice
from tests.collector.decide.promised import CHECKS, check_alert, choices

_EVERY = [
    pytest.param(kind, chosen, id=f"{kind}-{chosen.policy.name}-{number}")
    for kind, (number, chosen) in product(CHECKS, enumerate(choices()))
]
SEEDS = st.integers(0, 999_999)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "chosen"), _EVERY)
@given(seed=SEEDS)
@settings(max_examples=20, deadline=None)
def test_decisions_keep_the_promises_of_all_containers(kind: str, chosen: PolicyChoice, seed: int) -> None:
    CHECKS[kind](chosen, seed)


@given(seed=SEEDS)
@settings(max_examples=50, deadline=None)
def test_the_alert_about_overbooking_finds_every_broken_promise(seed: int) -> None:
    check_alert(seed)
