from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.common.arrays import Floats, Rows
from collector.features.network.mesh.coordinates import DIMENSIONS, Coordinates, fit_coordinates
from collector.features.network.mesh.delays import Delays
from collector.features.network.mesh.planning import MeshPlan, Result, choose_near, choose_pairs, median_times
from collector.features.network.mesh.routes import near_clusters
from wire.mesh import PeerResult

REGIONS = np.array([[1, 100, 135, 32], [100, 1, 33, 82], [135, 33, 1, 115], [32, 82, 115, 1]]) / 1000
"""The round-trip times between the four regions of ge-kube."""


def regional(count: int, generator: np.random.Generator) -> Floats:
    """Round-trip times of nodes in four regions, each with its own time to the network."""
    region = generator.integers(0, len(REGIONS), count)
    height = generator.gamma(4.0, 40e-6, count)
    table: Floats = REGIONS[np.ix_(region, region)] + height[:, np.newaxis] + height
    np.fill_diagonal(table, 0.0)
    return table


def flat(count: int, generator: np.random.Generator) -> Floats:
    """Round-trip times of nodes that are spread evenly."""
    place = generator.uniform(0, 0.05, (count, 2))
    height = generator.gamma(2.0, 500e-6, count)
    table: Floats = np.sqrt(np.square(place[:, np.newaxis] - place).sum(axis=2))
    table = table + height[:, np.newaxis] + height
    np.fill_diagonal(table, 0.0)
    return table


def fitted(table: Floats, pairs: Rows, generator: np.random.Generator) -> tuple[Coordinates, Delays]:
    """Coordinates and delays by measurements of these pairs, with some noise."""
    seconds = table[pairs[:, 0], pairs[:, 1]] * generator.lognormal(0.0, 0.03, len(pairs))
    found = fit_coordinates(len(table), pairs, seconds)
    return found, Delays.of_pairs(pairs, seconds, found.positions, found.heights)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.sampled_from((regional, flat)), st.integers(150, 250), st.integers(0, 2**32))
def test_most_estimates_are_close_to_the_true_times(make: object, count: int, seed: int) -> None:
    assert callable(make)
    generator = np.random.default_rng(seed)
    table = make(count, generator)
    names = [f"node{number}" for number in range(count)]
    # Near peers are chosen once there are coordinates.
    _, delays = fitted(table, np.array(sorted(choose_pairs(names))), generator)
    near = choose_near(count, delays.from_node)
    found, delays = fitted(table, np.array(sorted(choose_pairs(names, near))), generator)
    upper = np.triu_indices(count, 1)
    errors = np.abs(delays.among(np.arange(count))[upper] - table[upper]) / table[upper]
    assert (errors <= 0.15).mean() >= 0.9
    assert found.error_ratio is not None
    assert np.quantile(errors, 0.9) <= max(0.05, 2 * found.error_ratio)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 2**32))
def test_coordinates_are_known_where_pairs_connect_nodes(count: int, size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    every = np.array([(one, other) for one in range(count) for other in range(one + 1, count)])
    every = every.astype(np.intp).reshape(-1, 2)
    pairs = every[generator.permutation(len(every))[:size]]
    found = fit_coordinates(count, pairs, generator.uniform(0, 0.1, len(pairs)))
    assert found.positions.shape == (count, DIMENSIONS)
    known = ~np.isnan(found.heights)
    assert np.array_equal(known, ~np.isnan(found.positions).any(axis=1))
    assert known.sum() != 1 or count == 1 or not len(pairs)
    estimates = found.estimates(pairs)
    assert (estimates[known[pairs].all(axis=1)] > 0).all()


def results(node: str, seconds: Mapping[str, float]) -> dict[str, Result]:
    return {
        peer: Result(0.0, PeerResult(peer, each, None, 10, 0))
        for peer, each in seconds.items()
        if peer != node
    }


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 5)))
def test_a_node_changes_no_time_between_two_others(lies: dict[str, float]) -> None:
    honest = {node: results(node, dict.fromkeys("abcd", 0.01)) for node in "abc"}
    before, after = median_times(honest), median_times({**honest, "d": results("d", lies)})
    assert {pair: each for pair, each in after.items() if "d" not in pair} == {
        pair: each for pair, each in before.items() if "d" not in pair
    }
    # It cannot look nearer than its peers measure it.
    assert all(after[node, "d"] >= 0.01 for node in "abc")


def test_measured_estimated_and_unknown_times_differ() -> None:
    plan = MeshPlan(medians={("alpha", "beta"): 0.01})
    delays = plan.delays(("alpha", "beta", "gamma"))
    assert delays.from_node(0).tolist()[:2] == [0.0, 0.01]
    assert delays.kinds_from(0) == ["measured", "measured", "unknown"]
    located = Coordinates(np.array([[0.0] * 4, [0.02] * 4]), np.array([0.001, 0.002]), None)
    plan = replace(plan, located=("beta", "gamma"), coordinates=located)
    delays = plan.delays(("gamma", "alpha", "beta"))
    assert delays.kinds_from(2) == ["estimated", "measured", "measured"]
    assert delays.from_node(2).tolist() == pytest.approx([0.043, 0.01, 0.0])
    assert delays.kinds_from(1) == ["unknown", "measured", "measured"]


def test_clusters_are_the_regions() -> None:
    region = np.array([2, 0, 1, 3, 3, 2, 1, 0, 0])
    found = near_clusters(REGIONS[np.ix_(region, region)])
    assert found.tolist() == [0, 1, 2, 3, 3, 0, 2, 1, 1]


@pytest.mark.parametrize(
    ("seconds", "clusters"),
    [
        ([], []),
        ([[0.0]], [0]),
        ([[0.0, 0.5], [0.5, 0.0]], [0, 0]),
        ([[0.0, np.nan], [np.nan, 0.0]], [0, 1]),
        ([[0, 0.01, 0.011], [0.01, 0, 0.012], [0.011, 0.012, 0]], [0, 0, 0]),
        ([[0, np.nan, 0.011], [np.nan, 0, np.nan], [0.011, np.nan, 0]], [0, 1, 0]),
    ],
)
def test_clusters_of_few_nodes(seconds: list[list[float]], clusters: list[int]) -> None:
    count = len(seconds)
    assert near_clusters(np.array(seconds, dtype=np.float64).reshape(count, count)).tolist() == clusters
