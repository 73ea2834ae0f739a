from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from collector.analysis.histograms import pack
from collector.analysis.usage import (
    BUCKET_SECONDS,
    NOT_MEASURED,
    ObservedContainer,
    UsageRing,
    UsageWeights,
)
from collector.features.sizing.daily import DAY_SECONDS, DailyUsage, ServiceDays, UsageSum, sum_usage
from tests.collector.analysis.sketches import sketches
from tests.collector.builders import add_heartbeat
from tests.collector.report_strategies import patient
from wire.messages import ContainerUsage
from wire.sketch import Sketch

SAMPLE_SECONDS = 5.0
FIRST_BUCKET = 3000
"""The first bucket of a day."""


def observed(
    name: str, buckets: Mapping[int, int], *, inherited: int = 0, node: str = "alpha", service: str = "web"
) -> ObservedContainer:
    """A container with so many samples of one core in each bucket."""
    rings: dict[str, UsageRing] = {}
    for bucket, samples in sorted(buckets.items()):
        add_heartbeat(rings, bucket, [ContainerUsage(name, cpu=Sketch({0: samples}))], UsageWeights())
    parts = tuple(rings[name].buckets.items()) if rings else ()
    return ObservedContainer(
        node, service, "", SAMPLE_SECONDS, parts, NOT_MEASURED, 0, id=name, inherited=inherited
    )


def seconds_by_day(usage: DailyUsage) -> dict[int, int]:
    """Container time with CPU samples."""
    of = usage.services.get("web")
    return {} if of is None else {day: sketches(total.packed)[0].count for day, total in of.totals().items()}


def at(bucket: float) -> float:
    return bucket * BUCKET_SECONDS


def store(usage: DailyUsage, stored: dict[str, bytes]) -> None:
    for name, value in usage.pack_changes().items():
        if value is None:
            stored.pop(name, None)
        else:
            stored[name] = value


def restarted(usage: DailyUsage, stored: dict[str, bytes]) -> DailyUsage:
    store(usage, stored)
    fresh = DailyUsage(14)
    assert not fresh.restore(stored)
    return fresh


def test_later_histograms_of_a_container_replace_earlier_ones() -> None:
    usage = DailyUsage(14)
    for samples in (100, 250, 400):
        usage.update([observed("one", {FIRST_BUCKET: samples})], at(FIRST_BUCKET + 0.5))
    assert seconds_by_day(usage) == {1000: 400 * SAMPLE_SECONDS}


def test_a_container_that_ended_and_its_successor_both_count() -> None:
    usage = DailyUsage(14)
    usage.update([observed("one", {FIRST_BUCKET: 100})], at(FIRST_BUCKET + 0.1))
    usage.update([observed("two", {FIRST_BUCKET: 30})], at(FIRST_BUCKET + 0.2))
    usage.update([], at(FIRST_BUCKET + 0.3))
    assert seconds_by_day(usage) == {1000: 130 * SAMPLE_SECONDS}


def test_what_a_moved_container_inherits_counts_with_its_predecessor_only() -> None:
    usage = DailyUsage(14)
    usage.update([observed("one", {FIRST_BUCKET: 100})], at(FIRST_BUCKET + 0.1))
    # The last part is that of the predecessor.
    usage.update(
        [observed("two", {FIRST_BUCKET - 1: 30, FIRST_BUCKET: 100}, inherited=1)], at(FIRST_BUCKET + 0.2)
    )
    assert seconds_by_day(usage) == {999: 30 * SAMPLE_SECONDS, 1000: 100 * SAMPLE_SECONDS}


def test_a_bucket_that_the_container_lost_still_counts() -> None:
    usage = DailyUsage(14)
    buckets: dict[int, int] = {}
    for bucket in range(FIRST_BUCKET, FIRST_BUCKET + 6):
        buckets[bucket] = 50
        buckets.pop(bucket - 3, None)
        usage.update([observed("one", buckets)], at(bucket + 0.9))
    assert seconds_by_day(usage) == {1000: 150 * SAMPLE_SECONDS, 1001: 150 * SAMPLE_SECONDS}


def test_a_node_cannot_claim_more_time_than_there_is() -> None:
    usage = DailyUsage(14)
    usage.update([observed("one", {FIRST_BUCKET: 1_000_000})], at(FIRST_BUCKET + 0.9))
    assert seconds_by_day(usage)[1000] == pytest.approx(BUCKET_SECONDS, rel=0.01)


def test_an_update_that_fails_leaves_no_empty_bucket() -> None:
    usage = DailyUsage(14)
    usage.update([observed("one", {FIRST_BUCKET: 10})], at(FIRST_BUCKET + 0.9))
    before = seconds_by_day(usage)
    invalid = replace(observed("one", {FIRST_BUCKET + 1: 10}), parts=((FIRST_BUCKET + 1, b"\x09invalid"),))
    with pytest.raises(LookupError):
        usage.update([invalid], at(FIRST_BUCKET + 1.9))
    assert seconds_by_day(usage) == before


