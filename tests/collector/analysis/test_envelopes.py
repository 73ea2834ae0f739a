import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.envelopes import DEFAULT_RULE, EnvelopeRule, Statistic, statistics, totals
from collector.analysis.histograms import add_usage, pack, stack
from collector.common.arrays import Floats
from tests.collector.analysis.sketches import sketches
from tests.collector.report_strategies import patient
from wire.messages import ContainerUsage
from wire.sketch import RELATIVE_ERROR, Sketch

PERCENTILES = {Statistic.P50: 50, Statistic.P90: 90, Statistic.P95: 95, Statistic.P99: 99, Statistic.MAX: 100}
ONE_BIN = 1.01 * RELATIVE_ERROR

loads = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-4, 128.0), st.floats(1e6, 1e12)), min_size=1, max_size=300
)


def sketch(numbers: list[float]) -> Sketch:
    made = Sketch()
    for number in numbers:
        made.add(number)
    return made


def found(usage: list[ContainerUsage], rule: EnvelopeRule = DEFAULT_RULE) -> Floats:
    keys, counts = add_usage([None] * len(usage), usage, range(len(usage)))
    return statistics(keys, counts.astype(np.float64), len(usage), rule)


@patient
@given(st.lists(loads, min_size=1, max_size=5))
def test_percentiles_equal_those_of_numpy_within_a_bin_for_every_row(containers: list[list[float]]) -> None:
    table = found([ContainerUsage("c", cpu=sketch(each), network=sketch(each)) for each in containers])
    for row, each in enumerate(containers):
        for statistic, percent in PERCENTILES.items():
            truth = np.percentile(each, percent, method="inverted_cdf")
            assert table[row, 0, statistic] == pytest.approx(truth, rel=ONE_BIN)
            assert table[row, 3, statistic] == pytest.approx(truth, rel=ONE_BIN)
        assert table[row, 0, Statistic.MEAN] == pytest.approx(np.mean(each), rel=ONE_BIN)
    assert np.isnan(table[:, 1:3]).all()


@patient
@given(loads)
def test_variance_is_that_of_the_samples_as_far_as_bins_can_tell(each: list[float]) -> None:
    variance = found([ContainerUsage("c", cpu=sketch(each))])[0, 0, Statistic.VARIANCE]
    # A bin is off by one percent of its value at most, the deviation therefore by that of all squares.
    deviation_off = RELATIVE_ERROR * np.sqrt(np.mean(np.square(each))) * 1.01
    assert np.sqrt(variance) == pytest.approx(np.std(each), abs=deviation_off + 1e-9)


@patient
@given(loads, st.floats(0.5, 0.99))
def test_the_envelope_of_bursts_is_the_mean_above_the_percentile(each: list[float], share: float) -> None:
    rule = EnvelopeRule(percentile=(share,) * 4, bursts=(True,) * 4)
    burst = found([ContainerUsage("c", disk=sketch(each))], rule)[0, 2, Statistic.ENVELOPE]
    above = np.clip(np.arange(1, len(each) + 1) - share * len(each), 0.0, 1.0)
    truth = np.average(np.sort(each), weights=above)
    assert burst == pytest.approx(truth, rel=ONE_BIN, abs=1e-5 * max(each))


def test_each_resource_has_its_own_percentile() -> None:
    each = sketch([float(number) for number in range(1, 101)])
    envelope = found([ContainerUsage("c", each, each, each, each)])[0, :, Statistic.ENVELOPE]
    # Nine tenths, ninety-nine of a hundred, the mean of the last ten, the mean of the last three.
    assert envelope == pytest.approx([90.0, 99.0, 95.5, 99.0], rel=RELATIVE_ERROR)


def test_the_recommender_of_kubernetes_finds_the_same_percentiles() -> None:
    weighted = Sketch()
    for value in range(1, 5):
        for _ in range(value):
            weighted.add(float(value))
    # Its vectors name the upper end of a bin one wide; ours the middle of the bin that the value is in.
    vectors = {0.0: 2, 0.1: 2, 0.2: 3, 0.3: 3, 0.4: 4, 0.5: 4, 0.6: 4, 0.7: 5, 0.8: 5, 0.9: 5, 1.0: 5}
    for share, end in vectors.items():
        envelope = found([ContainerUsage("c", cpu=weighted)], EnvelopeRule(percentile=(share,) * 4))[0, 0]
        assert envelope[Statistic.ENVELOPE] == pytest.approx(end - 1, rel=RELATIVE_ERROR)


def test_statistics_of_no_rows_and_of_no_samples_are_empty() -> None:
    assert found([]).shape == (0, 4, len(Statistic))
    assert np.isnan(found([ContainerUsage("c")])).all()


@patient
@given(st.lists(loads, min_size=1, max_size=4))
def test_packing_loses_nothing(containers: list[list[float]]) -> None:
    usage = [ContainerUsage("c", sketch(each), None, sketch(each), None) for each in containers]
    keys, counts = add_usage([None] * len(usage), usage, range(len(usage)))
    packed = pack(keys, counts, len(usage))
    for each, histogram in zip(containers, packed, strict=True):
        assert sketches(histogram) == (sketch(each), Sketch(), sketch(each), Sketch())
    again, counts_again, _ = stack(packed, range(len(packed)))
    np.testing.assert_array_equal(keys, again)
    np.testing.assert_array_equal(counts, counts_again)
    assert totals(keys, counts, len(usage)).tolist() == [len(each) for each in containers]


@patient
@given(st.lists(st.lists(st.integers(1, 1 << 20), min_size=1, max_size=4), min_size=1, max_size=6))
def test_histograms_with_counts_of_any_size_are_stacked_in_order(containers: list[list[int]]) -> None:
    packed = [
        pack(np.arange(len(counts), dtype=np.int64), np.array(counts, dtype=np.int64), 1)[0]
        for counts in containers
    ]
    keys, counts, sizes = stack(packed, range(len(packed)))
    assert counts.tolist() == [count for each in containers for count in each]
    assert sizes == [len(each) for each in containers]
    assert keys.tolist() == sorted(set(keys.tolist()))
