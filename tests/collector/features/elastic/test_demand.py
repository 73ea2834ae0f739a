"""The demand that is expected of a service."""

from hypothesis import given
from hypothesis import strategies as st

from collector.features.elastic.scaling.demand import CpuDemand, Expected, forecast_demand, observe_demand

_SECONDS = 10.0


def _expect(demands: list[float]) -> Expected:
    """Observe demands at equal times, each with a forecast over two intervals; return the last."""
    demand, expected = CpuDemand(), None
    for place, cores in enumerate(demands):
        demand = observe_demand(demand, 1e9 + place * _SECONDS, cores, 2.5 * _SECONDS)
        demand, expected = forecast_demand(demand, 2 * _SECONDS)
    assert expected is not None
    return expected


def test_a_step_after_some_noise_is_not_expected_to_vanish() -> None:
    """The noise falls back each time: a line through it expects that a tenfold demand falls tenfold."""
    noise = [0.04, 0.044, 0.04, 0.045, 0.04, 0.043, 0.04]
    assert _expect([*noise, 0.4]).cores > 0.3


@given(st.lists(st.floats(0.001, 20.0), min_size=1, max_size=20))
def test_the_present_demand_is_part_of_what_is_expected(demands: list[float]) -> None:
    """Replicas that are taken away because demand falls are missing at once."""
    assert _expect(demands).cores >= demands[-1] * (1 - 1e-9)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=20))
def test_no_more_than_a_tenfold_growth_is_expected(demands: list[float]) -> None:
    assert _expect(demands).cores < max(demands[-1], 0.001) * 10.1


def test_a_regular_growth_is_expected_to_go_on() -> None:
    assert _expect([0.5 * 1.2**each for each in range(12)]).cores > 1.2 * 0.5 * 1.2**11
