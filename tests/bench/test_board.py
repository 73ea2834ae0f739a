import argparse
import io

import pytest

from bench import board
from bench.common.progress import Progress


@pytest.mark.slow
def test_reports_and_snapshots_are_measured_at_each_size() -> None:
    options = argparse.Namespace(sizes=["3x4", "5x2"])
    result = board.run(options, Progress(io.StringIO()))
    assert result.ok
    measured = {figure.name: figure.value or 0.0 for figure in result.figures}
    expected = ("first_report", "news", "snapshot", "report_beside_snapshots_p99")
    assert set(measured) == {f"{what}_{size}" for what in expected for size in options.sizes}
    assert all(value > 0 for value in measured.values())
