import argparse

import pytest

from bench.common.progress import Progress
from bench.swarm.benchmark import run
from bench.swarm.stability import ten_minutes
from wire.errors import UserError


def test_an_unknown_scenario_is_an_error_before_a_swarm_starts() -> None:
    options = argparse.Namespace(only=["hogs"], watch_seconds=1.0)
    with pytest.raises(UserError, match=r"there is no scenario 'hogs': choose from hog, .*, ten-minutes"):
        run(options, Progress())


@pytest.mark.slow
def test_ten_simulated_minutes_have_many_alerts_and_one_move() -> None:
    assert [figure for figure in ten_minutes() if not figure.ok] == []
