"""GenPack's packing as a whole."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.hints.genpack import pack
from collector.snapshot.tables import NOWHERE

CPU_HEAVY, MEMORY_HEAVY = (2.0, 1.0, 0.0, 0.0), (1.0, 2.0, 0.0, 0.0)
OF_SIX = (6.0, 6.0, np.nan, np.nan)
"""Holds three that are heavy on CPU, or three that are heavy on memory, or two and two."""


def test_the_motivating_example_needs_three_nodes() -> None:
    """Twelve containers in the paper's order of arrival, on three nodes of which each holds two and two."""
    arriving = [CPU_HEAVY] * 4 + [MEMORY_HEAVY] * 2 + [CPU_HEAVY] * 2 + [MEMORY_HEAVY] * 4
    targets = pack(np.array(arriving), np.array([OF_SIX] * 3))
    assert (targets != NOWHERE).all()


@given(st.integers(0, 2**32 - 1))
def test_packing_never_exceeds_the_capacity(seed: int) -> None:
    generator = np.random.default_rng(seed)
    envelopes = generator.uniform(0, 4, size=(generator.integers(1, 40), 4))
    capacity = generator.uniform(1, 10, size=(generator.integers(1, 10), 4))
    targets = pack(envelopes, capacity)
    for row, has in enumerate(capacity):
        assert (envelopes[targets == row].sum(axis=0) <= has * (1 + 1e-6)).all()
    for lost in np.flatnonzero(targets == NOWHERE):
        left = capacity - [envelopes[targets == row].sum(axis=0) for row in range(len(capacity))]
        assert not (left >= envelopes[lost]).all(axis=1).any()


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_arrival_does_not_change_how_many_nodes_are_used(seed: int) -> None:
    generator = np.random.default_rng(seed)
    envelopes = generator.uniform(0, 4, size=(20, 4))
    capacity = np.full((20, 4), 10.0)
    shuffled = generator.permutation(20)
    assert pack(envelopes, capacity)[shuffled].tolist() == pack(envelopes[shuffled], capacity).tolist()
