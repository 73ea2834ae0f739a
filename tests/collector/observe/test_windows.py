import math
import tracemalloc
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig, PlacementConfig
from collector.observe.registry import Registry
from collector.observe.windows import BUCKET_SECONDS, BUCKETS, UsageWindows
from tests.collector.builders import HEARTBEAT, container, partial_report, state
from wire.resources import Quantities

BEGIN = 1000 * BUCKET_SECONDS
ALWAYS = np.full(1, math.inf)
MEGABYTES = 1e6


def put(windows: UsageWindows, cpu: float, at: float, window_seconds: float = 0.0, row: int = 0) -> None:
    windows.advance(at, np.full(row + 1, math.inf))
    values = np.array([[cpu, np.nan, np.nan, np.nan]])
    windows.put([row], values, at, [window_seconds])


def known(windows: UsageWindows, row: int = 0) -> list[float]:
    """The CPU of the buckets of a row that are known."""
    cpu = windows.windows(np.array([row])).amounts[0, :, 0]
    return [float(value) for value in cpu if not math.isnan(value)]


@dataclass(frozen=True)
class Report:
    at: float
    window_seconds: float
    cpu: float


def means(reports: list[Report], until: float) -> list[float]:
    """The mean of each bucket, a report holds from the start of its window to that of the next."""
    begins = [
        max(each.at - each.window_seconds, reports[number - 1].at if number else -math.inf)
        for number, each in enumerate(reports)
    ]
    found = []
    for bucket in range(int(min(begins) // BUCKET_SECONDS), int(until // BUCKET_SECONDS)):
        begin, end = bucket * BUCKET_SECONDS, (bucket + 1) * BUCKET_SECONDS
        parts = [
            (max(0.0, min(end, after) - max(begin, since)), each.cpu)
            for since, after, each in zip(begins, [*begins[1:], until], reports, strict=True)
        ]
        seconds = sum(part for part, _ in parts)
        if seconds > 0:
            found.append(sum(part * cpu for part, cpu in parts) / seconds)
    return found


@given(
    st.lists(
        st.tuples(st.integers(1, 700), st.integers(0, 100), st.floats(0.125, 1, width=32)),
        min_size=1,
        max_size=30,
    ),
    st.integers(0, 700),
)
def test_a_bucket_is_the_mean_over_time_of_windows_that_hold_until_the_next(
    steps: list[tuple[int, int, float]], rest: int
) -> None:
    windows, now = UsageWindows(), BEGIN + BUCKET_SECONDS
    windows.advance(now, ALWAYS)
    reports = []
    for wait, window_seconds, cpu in steps:
        now += wait
        reports.append(Report(now, min(window_seconds, wait), cpu))
        put(windows, cpu, now, min(window_seconds, wait))
    now += rest
    windows.advance(now, ALWAYS)
    expected = means(reports, now)
    np.testing.assert_allclose(known(windows), expected[-BUCKETS:], rtol=1e-4)


def test_a_window_of_several_buckets_fills_all_of_them() -> None:
    windows = UsageWindows()
    windows.advance(BEGIN, ALWAYS)
    put(windows, 0.5, BEGIN + 4 * BUCKET_SECONDS, 3 * BUCKET_SECONDS)
    assert known(windows) == [0.5, 0.5, 0.5]


def test_what_a_node_reported_is_not_held_beyond_its_silence() -> None:
    windows = UsageWindows()
    for row in (0, 1):
        put(windows, 0.5, BEGIN, row=row)
    put(windows, 0.9, BEGIN + 150, row=1)
    windows.advance(BEGIN + 3 * BUCKET_SECONDS, np.array([BEGIN + 100, BEGIN + 3 * BUCKET_SECONDS]))
    assert known(windows, 0) == [0.5]
    assert known(windows, 1) == pytest.approx([0.7, 0.9, 0.9])


def test_after_a_long_pause_only_the_last_buckets_are_there() -> None:
    windows = UsageWindows()
    put(windows, 0.25, BEGIN)
    windows.advance(BEGIN + 1000 * BUCKET_SECONDS, ALWAYS)
    assert known(windows) == [0.25] * BUCKETS


def test_a_row_that_is_cleared_starts_empty() -> None:
    windows = UsageWindows()
    put(windows, 0.25, BEGIN)
    windows.advance(BEGIN + BUCKET_SECONDS, ALWAYS)
    windows.clear(0)
    windows.advance(BEGIN + 2 * BUCKET_SECONDS, ALWAYS)
    assert known(windows) == []


def test_row_continues_elsewhere_within_a_bucket_and_after_buckets_without_reports() -> None:
    windows = UsageWindows()
    put(windows, 0.5, BEGIN)
    put(windows, 0.5, BEGIN + BUCKET_SECONDS)
    kept = windows.keep(0)
    windows.clear(0)
    windows.put_back(3, kept)
    put(windows, 0.25, BEGIN + 1.5 * BUCKET_SECONDS, 0.25 * BUCKET_SECONDS, row=3)
    windows.advance(BEGIN + 2 * BUCKET_SECONDS, np.full(4, math.inf))
    assert known(windows, 3) == pytest.approx([0.5, 0.25 * 0.5 + 0.75 * 0.25])
    windows.advance(BEGIN + 4 * BUCKET_SECONDS, np.full(4, BEGIN + 2 * BUCKET_SECONDS))
    windows.put_back(2, kept)
    assert known(windows, 2) == [0.5]


_ROWS = 4
_STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, _ROWS - 1), st.floats(0.125, 1, width=32)),
    st.tuples(st.just("wait"), st.integers(1, 400), st.just(0.0)),
    st.tuples(st.just("clear"), st.integers(0, _ROWS - 1), st.just(0.0)),
    st.tuples(st.just("keep"), st.integers(0, _ROWS - 1), st.just(0.0)),
    st.tuples(st.just("put_back"), st.integers(0, _ROWS - 1), st.just(0.0)),
    st.tuples(st.just("inherit"), st.integers(0, _ROWS - 1), st.just(0.0)),
)


