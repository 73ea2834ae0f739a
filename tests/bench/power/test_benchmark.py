import argparse
import gzip
import io
from dataclasses import replace
from pathlib import Path

import pytest

from bench.common.progress import Progress
from bench.common.requirements import check
from bench.common.results import Result
from bench.power import benchmark as power
from bench.power.changes import follow
from bench.power.generated import MACHINES
from tests.powermodels.fits import metered


@pytest.fixture(autouse=True)
def few_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated machines take a minute; one run and one machine show that they are there."""
    monkeypatch.setattr(power, "follow_all", lambda _: {"fan on": follow("fan on", 0)})
    monkeypatch.setattr(power, "MACHINES", [each for each in MACHINES if each.name == "few samples"])


def run(*arguments: str) -> Result:
    parser = argparse.ArgumentParser()
    power.add_arguments(parser)
    options = parser.parse_args(arguments)
    options.left_out = check(power.needs(options), lambda _: None)
    return replace(power.run(options, Progress(io.StringIO())), left_out=options.left_out)


@pytest.mark.slow
def test_without_recordings_the_prior_is_still_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATTPACK_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    result = run("--data", str(tmp_path))
    assert list(result.left_out) == ["opteron-6140", "xeon-e5-2640", "xeon-x5650"]
    assert "opteron-6140 is not installed: download it from https" in result.left_out["opteron-6140"]
    kinds = {figure.name.split("_")[0] for figure in result.figures}
    assert kinds == {"adaptive", "generated", "prior"}


@pytest.mark.slow
def test_every_bound_is_judged_on_recordings(tmp_path: Path) -> None:
    lines = ["workload,timestamp,watts,cpu_idle"]
    for seed, workload in enumerate(("micro_disk", "web", "batch")):
        samples = metered(60, workload, seed=seed)
        lines += [f"{s.group},{s.seconds},{s.watts},{100 - 100 * s.load.cpu_ratio}" for s in samples]
    (tmp_path / "xeon-x5650.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    result = run("--data", str(tmp_path), "--machines", "xeon-x5650")
    bounded = {figure.name for figure in result.figures if (figure.at_most, figure.at_least) != (None, None)}
    assert bounded == {
        "unseen_mape",
        "unseen_actual_over_stated_xeon-x5650",
        "adaptive_minutes_under_3_percent",
        "generated_few_samples",
        "blind20_mape",
        "metered_over_persistence",
        "unseen_outside_bounds",
        "blind20_outside_bounds",
        "metered_outside_bounds",
        "prior_error",
    }
    assert {"unseen_mape_of_two-point_line", "prior_error_of_cubic_formula"} <= {
        f.name for f in result.figures
    }
