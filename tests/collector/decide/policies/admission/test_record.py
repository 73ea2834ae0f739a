import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.admission.record import (
    LEAST_CORRECTION,
    MOST_CORRECTION,
    WINDOW_SECONDS,
    NodeShortages,
    ScoredWindow,
    ShortageRecord,
    corrected,
)
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.decide.policies.least_watts.builders import make_node, make_task
from tests.collector.snapshot.builders import assemble

_FULL, _HALF = (1.0, 0.1, 0.0, 0.0), (0.5, 0.1, 0.0, 0.0)


@settings(max_examples=30, deadline=None)
@given(truth=st.floats(0.5, 3.0), level=st.floats(0.1, 0.3), seed=st.integers(0, 1000))
def test_the_correction_converges_on_the_truth(truth: float, level: float, seed: int) -> None:
    rng, record, count = np.random.default_rng(seed), NodeShortages(), 2000
    predictions = rng.uniform(0, level, size=count)
    for predicted, drawn in zip(predictions, rng.uniform(size=count), strict=True):
        record = record.after(float(predicted), short=bool(drawn < truth * predicted))
    # The error of a count is its root; the start still counts a little.
    expected_count = truth * record.predicted
    assert record.correction == pytest.approx(truth, rel=0.15 + 4 / np.sqrt(expected_count))


def test_the_start_is_cautious_and_a_day_without_shortages_relaxes_it() -> None:
    record = NodeShortages()
    assert record.correction == 2.0
    for _ in range(288):
        record = record.after(0.02, short=False)
    assert record.correction < 0.5


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=300))
def test_the_correction_is_bounded(windows: list[tuple[float, bool]]) -> None:
    record = NodeShortages()
    for predicted, short in windows:
        record = record.after(predicted, short=short)
        assert LEAST_CORRECTION <= record.correction <= MOST_CORRECTION


@given(one=st.floats(0, 1), two=st.floats(0, 1), factor=st.floats(LEAST_CORRECTION, MOST_CORRECTION))
def test_corrected_probabilities_keep_their_order(one: float, two: float, factor: float) -> None:
    low, high = corrected(np.sort(np.array([one, two])), np.array([factor, factor]))
    assert 0 <= low <= high <= 1
    assert corrected(np.array([0.0, 1.0]), np.array([factor, factor])).tolist() == [0.0, 1.0]


def _at(window: int, *nodes: tuple[str, tuple[float, float, float, float]], tasks: int = 2) -> Snapshot:
    """A snapshot at the start of a window; each node had this use in all windows before."""
    return assemble(
        [make_node(name, used=amount(2, 1), history=[use] * 4) for name, use in nodes],
        [make_task(f"{name}-{each}", name, 1.0) for name, _ in nodes for each in range(tasks)],
        at=window * WINDOW_SECONDS + 1,
    )


def test_a_window_is_predicted_once_and_scored_when_the_next_is_over() -> None:
    record = ShortageRecord()
    assert record.observe(_at(10, ("a", _FULL)))
    assert not record.observe(_at(10, ("a", _FULL)))
    assert record.observe(_at(11, ("a", _FULL)))
    assert record.of("a").windows == 0
    assert record.observe(_at(12, ("a", _FULL)))
    assert (record.of("a").windows, record.of("a").short) == (1.0, 1.0)


@pytest.mark.slow
def test_a_node_that_claims_shortages_changes_its_own_prediction_only() -> None:
    honest, with_liar = ShortageRecord(), ShortageRecord()
    for window in range(50):
        honest.observe(_at(window, ("a", _HALF)))
        with_liar.observe(_at(window, ("a", _HALF), ("liar", _FULL)))
    assert with_liar.of("a") == honest.of("a")
    assert with_liar.of("liar").correction == MOST_CORRECTION
    factors = with_liar.judge(("a", "liar", "new")).factors
    assert factors.tolist() == [honest.of("a").correction, MOST_CORRECTION, 2.0]


@pytest.mark.parametrize(("use", "windows"), [(_FULL, 1.0), (_HALF, 0.0)])
def test_a_relieved_node_counts_only_if_it_was_short(
    use: tuple[float, float, float, float], windows: float
) -> None:
    record = ShortageRecord()
    record.observe(_at(1, ("a", use), tasks=3))
    record.observe(_at(2, ("a", use), tasks=2))
    record.observe(_at(3, ("a", use), tasks=2))
    assert record.of("a").windows == windows


def test_windows_that_the_history_no_longer_has_are_not_scored() -> None:
    record = ShortageRecord()
    record.observe(_at(1, ("a", _FULL)))
    record.observe(_at(100, ("a", _FULL)))
    assert record.of("a").windows == 0


def test_a_node_that_is_gone_is_forgotten() -> None:
    record = ShortageRecord()
    for window in range(5):
        record.observe(_at(window, ("a", _FULL), ("b", _FULL)))
    assert record.total().windows == record.of("a").windows + record.of("b").windows
    record.observe(_at(5, ("a", _FULL)))
    assert record.total().windows == record.of("a").windows


def test_a_stored_record_continues_and_a_damaged_one_starts_again() -> None:
    record, restored = ShortageRecord(), ShortageRecord()
    for window in range(5):
        record.observe(_at(window, ("a", _FULL)))
    restored.restore(record.pack())
    assert restored.of("a") == record.of("a")
    damaged = ShortageRecord()
    damaged.restore(b"\xff")
    assert damaged.of("a") == NodeShortages()
    damaged.restore(record.pack().replace(b"version\x01", b"version\x02"))
    assert damaged.of("a") == NodeShortages()


def test_every_window_that_counts_is_passed_on() -> None:
    scored: list[ScoredWindow] = []
    record = ShortageRecord(scored.append)
    for window in range(4):
        record.observe(_at(window, ("a", _FULL)))
    assert [each.short for each in scored] == [True, True]
    assert all(0 <= each.predicted <= each.corrected <= 1 for each in scored)
