"""Counts of points at which something is wrong."""

import io
from pathlib import Path
from typing import cast

from bench.common.progress import Progress
from bench.interrupted import run_all
from tests.lab.engines.swarm import Swarm


async def _passes(_cluster: Swarm, _folder: Path) -> None:
    pass


async def _fails(_cluster: Swarm, _folder: Path) -> None:
    raise TimeoutError("it runs twice")


def test_a_failed_point_is_counted_and_the_others_are_tried() -> None:
    attempts = {"hosts/move-before-2": _fails, "hosts/move-after-2": _passes, "hosts/stop-before-2": _fails}
    output = io.StringIO()
    (count, _), wrong = run_all("hosts", attempts, cast("Swarm", None), Progress(output))
    assert (count.value, count.unit, count.ok) == (2, "of 3 points", False)
    assert wrong == ["hosts/move-before-2", "hosts/stop-before-2"]
    assert "it runs twice" in output.getvalue()
