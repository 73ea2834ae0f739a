import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.promises.ledger.penalties import gini, is_broken, penalty


@pytest.mark.parametrize(
    ("target", "availability", "expected"),
    [
        (1.0, 1.0, 0.0),
        (1.0, 0.9999, 0.0),
        (1.0, 0.9998, 0.1),
        (1.0, 0.99, 0.1),
        (1.0, 0.9899, 0.3),
        (1.0, 0.95, 0.3),
        (1.0, 0.9499, 1.0),
        (0.9, 0.9, 0.0),
        (0.9, 0.8999, 0.1),
        (0.9, 0.8911, 0.1),
        (0.9, 0.891, 0.3),
        (0.9, 0.8556, 0.3),
        (0.9, 0.8555, 1.0),
        (0.5, 0.5, 0.0),
        (0.5, 0.499, 0.1),
        (0.5, 0.495, 0.1),
        (0.5, 0.4949, 0.3),
        (0.5, 0.475, 0.3),
        (0.5, 0.4749, 1.0),
    ],
)
def test_the_surcharge_grows_with_the_depth_of_the_shortfall(
    target: float, availability: float, expected: float
) -> None:
    paid = penalty(np.array([target]), np.array([availability]), np.array([100.0]))
    shortfall = 100 * (target - availability) if expected else 0.0
    assert paid == pytest.approx([shortfall * (1 + expected)])


def test_the_penalty_is_the_shortfall_in_cpu_seconds_with_its_surcharge() -> None:
    paid = penalty(
        np.array([0.9, 0.9]), np.array([0.8, 0.95]), np.array([100.0, 100.0]), np.array([2.0, 2.0])
    )
    assert paid == pytest.approx([0.1 * 100 * 2 * 2, 0.0])


ratios = st.floats(0, 1)


@given(target=st.floats(0.01, 1), one=ratios, other=ratios)
def test_a_deeper_shortfall_never_costs_less(target: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    targets, seconds = np.array([target, target]), np.array([1.0, 1.0])
    costs = penalty(targets, np.array([low, high]), seconds)
    assert costs[0] >= costs[1]
    assert (costs > 0).tolist() == is_broken(targets, np.array([low, high])).tolist()


@given(values=st.lists(st.floats(0, 1), max_size=20))
def test_gini_is_a_ratio_and_0_among_equals(values: list[float]) -> None:
    assert -1e-9 <= gini(np.array(values)) <= 1
    assert gini(np.full(len(values), 0.7)) == pytest.approx(0)


def test_gini_of_one_that_has_everything() -> None:
    assert gini(np.array([0.0, 0.0, 0.0, 1.0])) == pytest.approx(0.75)
