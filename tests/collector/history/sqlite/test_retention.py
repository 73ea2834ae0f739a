import asyncio
import logging
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from collector import config
from collector.history.interface import GroupBy, SubjectKind
from collector.history.sqlite.history import open_sqlite
from tests.collector.builders import START, container, report

BOUND = 16 << 20
HOUR = 3600.0


@pytest.mark.slow
async def test_the_size_stays_in_its_bound_and_the_newest_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bounded = config.HistoryConfig(path=str(tmp_path / "history.db"), max_size_bytes=BOUND)
    caplog.set_level(logging.WARNING)
    sizes = []
    async with open_sqlite(bounded) as history:
        for number in range(1, 1501):
            at = START + 10 * number
            containers = [container(f"c{number // 100}-{place}") for place in range(50)]
            await history.add([report(sequence=number, at=at, containers=containers)], at)
            sizes.append(history.stats().size_bytes)
            if number % 100 == 0:
                await history.apply_retention(at)
                sizes.append(history.stats().size_bytes)
        kept = history.stats()
        (last,) = (await history.load_state()).reports
    assert max(sizes) <= BOUND
    assert max(sizes) > BOUND / 4
    assert kept.dropped_for_size > 0
    assert 0 < kept.reports < 1500
    assert last.report.sequence == 1500
    assert "history.max_size_bytes" in caplog.text


@pytest.mark.slow
@settings(max_examples=8, deadline=None, phases=[Phase.generate])
@given(data=st.data())
def test_no_mix_of_reports_breaks_the_bound(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bounded")

    async def fill() -> None:
        bounded = config.HistoryConfig(
            path=str(folder / "history.db"), max_size_bytes=BOUND, retention_hours=1.0
        )
        sequence, at = 0, START
        async with open_sqlite(bounded) as history:
            for _ in range(data.draw(st.integers(5, 12))):
                many, fresh = data.draw(st.integers(0, 200)), data.draw(st.integers(0, 4)) == 0
                at += data.draw(st.floats(1, 2 * HOUR))
                batch = []
                for _ in range(data.draw(st.integers(1, 10))):
                    sequence += 1
                    life = sequence if fresh else 0
                    containers = [container(f"c{place}-{life}") for place in range(many)]
                    batch.append(report(sequence=sequence, at=at, containers=containers))
                await history.add(batch, at)
                assert history.stats().size_bytes <= BOUND
                if data.draw(st.booleans()):
                    await history.apply_retention(at)
                    assert history.stats().size_bytes <= BOUND
            assert len((await history.load_state()).reports) >= 1

    asyncio.run(fill())


@pytest.mark.slow
async def test_a_smaller_bound_shrinks_the_file_when_it_is_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    async with open_sqlite(config.HistoryConfig(path=path, max_size_bytes=1 << 30)) as history:
        containers = [container(f"c{place}") for place in range(200)]
        for number in range(1, 1001):
            await history.add([report(sequence=number, containers=containers)], START + number)
        before_bytes = history.stats().size_bytes
    async with open_sqlite(config.HistoryConfig(path=path, max_size_bytes=BOUND)) as history:
        assert before_bytes > BOUND
        assert history.stats().size_bytes <= BOUND
        await history.add([report(sequence=2000)], START + 2000)
        assert history.stats().size_bytes <= BOUND


async def test_rollups_go_after_their_own_time(tmp_path: Path) -> None:
    kept = config.HistoryConfig(
        path=str(tmp_path / "history.db"), retention_hours=0.5, detail_days=0.1, hourly_days=0.5
    )
    async with open_sqlite(kept) as history:
        for number in range(49):
            at = START + 300 * number
            await history.add([report(sequence=number + 1, at=at, containers=[container()])], at)

        async def steps(now: float) -> list[float]:
            """The step of the series in the first hour."""
            await history.apply_retention(now)
            series = await history.series(SubjectKind.NODE, "alpha", START, START + HOUR, 300.0)
            return [series.step_seconds] if series.points else []

        assert await steps(START + 2 * HOUR) == [300.0]
        assert await steps(START + 5 * HOUR) == [3600.0]
        assert await steps(START + 20 * HOUR) == []
        assert await history.energy(START, START + 4 * HOUR, GroupBy.NODE) == []
