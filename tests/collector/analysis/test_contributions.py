import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.contributions import far_out, negligible_use, node_shares, outlying_nodes
from collector.analysis.usage import NOT_MEASURED
from collector.common.arrays import Floats

HOUR = 3600.0
NOTHING: Floats = np.zeros(4)


def used(cores: float) -> Floats:
    found = NOT_MEASURED.copy()
    found[0] = cores
    return found


def test_equal_nodes_count_in_full_whatever_they_observe() -> None:
    assert node_shares([[HOUR, HOUR]] * 5) == [1.0] * 5
    assert node_shares([[HOUR] * 30]) == [1.0], "alone, it has nothing to be compared with"
    assert node_shares([]) == []
    assert node_shares([[0.0], [HOUR]]) == [1.0, 1.0]


def test_a_node_counts_with_the_containers_and_the_time_of_the_median_node() -> None:
    assert node_shares([[HOUR]] * 4 + [[HOUR] * 100]) == [1.0] * 4 + [pytest.approx(0.01)]
    assert node_shares([[HOUR]] * 4 + [[24 * HOUR]]) == [1.0] * 4 + [pytest.approx(1 / 24)]


def test_of_two_nodes_the_new_one_does_not_take_the_time_of_the_old_one() -> None:
    assert node_shares([[10 * HOUR], [60.0] * 1000]) == [1.0, pytest.approx(1e-3)]


@given(
    honest=st.lists(st.lists(st.floats(1.0, 1e5), min_size=1, max_size=5), min_size=4, max_size=20),
    claim=st.lists(st.floats(1.0, 1e9), min_size=1, max_size=50),
)
def test_a_node_counts_for_no_more_than_others_could(honest: list[list[float]], claim: list[float]) -> None:
    shares = node_shares([*honest, claim])
    most = max(max(each) for each in honest) * max(len(each) for each in honest)
    assert shares[-1] * sum(claim) <= most
    assert all(0 < each <= 1 for each in shares)


def test_a_node_that_claims_far_more_than_the_others_is_an_outlier() -> None:
    def flags(*cores: float) -> list[bool]:
        return list(outlying_nodes([[used(each)] for each in cores], [[HOUR]] * len(cores), NOTHING))

    assert flags(0.5, 0.6, 0.4, 12.0) == [False, False, False, True]
    assert flags(0.5, 0.6, 12.0) == [False, False, True]
    assert flags(0.5, 12.0) == [False, False], "nobody knows which one is right"
    assert flags(0.5, 1.0, 1.5, 2.0, 4.0) == [False] * 5, "a few times the load of the others is usual"
    assert flags(0.0, 0.0, 0.0, 1.0) == [False, False, False, True]
    assert flags(*[0.5] * 7, 12.0, 12.0) == [False] * 7 + [True] * 2, "two of them at once"


def test_use_that_decides_nothing_makes_no_outlier() -> None:
    capacity = np.array([[16.0, np.nan, 1e8, np.nan], [8.0, np.nan, np.nan, np.nan]])
    negligible = negligible_use(capacity)
    assert negligible.tolist() == [pytest.approx(0.08), np.inf, pytest.approx(1e6), np.inf]
    nodes = [[used(each)] for each in (0.0, 0.0, 0.0, 0.07)]
    assert not outlying_nodes(nodes, [[HOUR]] * 4, negligible).any()
    assert np.isinf(negligible_use(np.empty((0, 4)))).all()


@given(st.lists(st.floats(0.0, 1e6), min_size=3, max_size=30), st.floats(0.0, 1e9))
def test_one_value_raises_the_limit_no_further_than_the_others_do(values: list[float], claim: float) -> None:
    (limit,) = far_out(np.array([*values, claim])[:, None]).tolist()
    assert limit <= 4 * max(values)


def test_what_is_not_measured_is_not_compared() -> None:
    nodes = [[used(0.5)], [NOT_MEASURED], [used(12.0)], [NOT_MEASURED]]
    assert not outlying_nodes(nodes, [[HOUR]] * 4, NOTHING).any()
