import argparse

import pytest

from bench.common.progress import Progress
from bench.swarm.benchmark import run
from bench.swarm.stability import ten_minutes
from wire.errors import UserError


def test_a_scenario_that_there_is_not_is_named_before_any_swarm_is_started() -> None:
    options = argparse.Namespace(only=["hogs"], watch_seconds=1.0)
    with pytest.raises(UserError, match=r"there is no 'hogs': choose of hog, .*, ten-minutes"):
        run(options, Progress())


@pytest.mark.slow
def test_ten_simulated_minutes_have_many_alerts_and_one_move() -> None:
    assert [figure for figure in ten_minutes() if not figure.ok] == []
