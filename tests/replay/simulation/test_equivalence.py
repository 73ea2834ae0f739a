"""The same reports make the same snapshot and the same plans, live and in replay."""

import pytest

from bench.replay.equivalence import compare_collectors


@pytest.mark.slow
async def test_two_hours_of_reports_over_http_and_in_replay_give_the_same_columns_and_plans() -> None:
    found = await compare_collectors(hours=2.0, hosts=12, containers=100, sample_seconds=15.0)
    assert found.reports > 1000
    assert found.plans == 24
    assert found.actions > 0
    assert found.different_columns == set()
    assert found.different_plans == []