def _windows_after(steps: list[tuple[str, int, float]], *, one_by_one: bool) -> np.ndarray:
    windows, now = UsageWindows(), BEGIN
    valid_until = np.full(_ROWS, math.inf)
    windows.advance(now, valid_until)
    kept = windows.keep(0)
    for step, number, cpu in steps:
        match step:
            case "put":
                put(windows, cpu, now, 100.0, row=number)
            case "wait":
                now += number
                windows.advance(now, valid_until)
            case "clear":
                windows.clear(number)
            case "keep":
                kept = windows.keep(number, until=now)
            case "put_back":
                windows.put_back(number, kept)
            case "inherit":
                windows.inherit(number, kept)
        if one_by_one:
            windows.version  # noqa: B018 - writes what waits
    windows.advance(now + 2 * BUCKET_SECONDS, valid_until)
    return windows.windows(np.arange(_ROWS)).amounts


@given(st.lists(_STEPS, max_size=40))
def test_what_is_written_together_is_the_same_as_one_by_one(steps: list[tuple[str, int, float]]) -> None:
    together, alone = (_windows_after(steps, one_by_one=each) for each in (False, True))
    np.testing.assert_array_equal(together, alone)


def test_windows_that_were_handed_out_do_not_change() -> None:
    windows = UsageWindows()
    for number in range(4):
        put(windows, 0.5, BEGIN + number * BUCKET_SECONDS)
    shared = windows.windows(np.array([0]))
    windows.clear(0)
    assert known(windows) == []
    assert shared.amounts[0, -3:, 0].tolist() == [0.5, 0.5, 0.5]


def test_memory_of_fifty_thousand_containers_is_bounded() -> None:
    tracemalloc.start()
    windows = UsageWindows()
    for row in range(0, 50_000, 50):
        windows.put([row + 49], np.zeros((1, 4)), BEGIN, [0.0])
        windows.version  # noqa: B018 - writes what waits
    for bucket in range(BUCKETS + 1):
        windows.advance(BEGIN + bucket * BUCKET_SECONDS, np.full(50_000, math.inf))
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size_bytes <= 35 * MEGABYTES


