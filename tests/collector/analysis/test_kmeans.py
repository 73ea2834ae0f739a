import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.groups import fit, refine, silhouette, squared_distances
from collector.common.arrays import Floats
from tests.collector.report_strategies import patient


def scattered(count: int, seed: int) -> Floats:
    """Shares of four resources, most of them of one."""
    return np.random.default_rng(seed).dirichlet([0.5] * 4, count)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_as_close_as_scikit_learns(seed: int) -> None:
    # Not above, because it takes seconds to import, also for those who run other tests.
    from sklearn.cluster import KMeans  # type: ignore[import-untyped]  # noqa: PLC0415

    points = scattered(500, seed)
    found, theirs = fit(points, 4), KMeans(4, n_init=8, random_state=0).fit(points)
    assert found.inertia <= 1.05 * theirs.inertia_
    assert found.inertia == pytest.approx(np.square(points - found.centres[found.labels]).sum())


@patient
@given(st.integers(2, 6), st.integers(8, 60), st.integers(0, 1000))
def test_every_point_is_with_its_nearest_centre_and_every_centre_in_the_middle(
    count: int, size: int, seed: int
) -> None:
    points = scattered(size, seed)
    found = fit(points, count)
    assert squared_distances(points, found.centres).argmin(axis=1).tolist() == found.labels.tolist()
    for number in range(count):
        assert found.centres[number] == pytest.approx(points[found.labels == number].mean(axis=0))
    again = fit(points, count)
    assert (found.centres == again.centres).all()


def test_a_centre_without_points_restarts() -> None:
    points = np.array([[0.0, 0, 0, 0], [0.0, 0, 0, 0.1], [1.0, 0, 0, 0]])
    found = refine(points, np.array([[0.5, 0, 0, 0], [9.0, 9, 9, 9]]))
    assert found.labels[0] == found.labels[1] != found.labels[2]


@pytest.mark.slow
@patient
@given(st.integers(2, 6), st.integers(8, 60), st.integers(0, 1000))
def test_the_silhouette_equals_that_of_scikit_learn(count: int, size: int, seed: int) -> None:
    from sklearn.metrics import silhouette_score  # type: ignore[import-untyped]  # noqa: PLC0415

    points = scattered(size, seed)
    labels = fit(points, count).labels
    assert silhouette(points, labels) == pytest.approx(silhouette_score(points, labels))
