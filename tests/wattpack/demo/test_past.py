import itertools
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.outages import Outages
from collector.history.interface import GroupBy, SubjectKind
from collector.history.sqlite.history import open_history
from wattpack.demo.agents import DemoAgents
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.past import DAY_SECONDS, FINE_SECONDS, HOUR_SECONDS, PastPlan, write_past
from wattpack.demo.run import demo_config
from wattpack.demo.shop import make_shop


@given(
    starts_at=st.floats(1.7e9, 2e9),
    days=st.floats(0, 366),
    subjects=st.integers(2, 51_000),
)
def test_means_end_where_reports_begin(starts_at: float, days: float, subjects: int) -> None:
    plan = PastPlan.of(starts_at, days, subjects)
    times, buckets = plan.report_times(), list(plan.buckets())
    assert times[0] == plan.reports_from
    assert times[-1] < starts_at
    assert starts_at - times[-1] <= plan.report_seconds
    for step in (HOUR_SECONDS, FINE_SECONDS):
        mine = [(begin, end) for each, _, begin, end in buckets if each == step]
        assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(mine))
        assert not mine or mine[-1][1] == plan.reports_from


@pytest.mark.slow
async def test_the_past_has_energy_that_adds_up_and_series(tmp_path: Path) -> None:
    now, days = time.time(), 3
    shop = make_shop(7, 5, 40)
    config = demo_config(shop, tmp_path / "collector.db", "127.0.0.1:0")
    agents = DemoAgents(DemoCluster(shop, now), 5.0)
    shown: list[float] = []
    sampled_at = await write_past(config, agents, days, shown.append, clock=lambda: now)
    assert sampled_at == now
    assert shown == sorted(shown)
    async with open_history(config, Outages()) as history:
        await history.apply_retention(now)
        start = now - 2 * DAY_SECONDS
        by_node = await history.energy(start, now, GroupBy.NODE)
        by_service = await history.energy(start, now, GroupBy.SERVICE)
        assert {each.key for each in by_node} == {each.name for each in shop.nodes}
        assert sum(each.containers_joules or 0.0 for each in by_node) == pytest.approx(
            sum(each.joules for each in by_service), rel=0.01
        )
        hours = [
            sum(each.joules for each in await history.energy(at, at + 3600, GroupBy.NODE)) / 3600
            for at in (now - 30 * 3600, now - 5 * 3600, now - 2400 - 3600)
        ]
        least, most = min(hours), max(hours)
        assert 0 < most < 3 * least
        for span, step in ((3600, 60), (DAY_SECONDS, 300), (days * DAY_SECONDS, 3600)):
            series = await history.series(SubjectKind.NODE, shop.nodes[0].name, now - span, now, step)
            assert len(series.points) > 0.9 * span / step
            assert all(point.mean_watts for point in series.points)
            assert all(point.mean_pressure.cpu_ratio is not None for point in series.points)