def test_the_snapshot_has_the_last_hours_of_each_node_the_newest_last() -> None:
    registry = Registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0)))
    capacity, seldom = Quantities(4.0, 100), msgspec.structs.replace(HEARTBEAT, beacon_seconds=BUCKET_SECONDS)
    for number in range(4):
        for name, cores in (("beta", 1.0), ("alpha", float(number))):
            moved = state(used=Quantities(cores, 50), capacity=capacity)
            at = BEGIN + number * BUCKET_SECONDS
            registry.apply(
                partial_report(name, sequence=number + 1, at=at, state=moved, heartbeat=seldom), at
            )
    history = registry.tables.snapshot(BEGIN + 3 * BUCKET_SECONDS + 1).nodes.history
    assert history.shape == (2, BUCKETS, 4)
    assert history[0, -3:, 0].tolist() == [0.0, 0.25, 0.5]
    assert history[1, -3:, 1].tolist() == [0.5, 0.5, 0.5]
    assert np.isnan(history[:, :-3]).all()
    assert np.isnan(history[:, -3:, 2:]).all()


def test_the_snapshot_has_the_windows_of_containers_and_keeps_them_while_nothing_changes() -> None:
    registry = Registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0)))
    for number in range(3):
        at = BEGIN + (number + 1) * BUCKET_SECONDS
        one = container("one", used=Quantities(float(number), 100), window_seconds=BUCKET_SECONDS)
        registry.apply(
            partial_report("alpha", sequence=number + 1, at=at, containers=(one,), heartbeat=HEARTBEAT), at
        )
    first, second = (
        registry.tables.snapshot(BEGIN + 3 * BUCKET_SECONDS + more).tasks.windows.amounts for more in (1, 2)
    )
    assert first.dtype == np.float32
    assert first.shape == (1, BUCKETS, 4)
    assert first[0, -3:, 0].tolist() == [0.0, 1.0, 2.0]
    assert np.isnan(first[0, :-3]).all()
    assert second is first


def test_windows_of_a_snapshot_do_not_change_when_buckets_are_corrected_cleared_and_closed() -> None:
    windows, rows = UsageWindows(), np.arange(2)
    put(windows, 0.5, BEGIN)
    windows.advance(BEGIN + BUCKET_SECONDS, ALWAYS)
    taken = windows.windows(rows)
    put(windows, 0.25, BEGIN + BUCKET_SECONDS, BUCKET_SECONDS / 2)
    corrected = windows.windows(rows)
    windows.clear(0)
    cleared = windows.windows(rows)
    put(windows, 0.75, BEGIN + 2 * BUCKET_SECONDS, row=1)
    assert [each.amounts[0, -1, 0] for each in (taken, corrected)] == [0.5, 0.375]
    assert np.isnan(cleared.amounts).all()


def test_a_container_keeps_its_windows_on_another_node() -> None:
    one = container("one", used=Quantities(1.0, 100), window_seconds=BUCKET_SECONDS)
    moved = container("one", used=Quantities(3.0, 100), window_seconds=60.0)
    for order in (("beta", "alpha"), ("alpha", "beta")):
        registry = Registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0)))
        for node in ("alpha", "beta"):
            has = (one,) if node == "alpha" else ()
            registry.apply(partial_report(node, at=BEGIN, containers=has, heartbeat=HEARTBEAT), BEGIN)
        at = BEGIN + 60
        for node in order:
            left = partial_report(node, sequence=2, at=at, gone=(one.id,))
            came = partial_report(node, sequence=2, at=at, containers=(moved,))
            registry.apply(left if node == "alpha" else came, at)
        registry.apply(
            partial_report("beta", sequence=3, at=at + 1, heartbeat=HEARTBEAT, containers=(moved,)), at + 1
        )
        tasks = registry.tables.snapshot(at + 2).tasks
        assert tasks.ids == (one.id,)
        assert tasks.windows.amounts[0, -1, 0] == 1.0
