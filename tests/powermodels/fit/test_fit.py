import io
import subprocess
import sys
from dataclasses import replace
from math import sqrt
from typing import Literal, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powermodels.common.interface import Load
from powermodels.fit.__main__ import main
from powermodels.fit.arrays import thinned, weighted, workloads_of
from powermodels.fit.fitting import EXTRA, fit, fitter_of
from powermodels.fit.forms import SHAPES, Form, _extended, fit_shapes
from powermodels.models.regression import CurveModel, Point, check_rising
from powermodels.models.samples import FitRequest, Kind, Sample
from powermodels.models.stored import decode
from tests.powermodels.fits import MADE, loads, metered, ratios, true_watts, watts
from wire.errors import UserError

SOMEWHERE = Load(0.3, 0.5, 0.1, 0.2)


def request(samples: list[Sample], **kwargs: object) -> FitRequest:
    return msgspec.structs.replace(FitRequest(samples=tuple(samples), host="h"), **kwargs)


@pytest.mark.slow
def test_a_curve_finds_the_machine_behind_the_samples() -> None:
    model = fit(request(metered(noise_ratio=0.02)), MADE)
    assert isinstance(model, CurveModel)
    assert model.idle_watts == pytest.approx(100, abs=3)
    assert model.terms(SOMEWHERE).watts == pytest.approx(true_watts(SOMEWHERE), rel=0.01)
    assert model.error_ratio == pytest.approx(0.01, abs=0.005)
    assert model.origin.training.samples == 200
    assert model.origin.host == "h"


def test_an_odd_workload_is_in_the_stated_error() -> None:
    usual = [*metered(group="a"), *metered(group="b", seed=2), *metered(group="c", seed=3)]
    odd = [msgspec.structs.replace(sample, watts=2 * sample.watts) for sample in metered(40, "odd", seed=4)]
    assert fit(request(usual), MADE).error_ratio < 0.03
    assert fit(request([*usual, *odd]), MADE).error_ratio > 0.2


def test_workloads_have_equal_weights_except_the_current_one() -> None:
    workloads = workloads_of([*metered(30, "a"), *metered(10, "b"), *metered(5, "now")])

    def weights(current: int | None, weight: float = 1.0) -> list[float]:
        return [
            float((each.sample_weights * each.watts**2).sum())
            for each in weighted(workloads, current, weight)
        ]

    assert weights(None) == pytest.approx([1, 1, 1])
    assert weights(2) == pytest.approx([1, 1, 2])
    assert weights(2, 4.0) == pytest.approx([1, 1, 8])


def test_thinning_keeps_both_ends_nearly() -> None:
    assert len(thinned(metered(10), 100)) == 10
    seconds = [sample.seconds for sample in thinned(metered(1000), 100)]
    assert len(seconds) == 100
    assert (seconds[0], seconds[-1]) == (0, 4950)


def test_fit_is_judged_by_the_watts_of_its_model() -> None:
    samples = [*metered(group="a"), *metered(group="b", seed=2, noise_ratio=0.1)]
    for kind in get_args(Kind):
        model = fit(request(samples, kind=kind), MADE)
        workloads = workloads_of(samples)
        fitted = fitter_of(kind, workloads, cycles_known=False)(workloads)
        for workload, group in zip(workloads, ("a", "b"), strict=True):
            expected = [model.terms(sample.load).watts for sample in samples if sample.group == group]
            assert list(fitted.predict(workload)) == pytest.approx(expected)


@pytest.mark.slow
def test_frequency_is_used_if_it_reduces_the_error() -> None:
    def slowed(sample: Sample, frequency_ratio: float) -> Sample:
        used = frequency_ratio * sample.load.cpu_ratio
        load = replace(sample.load, frequency_ratio=frequency_ratio, disk_ratio=0.0, network_ratio=0.0)
        return Sample(sample.seconds, 100 + 60 * used + 80 * sqrt(used), load, sample.group)

    samples = [slowed(sample, (0.4, 0.7, 1.0)[index % 3]) for index, sample in enumerate(metered())]
    model = fit(request(samples), MADE)
    assert isinstance(model, CurveModel)
    assert model.by_cycles
    assert model.error_ratio < 0.01


# Few different loads, most of them next to a point of the grid or next to nothing: rounding shows there.
edges = st.sampled_from([0.0, 5e-324, 1e-16, 1e-9, 1e-4, 0.0025, 0.2500000000000001, 0.81, 1 - 1e-16, 1.0])
edge_loads = st.builds(Load, edges | ratios, *(st.none() | edges | ratios for _ in range(4)))
edge_samples = st.builds(
    Sample, st.floats(0, 1e9), watts | st.sampled_from([0.0, 1e-9, 1.0, 5000.0]), edge_loads
)


@given(st.lists(edge_samples, min_size=2, max_size=30), st.sampled_from(["cpu", "cycles"]))
def test_every_form_of_any_samples_is_a_valid_curve(
    samples: list[Sample], cpu: Literal["cpu", "cycles"]
) -> None:
    workloads = workloads_of(samples)
    for extra in ((), EXTRA):
        for fitted in fit_shapes(workloads, Form(cpu=cpu, extra=extra), SHAPES).values():
            check_rising(fitted.points)
            assert min(fitted.idle_watts, *fitted.coefficients_watts) >= 0
            for workload in workloads:
                assert (fitted.predict(workload) >= 0).all()


def test_a_curve_rises_next_to_a_point_of_its_grid() -> None:
    """The formula is five orders larger than the table, and its difference smaller than its rounding."""
    check_rising(_extended((Point(0.25000000000000006, 0.1),), 1e4, 1e4))


# A fit with its choice and stated error takes a second; the forms above are what can fail.
@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.lists(st.builds(Sample, st.floats(0, 1e9), watts, loads), min_size=10, max_size=40))
def test_any_samples_make_a_model_within_their_bounds(samples: list[Sample]) -> None:
    highest_watts = max(sample.watts for sample in samples)
    for kind in get_args(Kind):
        model = fit(request(samples, kind=kind), MADE)
        for load in (Load(0.0), SOMEWHERE, Load(1.0, 1.0, 1.0, 1.0, 1.0)):
            assert 0 <= model.terms(load).watts <= 1.1 * highest_watts * (1 + 1e-9) + 1e-9


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(UserError, match="9 samples are too few"):
        fit(request(metered(9)), MADE)
    with pytest.raises(UserError, match="without a number"):
        fit(request([*metered(20), Sample(0.0, 100.0, Load(float("nan")))]), MADE)


@pytest.mark.slow
def test_the_child_reads_a_request_writes_a_model_and_ends() -> None:
    child = subprocess.run(
        [sys.executable, "-m", "powermodels.fit"],
        input=msgspec.json.encode(request(metered())),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert decode(child.stdout).terms(SOMEWHERE).watts == pytest.approx(true_watts(SOMEWHERE), rel=0.01)
    assert child.stderr == b""


@pytest.mark.parametrize("content", [b"", b"{}", b'{"samples": []', b'{"samples": [], "host": ""}'])
def test_what_cannot_be_fitted_ends_with_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main() == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("fit: ")
