from pathlib import Path

import pytest

from collector import config
from collector.history.interface import ClusterPoint, GroupBy
from collector.history.sqlite import cluster
from collector.history.sqlite.history import History, open_sqlite
from tests.collector.builders import START, partial_report, report, state
from wire.messages import NodePower, PowerSource, Report

HOUR = 3600.0
BEGIN = START // HOUR * HOUR


def power(watts: float, joules_total: float = 0.0) -> NodePower:
    """A tenth of the watts is idle power, another one the system's."""
    return NodePower(watts, 0.1 * watts, 0.1 * watts, PowerSource.RAPL, 0.2, joules_total)


def heartbeat(node: str, minute: float, watts: float) -> Report:
    at = 60 * minute
    return report(
        node,
        sequence=1 + round(minute),
        at=BEGIN + at,
        window_seconds=60.0,
        power=power(watts, 1e6 + watts * at),
    )


async def store(history: History, *reports: Report) -> None:
    for each in reports:
        await history.add([each], each.at)
    await history.apply_retention(max(each.at for each in reports))


@pytest.fixture
def settings(tmp_path: Path) -> config.HistoryConfig:
    return config.HistoryConfig(path=str(tmp_path / "history.db"), retention_hours=1.0)


def adds_up(point: ClusterPoint) -> bool:
    parts = point.idle_watts + point.system_watts + point.containers_watts
    return parts == pytest.approx(point.watts)


async def test_the_power_of_all_nodes_is_summed_per_step(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        await store(
            history,
            heartbeat("alpha", 0, 100.0),
            heartbeat("beta", 0, 40.0),
            # The values of beta hold on; those of alpha change after three minutes.
            partial_report(
                "alpha", sequence=50, at=BEGIN + 240, state=state(window_seconds=60.0, power=power(200.0))
            ),
            partial_report("beta", sequence=50, at=BEGIN + 290),
            partial_report("alpha", sequence=51, at=BEGIN + 290),
        )
        series = await history.cluster_series(BEGIN, BEGIN + 300, 60.0, {})
    assert series.step_seconds == 60.0
    assert [point.at - BEGIN for point in series.points] == [0.0, 60.0, 120.0, 180.0, 240.0]
    assert [point.watts for point in series.points] == pytest.approx([140.0, 140.0, 140.0, 240.0, 240.0])
    assert [point.error_watts for point in series.points] == pytest.approx([28.0, 28.0, 28.0, 48.0, 48.0])
    assert [point.idle_watts for point in series.points] == pytest.approx([14.0, 14.0, 14.0, 24.0, 24.0])
    assert all(map(adds_up, series.points))
    assert {point.nodes for point in series.points} == {2}


async def test_a_silent_node_no_longer_counts(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        await store(
            history,
            heartbeat("alpha", 0, 100.0),
            heartbeat("beta", 0, 40.0),
            *(
                partial_report("alpha", sequence=10 + number, at=BEGIN + 30 * number)
                for number in range(1, 20)
            ),
        )
        series = await history.cluster_series(BEGIN, BEGIN + 570, 60.0, {})
    watts = [point.watts for point in series.points]
    assert watts[0] == pytest.approx(140.0)
    assert watts[-2:] == pytest.approx([100.0, 100.0])


async def test_older_power_comes_from_energy_and_has_the_error_of_today(
    settings: config.HistoryConfig,
) -> None:
    async with open_sqlite(settings) as history:
        reports = [
            heartbeat(node, 5 * number, watts)
            for number in range(61)
            for node, watts in (("alpha", 100.0), ("beta", 40.0))
        ]
        await store(history, *reports)
        fine = await history.cluster_series(BEGIN, BEGIN + 5 * HOUR, 300.0, {"alpha": 0.1})
        coarse = await history.cluster_series(BEGIN, BEGIN + 5 * HOUR, HOUR, {"alpha": 0.1, "beta": 0.5})
        (account, *_) = await history.energy(BEGIN, BEGIN + 5 * HOUR, GroupBy.DAY)
    assert [len(fine.points), len(coarse.points)] == [60, 5]
    assert [point.watts for point in (*fine.points, *coarse.points)] == pytest.approx([140.0] * 65)
    # A node whose error is unknown has the mean of the others.
    assert fine.points[0].error_watts == pytest.approx(0.1 * 140)
    assert coarse.points[0].error_watts == pytest.approx(0.1 * 100 + 0.5 * 40)
    assert all(map(adds_up, (*fine.points, *coarse.points)))
    assert sum(point.watts for point in coarse.points) * HOUR == pytest.approx(account.joules)


async def test_a_step_that_has_just_begun_shows_no_drop(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        await store(
            history,
            *(heartbeat("alpha", 5 * number, 100.0) for number in range(4)),
            *(heartbeat("beta", 5 * number, 40.0) for number in range(4)),
            heartbeat("alpha", 17, 100.0),
        )
        series = await history.cluster_series(BEGIN, BEGIN + 1200, 300.0, {})
    assert [point.watts for point in series.points] == pytest.approx([140.0] * 3)


async def test_a_cluster_without_power_has_no_points(settings: config.HistoryConfig) -> None:
    async with open_sqlite(settings) as history:
        assert (await history.cluster_series(BEGIN, BEGIN + HOUR, 60.0, {})).points == ()
        assert (await history.cluster_series(BEGIN, BEGIN + HOUR, 300.0, {})).points == ()


async def test_the_samples_of_a_large_cluster_are_not_read_at_once(
    settings: config.HistoryConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sqlite(settings) as history:
        await store(history, *(heartbeat("alpha", number, 100.0) for number in range(31)))
        few = await history.cluster_series(BEGIN, BEGIN + 1800, 60.0, {})
        monkeypatch.setattr(cluster, "_MOST_SAMPLES", 10)
        many = await history.cluster_series(BEGIN, BEGIN + 1800, 60.0, {})
    assert (few.step_seconds, many.step_seconds) == (60.0, 300.0)
    assert [point.watts for point in many.points] == pytest.approx([100.0] * 6)
