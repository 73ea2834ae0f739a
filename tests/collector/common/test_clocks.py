"""The system clock is set by a year, an hour or a leap second: nothing is lost, dead nodes are found."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.clocks import SteadyClock, report_jump
from collector.common.liveness import Liveness
from collector.common.outages import Dependency, Outages
from collector.history.sqlite.history import open_sqlite
from collector.main import running
from collector.serve.ingest import store_reports
from tests.collector.builders import START, Clock, report, settings

HOUR, YEAR = 3600.0, 366 * 86_400.0
JUMPS = [YEAR, -YEAR, HOUR, -HOUR, 1.0, -1.0]


class Machine:
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        self.wall, self.monotonic = Clock(START), Clock(1000.0)
        self.steady = SteadyClock(self.wall, self.monotonic)

    def run(self, seconds: float) -> None:
        self.wall.now += seconds
        self.monotonic.now += seconds


@given(st.lists(st.tuples(st.floats(0.001, 1000.0), st.floats(-YEAR, YEAR))))
def test_the_clock_runs_at_the_speed_of_the_monotonic_clock_whatever_the_wall_clock_shows(
    steps: list[tuple[float, float]],
) -> None:
    machine = Machine()
    for seconds, jump in steps:
        before = machine.steady()
        machine.run(seconds)
        machine.wall.now += jump
        assert 0.89 * seconds <= machine.steady() - before <= 1.11 * seconds


@pytest.mark.parametrize("seconds", [1.0, -1.0, 60.0, -60.0])
def test_the_clock_approaches_the_wall_clock(seconds: float) -> None:
    machine = Machine()
    machine.wall.now += seconds
    for _ in range(700):
        machine.run(1.0)
        machine.steady()
    assert machine.steady() == pytest.approx(machine.wall.now, abs=1e-3)


@pytest.mark.parametrize(
    ("seconds", "is_reported"), [(YEAR, True), (-HOUR, True), (1.0, False), (-1.0, False)]
)
def test_a_jump_is_logged_once_and_shown_until_it_is_over(
    seconds: float,
    is_reported: bool,  # noqa: FBT001 - the expected
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    machine, outages = Machine(), Outages()
    outages.watch(Dependency.CLOCK)
    machine.wall.now += seconds
    for _ in range(3):
        machine.run(1.0)
        report_jump(machine.steady, outages)
    assert len(outages.problems) == len(caplog.records) == is_reported
    machine.wall.now -= seconds
    report_jump(machine.steady, outages)
    assert not outages.problems


@pytest.mark.parametrize("jump", JUMPS)
async def test_after_a_jump_live_nodes_are_up_dead_ones_are_found_and_nothing_is_deleted(
    tmp_path: Path, jump: float
) -> None:
    machine = Machine()
    async with running(settings(tmp_path / "history.db"), clock=machine.steady) as collector:
        core, states = collector.core, {}
        for sequence in range(1, 11):
            names = ["alive", "dies"] if sequence <= 5 else ["alive"]
            at = START + 20.0 * sequence
            await store_reports(core, [report(name, sequence=sequence, at=at) for name in names])
            if sequence == 5:
                machine.wall.now += jump
            machine.run(10.0)
            states = {each.name: each.liveness for each in core.registry.nodes(core.clock())}
            await core.history.apply_retention(core.clock())
            core.registry.drop_old(core.clock())
        assert states == {"alive": Liveness.UP, "dies": Liveness.DOWN}
        assert core.history.stats().reports == 15


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_clock_that_is_wrong_at_the_start_deletes_nothing(tmp_path: Path, jump: float) -> None:
    config = settings(tmp_path / "history.db")
    async with running(config, clock=Clock(START)) as collector:
        await store_reports(collector.core, [report(sequence=number) for number in range(1, 11)])
        await collector.core.history.apply_retention(START)
    clock = Clock(START + jump)
    async with running(config, clock=clock) as collector:
        core = collector.core
        for _ in range(5):
            await core.history.apply_retention(clock.now)
            core.registry.drop_old(clock.now)
            clock.now += 60.0
        assert core.history.stats().reports == 10
        assert core.registry.names() == ["alpha"]
        # No age is negative, or the node would count as up until the clock reaches its last report.
        (node,) = core.registry.nodes(clock.now)
        assert node.liveness is Liveness.DOWN


@pytest.mark.slow
async def test_after_a_pause_the_horizon_catches_up(tmp_path: Path) -> None:
    kept = settings(tmp_path / "history.db").history
    async with open_sqlite(kept) as history:
        await history.add([report(sequence=1)], START)
        await history.apply_retention(START)
    now = START + 24 * HOUR
    async with open_sqlite(kept) as history:
        await history.add([report(sequence=2)], now)
        await history.apply_retention(now)
        assert history.stats().reports == 2
        for _ in range(60 * 7):
            now += 60.0
            await history.apply_retention(now)
        assert history.stats().reports == 1
