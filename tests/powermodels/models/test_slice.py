import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.common.interface import HostFacts, Load
from powermodels.estimator import Estimator
from wire.resources import Quantities

MACHINE = HostFacts("Some CPU", 1, 8, 8, 16 << 30)


def estimator(*, is_slice: bool) -> Estimator:
    return Estimator(MACHINE, is_slice=is_slice)


@given(cpu_ratio=st.floats(0, 1), memory_ratio=st.floats(0, 1), slices=st.integers(1, 8))
def test_slices_of_a_machine_draw_together_what_it_draws(
    cpu_ratio: float, memory_ratio: float, slices: int
) -> None:
    load = Load(cpu_ratio, memory_ratio)
    whole = estimator(is_slice=False).estimate(1.0, load, {}, capacity=Quantities(8.0, 16 << 30))
    part = estimator(is_slice=True)
    one = part.estimate(1.0, load, {}, capacity=Quantities(8.0 / slices, (16 << 30) // slices))
    assert slices * one.watts == pytest.approx(whole.watts)
    assert slices * one.idle_watts == pytest.approx(whole.idle_watts)
    assert one.error_ratio > whole.error_ratio
    assert part.machine_model.terms(load).watts == pytest.approx(one.watts)


def test_a_slice_without_limits_is_the_machine() -> None:
    part = estimator(is_slice=True)
    whole = estimator(is_slice=False).estimate(1.0, Load(0.5), {})
    assert part.estimate(1.0, Load(0.5), {}).watts == whole.watts


def test_a_slice_follows_its_limit() -> None:
    part = estimator(is_slice=True)
    watts = [part.estimate(1.0, Load(0.0), {}, capacity=Quantities(cores)).watts for cores in (2.0, 4.0)]
    assert watts[1] == pytest.approx(2 * watts[0])
    assert part.describe()[0].startswith("power: 50% of the machine, by its CPU limit; ")
