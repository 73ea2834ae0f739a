from math import nan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.features.network.mesh.delays import Delays

UNKNOWN, ESTIMATED, MEASURED = "unknown", "estimated", "measured"


def test_of_both_directions_the_larger_one_counts() -> None:
    delays = Delays.of_matrix(np.array([[9.0, 0.1, nan], [0.3, 0.0, 0.2], [0.4, nan, 0.0]]))
    assert delays.from_node(0).tolist() == [0.0, 0.3, 0.4]
    assert delays.from_node(2).tolist() == [0.4, 0.2, 0.0]
    assert delays.kinds_from(1) == [MEASURED] * 3


def test_measured_pairs_override_coordinates() -> None:
    coordinates = np.array([[0.0, 0.0], [0.03, 0.04], [nan, nan], [0.0, 0.0]])
    heights = np.array([0.001, 0.002, nan, 0.003])
    pairs, seconds = np.array([[3, 0], [0, 3], [2, 1]]), np.array([0.2, 0.1, 0.7])
    delays = Delays.of_pairs(pairs, seconds, coordinates, heights)
    np.testing.assert_allclose(delays.from_node(0)[:2], [0.0, 0.053])
    assert delays.from_node(0)[3] == delays.from_node(3)[0] == 0.2
    assert np.isnan(delays.from_node(0)[2])
    assert delays.from_node(2).tolist()[1:3] == [0.7, 0.0]
    assert delays.kinds_from(0) == [MEASURED, ESTIMATED, UNKNOWN, MEASURED]
    assert delays.kinds_from(2) == [UNKNOWN, MEASURED, MEASURED, UNKNOWN]


@given(seed=st.integers(0, 999), count=st.integers(1, 12), pairs=st.integers(0, 20))
def test_delays_are_symmetric_and_the_same_by_node_and_among_nodes(seed: int, count: int, pairs: int) -> None:
    draw = np.random.default_rng(seed)
    coordinates = np.where(draw.random((count, 1)) < 0.1, nan, draw.random((count, 3)))
    some = draw.integers(0, count, size=(pairs, 2))
    for delays in (
        Delays.of_pairs(some, draw.random(pairs), coordinates, draw.random(count)),
        Delays.of_matrix(np.where(draw.random((count, count)) < 0.2, nan, draw.random((count, count)))),
    ):
        rows = draw.permutation(count)
        one = np.array([delays.from_node(row) for row in range(count)])
        kinds = np.array([delays.kinds_from(row) for row in range(count)])
        np.testing.assert_array_equal(one, one.T)
        np.testing.assert_allclose(delays.among(rows), one[np.ix_(rows, rows)])
        np.testing.assert_array_equal(np.isnan(one), kinds == UNKNOWN)
        np.testing.assert_array_equal(kinds, kinds.T)
        assert not one.diagonal().any()