@pytest.mark.parametrize("containers", [2, 12])
def test_a_service_is_the_sum_of_its_containers_few_or_many(containers: int) -> None:
    bins = np.arange(4000, dtype=np.int64)
    counts = [1 + bins * number % 300 for number in range(containers)]
    of_bucket = {
        ("node", str(number)): UsageSum(pack(bins, each, 1)[0], 10.0) for number, each in enumerate(counts)
    }
    (total,) = ServiceDays(open={FIRST_BUCKET: of_bucket}).totals().values()
    assert total == UsageSum(pack(bins, np.sum(counts, axis=0), 1)[0], 10.0)


@given(st.lists(st.tuples(st.integers(1, 10_000), st.floats(1.0, 60.0)), max_size=5))
def test_containers_that_are_counted_together_count_as_each_by_itself(
    containers: list[tuple[int, float]],
) -> None:
    packed = [observed("one", {FIRST_BUCKET: samples}).parts[0][1] for samples, _ in containers]
    sample_seconds = [seconds for _, seconds in containers]
    together = sum_usage(packed, sample_seconds, BUCKET_SECONDS)
    assert together == [
        sum_usage([each], [seconds], BUCKET_SECONDS)[0]
        for each, seconds in zip(packed, sample_seconds, strict=True)
    ]
    assert [each.seconds for each in together] == [
        min(BUCKET_SECONDS, samples * seconds) for samples, seconds in containers
    ]


def test_old_days_and_their_services_are_forgotten() -> None:
    usage = DailyUsage(2)
    usage.update([observed("one", {FIRST_BUCKET: 100})], at(FIRST_BUCKET + 0.5))
    usage.note_out_of_memory("web", "alpha", at(FIRST_BUCKET), 1e9)
    usage.update([], at(FIRST_BUCKET) + 4 * DAY_SECONDS)
    assert not usage.services
    assert usage.pack_changes() == {"web": None}


def test_a_node_that_runs_ever_new_services_loses_its_oldest_and_no_others() -> None:
    usage = DailyUsage(14, max_bytes=10_000)
    usage.update([observed("one", {FIRST_BUCKET: 100}, service="job", node="beta")], at(FIRST_BUCKET))
    for number in range(30):
        new = observed("one", {FIRST_BUCKET + number: 100}, service=f"s{number:02}")
        usage.update([new], at(FIRST_BUCKET + number + 0.5))
        ended = [each for name, each in usage.services.items() if name != new.service]
        assert sum(each.size_bytes for each in ended) < 2 * 10_000
    usage.note_out_of_memory("unknown", "alpha", at(FIRST_BUCKET), 1e9)
    kept = sorted(usage.services)
    assert kept == ["job", *(f"s{number:02}" for number in range(31 - len(kept), 30))]
    assert len(kept) > 5
    stored = usage.pack_changes()
    assert stored["s00"] is None
    again = DailyUsage(14, max_bytes=10_000)
    again.restore({name: value for name, value in stored.items() if value is not None})
    assert {name: of.node for name, of in again.services.items()}["job"] == "beta"


def test_stored_usage_that_is_not_valid_is_refused() -> None:
    assert DailyUsage(14).restore({"web": b"\xc1 nonsense"}) == ["web"]


@patient
@given(
    st.lists(
        st.tuples(st.booleans(), st.dictionaries(st.sampled_from("abc"), st.integers(1, 50), max_size=3)),
        min_size=1,
        max_size=9,
    )
)
def test_a_restart_at_any_time_changes_nothing(steps: list[tuple[bool, dict[str, int]]]) -> None:
    """Each step is half a bucket: some containers run on, others end or start; before some, it restarts.

    A collector that restarts has its containers from the history first, and reports about ended ones later.
    """
    kept, interrupted = DailyUsage(14), DailyUsage(14)
    stored: dict[str, bytes] = {}
    rings: dict[str, dict[int, int]] = {}
    containers: list[ObservedContainer] = []
    for number, (restarts, running) in enumerate(steps):
        bucket = FIRST_BUCKET + number // 2
        # A container that ended never comes back under the same id.
        rings = {name: buckets for name, buckets in rings.items() if name in running}
        for name, samples in running.items():
            buckets = rings.setdefault(name, {})
            buckets[bucket] = buckets.get(bucket, 0) + samples
            buckets.pop(bucket - 3, None)
        if restarts:
            interrupted = restarted(interrupted, stored)
            interrupted.update(containers, at(FIRST_BUCKET + number / 2 + 0.4))
        containers = [observed(f"{name}{id(rings[name])}", rings[name]) for name in running]
        for usage in (kept, interrupted):
            usage.update(containers, at(FIRST_BUCKET + number / 2 + 0.4))
        store(interrupted, stored)
    assert seconds_by_day(interrupted) == seconds_by_day(kept)
