import pytest
from hypothesis import given

from powermodels.common.interface import Load
from powermodels.models.what_if import add
from tests.powermodels.fits import curve, loads
from wire.resources import Resource


def test_envelope_adds_the_difference_of_the_model() -> None:
    model = curve(100.0, {"cpu": 60.0, "cpu_sqrt": 80.0, "network_sqrt": 10.0})
    addition = add(model, Load(0.16, network_ratio=0.0), Load(0.2, network_ratio=0.25))
    assert addition.added_watts == pytest.approx(0.2 * 60 + (0.6 - 0.4) * 80 + 0.5 * 10)
    assert addition.error_watts == pytest.approx(0.05 * addition.added_watts)
    assert addition.exceeded == ()


def test_the_same_envelope_adds_less_to_a_busy_node() -> None:
    model = curve()
    idle, busy = (add(model, Load(ratio), Load(0.1)).added_watts for ratio in (0.0, 0.6))
    assert idle > 2 * busy > 0


def test_exceeded_resources_are_named() -> None:
    addition = add(curve(), Load(0.8, 0.9), Load(0.3, 0.3))
    assert addition.exceeded == (Resource.CPU, Resource.MEMORY)
    assert addition.after_watts == pytest.approx(240)


def test_unknown_resource_adds_nothing() -> None:
    model = curve(100.0, {"network_sqrt": 10.0})
    assert add(model, Load(0.0), Load(0.0, network_ratio=1.0)).added_watts == 0


@given(loads, loads)
def test_nothing_makes_a_node_draw_less(load: Load, envelope: Load) -> None:
    assert add(curve(), load, envelope).added_watts >= 0
