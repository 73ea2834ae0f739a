import pytest

from agent.sampling.ticker import ticks


class Time:
    """A clock that moves only when someone works or sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


async def beats(work: list[float], period: float = 3.0) -> list[tuple[float, int]]:
    """The time of each tick and its number of missed ticks, for passes that take `work` seconds."""
    time = Time()
    seen = []
    beat = ticks(period, time, time.sleep)
    for seconds in work:
        missed = await anext(beat)
        seen.append((time.now - 1000.0, missed))
        time.now += seconds
    await beat.aclose()  # type: ignore[attr-defined]
    return seen


async def test_work_does_not_shift_ticks() -> None:
    assert await beats([0.1, 1.5, 2.9, 0.0]) == [(0, 0), (3, 0), (6, 0), (9, 0)]


async def test_missed_ticks_are_counted_and_skipped() -> None:
    assert await beats([0.1, 7.0, 0.1, 0.1]) == [(0, 0), (3, 0), (12, 2), (15, 0)]


async def test_a_thousand_ticks_do_not_drift() -> None:
    seen = await beats([0.013] * 1000, period=0.7)
    assert seen[-1][0] == pytest.approx(999 * 0.7, abs=1e-6)
