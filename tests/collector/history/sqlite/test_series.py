import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from collector import config
from collector.history.interface import SubjectKind
from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.history import History, open_sqlite
from collector.history.sqlite.series import MAX_POINTS, resolution_for, step_for
from tests.collector.builders import START, container, partial_report, report
from wire.messages import ContainerState, Pressure, Report
from wire.resources import Quantities

HOUR = 3600.0
BEGIN = START // HOUR * HOUR


def using(cpu_cores: float, name: str = "web") -> ContainerState:
    return container(name, used=Quantities(cpu_cores=cpu_cores, memory_bytes=1000), window_seconds=30.0)


def heartbeat(minute: float, sequence: int, *containers: ContainerState, node: str = "alpha") -> Report:
    return report(node, sequence=sequence, at=BEGIN + 60 * minute, containers=containers, window_seconds=30.0)


async def store(history: History, *reports: Report) -> None:
    for each in reports:
        await history.add([each], each.at)
    await history.apply_retention(max(each.at for each in reports))


@pytest.fixture
def settings(tmp_path: Path) -> config.HistoryConfig:
    return config.HistoryConfig(path=str(tmp_path / "history.db"), retention_hours=1.0)


async def test_the_history_of_a_container_has_one_point_per_minute(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        await store(
            history,
            heartbeat(0, 1, using(1.0)),
            partial_report(sequence=2, at=BEGIN + 150, containers=(using(3.0),)),
            partial_report(sequence=3, at=BEGIN + 240),
        )
        series = await history.series(SubjectKind.CONTAINER, "id-of-web", BEGIN, BEGIN + 300, 60.0)
    assert series.step_seconds == 60.0
    assert [point.at - BEGIN for point in series.points] == [0.0, 60.0, 120.0, 180.0]
    # The first values hold for two minutes, until the window of the second report.
    assert [point.mean.cpu_cores for point in series.points] == pytest.approx([1.0, 1.0, 3.0, 3.0])
    assert [point.mean_watts for point in series.points] == pytest.approx([2.5] * 4)


async def test_expired_samples_are_replaced_by_rollups(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        reports = [heartbeat(5 * number, number + 1, using(float(number % 3))) for number in range(61)]
        await store(history, *reports)
        start, end = BEGIN, BEGIN + 5 * HOUR
        fine = await history.series(SubjectKind.CONTAINER, "id-of-web", start, end, 10.0)
        coarse = await history.series(SubjectKind.NODE, "alpha", start, end, HOUR)
        late = await history.series(SubjectKind.NODE, "alpha", end - HOUR / 2, end, 60.0)
    assert fine.step_seconds == FINE_SECONDS
    assert len(fine.points) == 60
    assert max(point.max.cpu_cores or 0.0 for point in fine.points) == 2.0
    assert coarse.step_seconds == COARSE_SECONDS
    assert [point.mean.cpu_cores for point in coarse.points] == pytest.approx([1.0] * 5)
    assert late.step_seconds == 60.0


def waiting(minute: float, sequence: int, pressure: Pressure) -> Report:
    report_ = heartbeat(minute, sequence, replace(using(1.0), pressure=pressure, service="shop"))
    assert report_.state is not None
    return replace(report_, state=replace(report_.state, pressure=pressure))


@pytest.mark.slow
@pytest.mark.parametrize("step_seconds", [60.0, FINE_SECONDS, COARSE_SECONDS])
async def test_pressure_is_kept_at_every_resolution(
    settings: config.HistoryConfig, step_seconds: float
) -> None:
    async with open_sqlite(settings) as history:
        # Alternating, for five minutes each.
        low, high = Pressure(cpu_ratio=0.0125, memory_ratio=0.0), Pressure(cpu_ratio=0.5, memory_ratio=0.25)
        reports = [waiting(each, each + 1, (low, high)[max(0, each - 1) // 5 % 2]) for each in range(61)]
        await store(history, *reports)
        end = BEGIN + HOUR
        node = await history.series(SubjectKind.NODE, "alpha", BEGIN, end, step_seconds)
        of_container = await history.series(SubjectKind.CONTAINER, "id-of-web", BEGIN, end, step_seconds)
        service = await history.series(SubjectKind.SERVICE, "shop", BEGIN, end, step_seconds)
    assert node.step_seconds == step_seconds
    for series in (node, of_container):
        whole = series.points
        mean = sum(point.mean_pressure.cpu_ratio or 0.0 for point in whole) / len(whole)
        assert mean == pytest.approx(0.256, abs=0.02)
        assert max(point.max_pressure.cpu_ratio or 0.0 for point in whole) == 0.5
        assert max(point.max_pressure.memory_ratio or 0.0 for point in whole) == 0.25
        # The kernel does not measure that of the disk.
        assert all(point.mean_pressure.disk_ratio is None for point in whole)
    # Shares of time do not add up.
    assert all(point.mean_pressure == Pressure() for point in service.points)
    assert any(point.mean_watts for point in service.points)


async def test_a_reported_pressure_above_all_of_the_time_is_all_of_the_time(
    settings: config.HistoryConfig,
) -> None:
    async with open_sqlite(settings) as history:
        await store(history, *(waiting(each, each + 1, Pressure(cpu_ratio=1e12)) for each in range(0, 61, 5)))
        for step_seconds in (60.0, FINE_SECONDS):
            series = await history.series(SubjectKind.NODE, "alpha", BEGIN, BEGIN + HOUR, step_seconds)
            assert {point.mean_pressure.cpu_ratio for point in series.points} == {1.0}
            assert {point.max_pressure.cpu_ratio for point in series.points} == {1.0}


async def test_a_service_is_the_sum_of_its_containers_wherever_they_run(
    settings: config.HistoryConfig,
) -> None:
    async with open_sqlite(settings) as history:
        for node in ("alpha", "beta"):
            await store(
                history,
                heartbeat(0, 1, using(1.0, "one"), using(2.0, "two"), node=node),
                heartbeat(5, 2, using(1.0, "one"), using(2.0, "two"), node=node),
            )
        series = await history.series(SubjectKind.SERVICE, "shop", BEGIN, BEGIN + 300, FINE_SECONDS)
        finer = await history.series(SubjectKind.SERVICE, "shop", BEGIN, BEGIN + 300, 60.0)
    assert len(series.points) == 1
    assert len(finer.points) == 5
    for point in (*series.points, *finer.points):
        assert point.mean.cpu_cores == pytest.approx(6.0)
        assert point.max.memory_bytes == 4000


async def test_the_samples_of_a_service_with_many_containers_are_not_read_one_by_one(
    settings: config.HistoryConfig,
) -> None:
    async with open_sqlite(settings) as history:
        many = [using(0.5, f"c{number}") for number in range(30)]
        await store(history, heartbeat(0, 1, *many), heartbeat(10, 2, *many))
        series = await history.series(SubjectKind.SERVICE, "shop", BEGIN, BEGIN + 600, 60.0)
    assert series.step_seconds == FINE_SECONDS
    assert [point.mean.cpu_cores for point in series.points] == pytest.approx([15.0, 15.0])


async def test_a_new_service_shows_its_samples_until_it_has_rollups(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        await store(
            history,
            heartbeat(0, 1, using(1.0, "one"), using(2.0, "two")),
            partial_report(sequence=2, at=BEGIN + 60, containers=(using(4.0, "two"),)),
            partial_report(sequence=3, at=BEGIN + 120),
        )
        series = await history.series(SubjectKind.SERVICE, "shop", BEGIN - HOUR / 2, BEGIN + HOUR / 2, 30.0)
    assert [point.at - BEGIN for point in series.points] == [-30.0, 0.0, 30.0, 60.0, 90.0]
    assert [point.mean.cpu_cores for point in series.points] == pytest.approx([3.0, 3.0, 5.0, 5.0, 5.0])


async def test_an_unknown_name_has_no_history(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        for kind in SubjectKind:
            assert (await history.series(kind, "nobody", BEGIN, BEGIN + HOUR, 60.0)).points == ()


@given(
    step=st.floats(0.001, 10 * 86_400),
    seconds=st.floats(1, 400 * 86_400),
    level=st.sampled_from([0, FINE_SECONDS, COARSE_SECONDS]),
)
def test_points_are_never_too_many_nor_finer_than_asked_for(step: float, seconds: float, level: int) -> None:
    chosen = step_for(step, BEGIN, BEGIN + seconds, level)
    assert chosen >= step
    buckets = math.ceil((BEGIN + seconds) / chosen) - int(BEGIN // chosen)
    assert buckets <= MAX_POINTS + 1
    if level:
        assert chosen % level == 0


def test_the_finest_samples_that_go_back_far_enough_are_taken() -> None:
    oldest_at = {0: 1000.0 * HOUR, FINE_SECONDS: 900.0 * HOUR, COARSE_SECONDS: 100.0 * HOUR}
    assert resolution_for(10.0, 1000.5 * HOUR, oldest_at) == 0
    assert resolution_for(10.0, 950.0 * HOUR, oldest_at) == FINE_SECONDS
    assert resolution_for(10.0, 200.0 * HOUR, oldest_at) == COARSE_SECONDS
    assert resolution_for(600.0, 1000.5 * HOUR, oldest_at) == FINE_SECONDS
    assert resolution_for(2 * HOUR, 1000.5 * HOUR, oldest_at) == COARSE_SECONDS
    # Where nothing goes back further, nothing is gained by coarser steps.
    assert resolution_for(10.0, 0.0, {0: 1000.0 * HOUR, FINE_SECONDS: 1000.0 * HOUR}) == 0
    assert resolution_for(10.0, 0.0, {}) == 0
