import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.common.interface import HostFacts, Load
from powermodels.models.prior import PriorModel
from powermodels.models.wire_curve import PowerCurveModel, power_curve_of
from wire.messages import PowerCurve, PowerSource, encode

PRIOR = PriorModel.for_host(HostFacts("AMD EPYC 7742", 2, 128, 256, 512 << 30))
ratios = st.floats(0, 1)


@given(st.builds(Load, ratios, ratios, ratios, ratios))
def test_reported_curve_matches_the_model(load: Load) -> None:
    assert PowerCurveModel(power_curve_of(PRIOR)).terms(load).watts == pytest.approx(
        PRIOR.terms(load).watts, rel=0.01
    )


@given(st.builds(Load, st.floats(-1, 5), st.none(), st.none(), st.none()))
def test_beyond_full_use_it_draws_what_full_use_draws(load: Load) -> None:
    model = PowerCurveModel(power_curve_of(PRIOR))
    full = model.terms(Load(1.0)).watts
    assert model.curve.idle_watts <= model.terms(load).watts <= full + 1e-9


def test_a_curve_takes_a_few_hundred_bytes() -> None:
    assert len(encode(power_curve_of(PRIOR))) < 450


def test_points_without_watts_are_ignored() -> None:
    curve = PowerCurve(PowerSource.MODEL, 0.1, 10.0, cpu_ratios=(0.0, 0.5, 0.5, 1.0), cpu_watts=(0.0, 5.0))
    assert PowerCurveModel(curve).terms(Load(0.7)).watts == pytest.approx(15.0)
