"""Values that all nodes share, while one node reports wrong values."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.least_watts.margins import Margins, learn_margins
from collector.decide.policies.least_watts.pooling import blocks_of, typical, weights_of, without_extremes
from collector.decide.policies.least_watts.usage import Usage, learn_usage
from collector.snapshot.tables import NOWHERE
from tests.collector.decide.policies.clusters import amount
from tests.collector.decide.policies.least_watts.builders import make_node, make_task
from tests.collector.snapshot.builders import TaskFacts, assemble
from wire.resources import RESOURCES

_CPU = 0
_LENGTH = 36
_NODES = [f"node-{number:02}" for number in range(20)]
_SHARE = 0.25


def _honest() -> list[TaskFacts]:
    generator = np.random.default_rng(1)
    tasks = []
    for node in _NODES:
        for number in range(5):
            windows = np.maximum(generator.normal(1.0, 0.3, _LENGTH), 0.0)
            task = make_task(
                f"{node}-{number}",
                node,
                float(windows.mean()),
                deviation=float(windows.std()),
                windows=windows,
            )
            tasks.append(replace(task, requested=amount(1 / _SHARE, 0.1)))
    return tasks


def _learned(tasks: list[TaskFacts]) -> tuple[Usage, Margins]:
    usage = learn_usage(assemble([make_node(name) for name in _NODES], tasks))
    return usage, learn_margins(usage, np.full(len(RESOURCES), 0.01), 10.0, 11)


def _lies(node: str, count: int, windows: list[float], deviation: float, requested: float) -> list[TaskFacts]:
    """The tasks of a cluster in which one node reports the same absurd container many times."""
    task = make_task("lie", node, float(np.mean(windows)), deviation=deviation, windows=windows)
    return [
        *(each for each in _honest() if each.node != node),
        *(replace(task, id=f"lie-{each}", requested=amount(requested, 0.1)) for each in range(count)),
    ]


_absurd = st.floats(0, 1e9) | st.sampled_from([0.0, 1.0, 1e6])


@pytest.mark.slow
@given(
    node=st.sampled_from(_NODES),
    count=st.integers(1, 100),
    windows=st.lists(_absurd, min_size=_LENGTH, max_size=_LENGTH)
    | st.tuples(_absurd, _absurd).map(lambda pair: list(pair) * (_LENGTH // 2)),
    deviation=_absurd,
    requested=st.floats(0.001, 1e9),
)
@settings(max_examples=60)
def test_one_lying_node_does_not_change_what_all_nodes_share(
    node: str, count: int, windows: list[float], deviation: float, requested: float
) -> None:
    usage, margins = _learned(_honest())
    misled_usage, misled = _learned(_lies(node, count, windows, deviation, requested))
    assert misled.together[_CPU] == pytest.approx(margins.together[_CPU], rel=0.15)
    assert misled.deviations[_CPU] == pytest.approx(margins.deviations[_CPU], rel=0.15)
    assert misled_usage.shares.ratios[_CPU] == pytest.approx(usage.shares.ratios[_CPU], rel=0.15)


@given(
    honest=st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=12),
    weights=st.lists(st.floats(0.01, 1e6), min_size=13, max_size=13),
    lie=st.floats(-1e12, 1e12),
)
def test_a_pooled_value_is_between_those_of_honest_blocks(
    honest: list[float], weights: list[float], lie: float
) -> None:
    values = np.array([lie, *honest])
    kept = without_extremes(values)
    assert np.count_nonzero(~kept) == 2
    pooled = float(np.average(values[kept], weights=np.array(weights)[: values.size][kept]))
    assert min(honest) <= pooled + 1e-3
    assert pooled <= max(honest) + 1e-3


@given(sizes=st.lists(st.just(0.0) | st.floats(1e-9, 1e9), min_size=1, max_size=12))
def test_no_block_counts_for_more_than_a_typical_one(sizes: list[float]) -> None:
    size = np.array(sizes)
    counted = weights_of(size) * size
    assert (counted <= typical(size) * (1 + 1e-9)).all()
    assert (counted[size > 0] > 0).all()
    assert counted[size <= typical(size)] == pytest.approx(size[size <= typical(size)])


def test_few_blocks_all_count() -> None:
    assert without_extremes(np.array([1.0, 2.0, 3.0, 4.0])).all()
    assert without_extremes(np.array([1.0, 2.0, 3.0, 4.0, np.nan])).all()


@pytest.mark.parametrize(("nodes", "blocks"), [(1, 1), (9, 1), (10, 5), (19, 9), (20, 10), (500, 10)])
def test_nodes_form_blocks_unless_they_are_few(nodes: int, blocks: int) -> None:
    node = np.append(np.repeat(np.arange(nodes) * 7, 3), NOWHERE)
    found = blocks_of(node)
    assert sorted(set(found.tolist())) == list(range(blocks))
    of_nodes = [set(node[(found == block) & (node != NOWHERE)].tolist()) for block in range(blocks)]
    assert sum(map(len, of_nodes)) == nodes
    if blocks > 1:
        assert min(map(len, of_nodes)) >= 2


def test_without_tasks_there_are_no_blocks() -> None:
    assert not blocks_of(np.empty(0, dtype=np.intp)).size
