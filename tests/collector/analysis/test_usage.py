import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.envelopes import EnvelopeRule, Statistic
from collector.analysis.histograms import MAX_COUNT
from collector.analysis.usage import (
    BUCKET_SECONDS,
    BUCKETS,
    UsageRing,
    UsageWeights,
    report_bucket,
    update_statistics,
)
from tests.collector.analysis.sketches import sketches
from tests.collector.builders import add_heartbeat
from tests.collector.report_strategies import patient
from wire.messages import ContainerUsage
from wire.resources import RESOURCES, Quantities
from wire.sketch import RELATIVE_ERROR, Sketch

NOW = 1_000 * BUCKET_SECONDS + 60
HOUR = 3600.0
ALL_ALIKE = UsageWeights(half_life_seconds=math.inf)

values = st.floats(1e-3, 1e12)
heartbeats = st.lists(
    st.tuples(st.integers(1, 2 * BUCKETS), st.lists(values, min_size=1, max_size=50)), min_size=1, max_size=12
)


def sketch(*numbers: float) -> Sketch:
    made = Sketch()
    for number in numbers:
        made.add(number)
    return made


def ring_of(*usages: tuple[int, ContainerUsage], weights: UsageWeights = ALL_ALIKE) -> UsageRing:
    rings: dict[str, UsageRing] = {}
    for bucket, usage in usages:
        add_heartbeat(rings, bucket, [usage], weights)
    return rings["web"]


