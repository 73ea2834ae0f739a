import math

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig, PlacementConfig
from collector.live.registry import Registry
from collector.live.trend import SLOT_SECONDS, SLOTS, Trend
from tests.collector.builders import HEARTBEAT, partial_report, state
from wire.resources import Quantities

BEGIN = 1000 * SLOT_SECONDS


def cpu(value: float) -> list[float | None]:
    return [value, None, None, None]


def told(trend: Trend, row: int = 0) -> list[float]:
    """The CPU ratios of a row that are known."""
    ratios = trend.ratios(np.array([row]))[0, :, 0]
    return [float(value) for value in ratios if not math.isnan(value)]


@given(
    st.lists(st.tuples(st.floats(0.001, 700), st.floats(0, 1)), min_size=1, max_size=30),
    st.floats(0, 700),
)
def test_each_slot_is_the_mean_weighted_by_time(steps: list[tuple[float, float]], rest: float) -> None:
    trend, now = Trend(), BEGIN
    held: list[tuple[float, float, float]] = []
    forever = np.full(1, math.inf)
    trend.advance(now, forever)
    for wait, ratio in steps:
        if held:
            held[-1] = (held[-1][0], now + wait, held[-1][2])
        now += wait
        trend.advance(now, forever)
        trend.put(0, cpu(ratio), now)
        held.append((now, now, ratio))
    held[-1] = (held[-1][0], now + rest, held[-1][2])
    now += rest
    trend.advance(now, forever)
    expected = []
    for slot in range(int(BEGIN // SLOT_SECONDS), int(now // SLOT_SECONDS)):
        begin, end = slot * SLOT_SECONDS, (slot + 1) * SLOT_SECONDS
        parts = [(max(0.0, min(end, until) - max(begin, since)), ratio) for since, until, ratio in held]
        seconds = sum(part for part, _ in parts)
        if seconds > 0:
            expected.append(sum(part * ratio for part, ratio in parts) / seconds)
    np.testing.assert_allclose(told(trend), expected[-SLOTS:], rtol=1e-6, atol=1e-9)


def test_a_state_does_not_hold_beyond_its_validity() -> None:
    trend = Trend()
    trend.advance(BEGIN, np.full(2, BEGIN))
    for row in (0, 1):
        trend.put(row, cpu(0.5), BEGIN)
    trend.put(1, cpu(0.9), BEGIN + 150)
    trend.advance(BEGIN + 3 * SLOT_SECONDS, np.array([BEGIN + 100, BEGIN + 3 * SLOT_SECONDS]))
    assert told(trend, 0) == [0.5]
    assert told(trend, 1) == [0.7, 0.9, 0.9]


def test_after_a_long_pause_only_the_last_slots_are_kept() -> None:
    trend = Trend()
    trend.advance(BEGIN, np.full(1, math.inf))
    trend.put(0, cpu(0.25), BEGIN)
    trend.advance(BEGIN + 1000 * SLOT_SECONDS, np.full(1, math.inf))
    assert told(trend) == [0.25] * SLOTS


def test_a_row_that_was_another_s_starts_empty() -> None:
    trend = Trend()
    trend.advance(BEGIN, np.full(1, math.inf))
    trend.put(0, cpu(0.25), BEGIN)
    trend.advance(BEGIN + SLOT_SECONDS, np.full(1, math.inf))
    trend.clear(0)
    trend.advance(BEGIN + 2 * SLOT_SECONDS, np.full(1, math.inf))
    assert told(trend) == []


def test_the_snapshot_has_the_history_of_each_node_oldest_first() -> None:
    known = Registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0)))
    capacity, seldom = Quantities(4.0, 100), msgspec.structs.replace(HEARTBEAT, beacon_seconds=SLOT_SECONDS)
    for number in range(4):
        for name, cores in (("beta", 1.0), ("alpha", float(number))):
            moved = state(used=Quantities(cores, 50), capacity=capacity)
            at = BEGIN + number * SLOT_SECONDS
            known.apply(partial_report(name, sequence=number + 1, at=at, state=moved, heartbeat=seldom), at)
    history = known.tables.snapshot(BEGIN + 3 * SLOT_SECONDS + 1).nodes.history
    assert history.shape == (2, SLOTS, 4)
    assert history[0, -3:, 0].tolist() == [0.0, 0.25, 0.5]
    assert history[1, -3:, 1].tolist() == [0.5, 0.5, 0.5]
    assert np.isnan(history[:, :-3]).all()
    assert np.isnan(history[:, -3:, 2:]).all()
