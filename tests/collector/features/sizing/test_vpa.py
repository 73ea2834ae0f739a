"""Figures that follow from the documentation and the source of VPA's recommender."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.features.sizing import vpa
from tests.collector.report_strategies import patient


def test_a_steady_load_gets_a_margin_of_15_percent_and_the_end_of_its_bucket() -> None:
    assert 1.15 <= vpa.recommend_cpu(np.ones(100), np.ones(100)) <= 1.15 * 1.05


def test_buckets_are_those_of_its_histogram() -> None:
    # The third bucket of memory begins at 10 MB times 1 + 1.05, and is 5 % larger than the second.
    found = vpa.recommend_memory(np.array([300e6]), np.ones(1))
    starts = [1e7 * (1.05**n - 1) / 0.05 for n in range(60)]
    assert found == pytest.approx(1.15 * min(each for each in starts if each > 300e6))


def test_small_containers_get_its_minimum() -> None:
    assert vpa.recommend_cpu(np.zeros(5), np.ones(5)) == 0.025
    assert vpa.recommend_memory(np.full(3, 1e6), np.ones(3)) == 250 * 2**20


def test_the_target_of_cpu_is_the_weighted_90th_percentile() -> None:
    cores = np.repeat([1.0, 4.0], [90, 10])
    assert vpa.recommend_cpu(cores, np.ones(100)) < 1.3
    assert vpa.recommend_cpu(cores, np.where(cores > 1, 2.0, 1.0)) > 4.5


def test_a_sample_loses_half_of_its_weight_in_a_day() -> None:
    assert vpa.decay(np.array([0.0, 1.0, 3.0])).tolist() == [1.0, 0.5, 0.125]


@patient
@given(st.lists(st.floats(0, 500), min_size=1, max_size=30))
def test_the_target_is_above_the_percentile(values: list[float]) -> None:
    cores = np.array(values)
    found = vpa.recommend_cpu(cores, np.ones(cores.size))
    assert np.count_nonzero(cores > found) <= 0.1 * cores.size
