import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.snapshot.windows import TaskWindows


@given(seed=st.integers(0, 999), tasks=st.integers(0, 6), buckets=st.integers(1, 5))
def test_totals_are_the_sums_of_all_windows(seed: int, tasks: int, buckets: int) -> None:
    draw = np.random.default_rng(seed)
    amounts = draw.uniform(0, 10, (tasks, buckets, 4)).astype(np.float32)
    amounts[draw.random(amounts.shape) < 0.5] = np.nan
    amounts[:, draw.random(buckets) < 0.3] = np.nan
    length, known, sums = TaskWindows.of(amounts).totals
    is_known = ~np.isnan(amounts)
    assert known.tolist() == is_known.sum(axis=1).tolist()
    np.testing.assert_allclose(sums, np.nansum(amounts.astype(np.float64), axis=1))
    of_buckets = np.flatnonzero(is_known.any(axis=(0, 2)))
    assert length == (buckets - of_buckets[0] if of_buckets.size else 0)


def test_windows_of_some_tasks_are_their_planes() -> None:
    amounts = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    assert TaskWindows.of(amounts).of_tasks(np.array([2, 0])).tolist() == amounts[[2, 0]].tolist()