@patient
@given(heartbeats, st.data())
def test_p90_covers_every_sample_of_the_remaining_buckets(
    usages: list[tuple[int, list[float]]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(usages))
    ring = ring_of(
        *(
            (bucket, ContainerUsage("web", cpu=sketch(*each), memory=sketch(*each)))
            for bucket, each in shuffled
        )
    )
    newest = max(bucket for bucket, _ in usages)
    left = [value for bucket, each in usages if bucket > newest - BUCKETS for value in each]
    truth = np.percentile(left, 90, method="inverted_cdf")
    assert ring.samples == len(left)
    assert ring.p90.cpu_cores == pytest.approx(truth, rel=1.01 * RELATIVE_ERROR)
    assert ring.p90.memory_bytes == pytest.approx(truth, abs=1.01 * RELATIVE_ERROR * truth + 0.5)
    assert (ring.p90.disk_bytes_per_second, ring.p90.network_bytes_per_second) == (None, None)


@patient
@given(heartbeats, st.data())
def test_neither_the_order_of_heartbeats_nor_a_restart_matters(
    usages: list[tuple[int, list[float]]], data: st.DataObject
) -> None:
    reported = [(bucket, ContainerUsage("web", cpu=sketch(*each))) for bucket, each in usages]
    ring, other = ring_of(*reported), ring_of(*data.draw(st.permutations(reported)))
    restored = UsageRing(dict(ring.buckets))
    update_statistics([restored], ALL_ALIKE)
    for each in (other, restored):
        assert each.buckets == ring.buckets
        assert each.samples == ring.samples
        np.testing.assert_allclose(each.statistics, ring.statistics)


@patient
@given(heartbeats, st.floats(0.5, 200))
def test_load_fades_by_half_per_half_life(
    usages: list[tuple[int, list[float]]], half_life_hours: float
) -> None:
    usage_weights = UsageWeights(half_life_seconds=half_life_hours * HOUR)
    ring = ring_of(
        *((bucket, ContainerUsage("web", cpu=sketch(*each))) for bucket, each in usages),
        weights=usage_weights,
    )
    newest = max(bucket for bucket, _ in usages)
    left = [
        (value, newest - bucket) for bucket, each in usages if bucket > newest - BUCKETS for value in each
    ]
    weights = np.array([0.5 ** (age * BUCKET_SECONDS / HOUR / half_life_hours) for _, age in left])
    for statistic, share in ((Statistic.P50, 0.5), (Statistic.P90, 0.9), (Statistic.P99, 0.99)):
        # Where a rank falls between two samples, rounding decides: either of them is right.
        near = [
            np.quantile(
                [value for value, _ in left], max(0.0, share + off), weights=weights, method="inverted_cdf"
            )
            for off in (-1e-8, 0.0)
        ]
        found = ring.statistics[0, statistic]
        assert any(found == pytest.approx(truth, rel=1.01 * RELATIVE_ERROR) for truth in near)


@patient
@given(st.lists(heartbeats, min_size=2, max_size=6), st.floats(0.5, 200))
def test_statistics_do_not_depend_on_which_containers_are_processed_together(
    usages: list[list[tuple[int, list[float]]]], half_life_hours: float
) -> None:
    usage_weights = UsageWeights(half_life_seconds=half_life_hours * HOUR)
    alone = []
    for of_one in usages:
        made = (
            (bucket, ContainerUsage("web", cpu=sketch(*each), network=sketch(*each)))
            for bucket, each in of_one
        )
        alone.append(ring_of(*made, weights=usage_weights))
    together = [UsageRing(dict(ring.buckets)) for ring in alone]
    update_statistics(together, usage_weights)
    for ring, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(ring.statistics, other.statistics)


def test_yesterdays_peak_weighs_less_than_todays_calm() -> None:
    busy, calm = (
        ContainerUsage("web", cpu=sketch(*[4.0] * 100)),
        ContainerUsage("web", cpu=sketch(*[1.0] * 100)),
    )
    quick = UsageWeights(half_life_seconds=BUCKET_SECONDS, rule=EnvelopeRule(percentile=(0.6, 0.9, 0.9, 0.9)))
    assert ring_of((1, busy), (3, calm), weights=quick).statistics[0, Statistic.ENVELOPE] == pytest.approx(
        1.0, rel=0.01
    )
    assert ring_of((3, busy), (1, calm), weights=quick).statistics[0, Statistic.ENVELOPE] == pytest.approx(
        4.0, rel=0.01
    )
    assert ring_of((1, busy), (3, calm), weights=quick).statistics[0, Statistic.MAX] == pytest.approx(
        4.0, rel=0.01
    )


def test_unmeasured_resources_and_empty_histograms_have_no_p90() -> None:
    ring = ring_of((1, ContainerUsage("web", cpu=sketch(0.0, 0.0), memory=Sketch(), disk=Sketch({7: 0}))))
    assert (ring.p90, ring.samples) == (Quantities(cpu_cores=0.0), 2)
    assert UsageRing().p90 == Quantities()


def test_a_heartbeat_without_samples_leaves_statistics_empty() -> None:
    ring = ring_of((1, ContainerUsage("web")))
    assert (ring.p90, ring.samples) == (Quantities(), 0)


def test_absurd_numbers_stay_within_what_can_be_stored_and_sent() -> None:
    absurd = ContainerUsage("web", memory=Sketch({4000: 2**63 - 1}, 2**63 - 1))
    ring = ring_of(*[(1, absurd)] * 3)
    assert sketches(ring.buckets[1])[1] == Sketch({4000: MAX_COUNT}, MAX_COUNT)
    assert ring.p90.memory_bytes == 2**63 - 1


@patient
@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(values, max_size=20)), min_size=1, max_size=8))
def test_a_batch_gives_the_same_result_as_single_containers(samples: list[tuple[str, list[float]]]) -> None:
    usages = [ContainerUsage(name, *(sketch(*each) for _ in RESOURCES)) for name, each in samples]
    together: dict[str, UsageRing] = {}
    apart: dict[str, UsageRing] = {}
    add_heartbeat(together, 5, usages, UsageWeights())
    assert together.keys() == {name for name, _ in samples}
    for usage in usages:
        add_heartbeat(apart, 5, [usage], UsageWeights())
    for name, ring in together.items():
        assert ring.buckets == apart[name].buckets
        np.testing.assert_allclose(ring.statistics, apart[name].statistics)


@pytest.mark.parametrize(
    ("at", "bucket"),
    [
        (NOW, 1000),
        (NOW - 120, 999),
        (NOW - 20 * HOUR, 997),
        (NOW - 25 * HOUR, 1000),
        (NOW + 120, 1000),
        (NOW + BUCKET_SECONDS, 1000),
        (0.0, 1000),
        (1e300, 1000),
    ],
)
def test_usage_belongs_to_the_bucket_of_its_time_stamp_if_that_is_plausible(at: float, bucket: int) -> None:
    assert report_bucket(at, NOW) == bucket
