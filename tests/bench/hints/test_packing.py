"""GenPack compared with binpack and spread, as in the benchmark."""

import numpy as np
import pytest

from bench.hints.genpack import pack
from bench.hints.packing import (
    EXAMPLE,
    EXAMPLE_CAPACITY,
    EXAMPLE_NEEDS,
    compare,
    one_by_one,
    random_needs,
    time_phase,
)
from collector.snapshot.tables import NOWHERE

NEEDS = np.array([EXAMPLE_NEEDS[kind] for kind in EXAMPLE])


@pytest.mark.parametrize("name", ["spread", "binpack"])
def test_policies_that_place_one_container_at_a_time_cannot_place_the_example(name: str) -> None:
    assert (one_by_one(name, NEEDS, EXAMPLE_CAPACITY) != NOWHERE).sum() == 10


def test_the_example_is_placed_whole_by_genpack() -> None:
    assert (pack(NEEDS, EXAMPLE_CAPACITY) != NOWHERE).sum() == 12


@pytest.mark.slow
def test_genpack_needs_fewer_nodes_than_binpack_and_binpack_fewer_than_spread() -> None:
    generator = np.random.default_rng(7)
    used = [compare(random_needs(generator)) for _ in range(150)]
    assert np.mean([each.in_order for each in used]) >= 0.95
    genpack, binpack, spread = (
        sum(getattr(each, name) for each in used) for name in ("genpack", "binpack", "spread")
    )
    assert genpack < binpack < spread


def test_a_phase_moves_all_that_are_profiled() -> None:
    _, moved = time_phase(60, np.random.default_rng(1))
    assert moved == 60
