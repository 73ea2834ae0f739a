from math import nan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.features.network.mesh.delays import DelayKind, Delays

UNKNOWN, ESTIMATED, MEASURED = DelayKind.UNKNOWN, DelayKind.ESTIMATED, DelayKind.MEASURED


def test_of_both_directions_the_larger_one_counts() -> None:
    delays = Delays.of_matrix(
        np.array([[9.0, 0.1, nan], [0.3, 0.0, 0.2], [0.4, nan, 0.0]]),
        np.full((3, 3), MEASURED, dtype=np.int8),
    )
    assert delays.from_node(0).tolist() == [0.0, 0.3, 0.4]
    assert delays.from_node(2).tolist() == [0.4, 0.2, 0.0]
    assert delays.kinds_from(1).tolist() == [MEASURED] * 3


def test_a_measured_direction_counts_more_than_an_estimate() -> None:
    delays = Delays.of_matrix(
        np.array([[0.0, 0.1, nan], [0.9, 0.0, 0.5], [nan, 0.5, 0.0]]),
        np.array([[2, 2, 2], [1, 2, 0], [1, 0, 2]], dtype=np.int8),
    )
    assert delays.from_node(1)[0] == 0.1
    assert delays.kinds_from(1).tolist() == [MEASURED, MEASURED, UNKNOWN]
    assert np.isnan(delays.from_node(1)[2])
    assert delays.kinds_from(2).tolist() == [UNKNOWN, UNKNOWN, MEASURED]


def test_measured_pairs_override_coordinates() -> None:
    coordinates = np.array([[0.0, 0.0], [0.03, 0.04], [nan, nan], [0.0, 0.0]])
    heights = np.array([0.001, 0.002, nan, 0.003])
    delays = Delays.of_coordinates(
        coordinates, heights, np.array([[3, 0], [0, 3], [2, 1]]), np.array([0.2, 0.1, 0.7])
    )
    np.testing.assert_allclose(delays.from_node(0)[:2], [0.0, 0.053])
    assert delays.from_node(0)[3] == delays.from_node(3)[0] == 0.2
    assert np.isnan(delays.from_node(0)[2])
    assert delays.from_node(2).tolist()[1:3] == [0.7, 0.0]
    assert delays.kinds_from(0).tolist() == [MEASURED, ESTIMATED, UNKNOWN, MEASURED]
    assert delays.kinds_from(2).tolist() == [UNKNOWN, MEASURED, MEASURED, UNKNOWN]


@given(seed=st.integers(0, 999), count=st.integers(1, 12), pairs=st.integers(0, 20))
def test_delays_are_symmetric_and_the_same_by_node_and_among_nodes(seed: int, count: int, pairs: int) -> None:
    draw = np.random.default_rng(seed)
    coordinates = np.where(draw.random((count, 1)) < 0.1, nan, draw.random((count, 3)))
    some = draw.integers(0, count, size=(pairs, 2))
    for delays in (
        Delays.of_coordinates(coordinates, draw.random(count), some, draw.random(pairs)),
        Delays.of_matrix(draw.random((count, count)), draw.integers(0, 3, (count, count)).astype(np.int8)),
    ):
        rows = draw.permutation(count)
        one = np.array([delays.from_node(row) for row in range(count)])
        kinds = np.array([delays.kinds_from(row) for row in range(count)])
        np.testing.assert_array_equal(one, one.T)
        np.testing.assert_allclose(delays.among(rows), one[np.ix_(rows, rows)])
        np.testing.assert_array_equal(np.isnan(one), kinds == UNKNOWN)
        np.testing.assert_array_equal(kinds, kinds.T)
        assert not one.diagonal().any()
