"""The bound of placed requests is never less than what can be placed."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.ceiling import bound, first_come
from collector.common.arrays import Floats

_requests = st.lists(
    st.tuples(st.floats(0, 10), st.floats(1, 10), st.floats(0.1, 0.9), st.floats(0.1, 0.9)),
    min_size=1,
    max_size=6,
)


def most(arrivals: Floats, ends: Floats, need: Floats) -> float:
    """The best choice of all, by trying every one."""
    count = len(arrivals)
    for size in range(count, 0, -1):
        for chosen in combinations(range(count), size):
            rows = np.array(chosen)
            there = (arrivals[rows] <= arrivals[rows][:, None]) & (ends[rows] > arrivals[rows][:, None])
            if (there @ need[rows] <= 1 + 1e-9).all():
                return size / count
    return 0.0


@pytest.mark.slow
@settings(max_examples=15)
@given(_requests)
def test_no_policy_places_more_than_the_bound(requests: list[tuple[float, float, float, float]]) -> None:
    table = np.array(sorted(requests))
    arrivals, ends, need = table[:, 0], table[:, 0] + table[:, 1], table[:, 2:]
    best = most(arrivals, ends, need)
    assert first_come(arrivals, ends, need) <= best <= bound(arrivals, ends, need, every=1) + 1e-9
    assert best <= bound(arrivals, ends, need, every=3) + 1e-9


def test_the_bound_is_tight_if_only_capacity_limits() -> None:
    """Ten requests at once for a quarter each."""
    arrivals, ends, need = np.zeros(10), np.ones(10), np.full((10, 1), 0.25)
    assert first_come(arrivals, ends, need) == pytest.approx(0.4)
    assert bound(arrivals, ends, need, every=1) == pytest.approx(0.4, abs=0.05)


def test_capacity_of_an_ended_request_is_reused() -> None:
    arrivals, ends = np.array([0.0, 1.0, 2.0]), np.array([1.5, 3.0, 3.0])
    need = np.array([[0.6], [0.6], [0.6]])
    assert first_come(arrivals, ends, need) == pytest.approx(2 / 3)
