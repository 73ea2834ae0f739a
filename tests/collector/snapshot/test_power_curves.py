"""Many curves as one array."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.snapshot.power_curves import GRID, PowerCurves
from wire.messages import PowerCurve, PowerSource

CURVE = PowerCurve(
    source=PowerSource.MODEL,
    error_ratio=0.1,
    idle_watts=20.0,
    cpu_ratios=(0.0, 0.5, 1.0),
    cpu_watts=(0.0, 30.0, 40.0),
    memory_watts=8.0,
    disk_watts=3.0,
    network_watts=2.0,
)
NAN = float("nan")


@pytest.mark.parametrize(
    ("ratios", "watts"),
    [
        ((0.0, 0.0, 0.0, 0.0), 20.0),
        ((0.25, 0.0, 0.0, 0.0), 35.0),
        ((1.0, 1.0, 1.0, 1.0), 73.0),
        ((0.5, NAN, NAN, 0.5), 51.0),
        ((2.0, 0.0, 0.0, 0.0), 60.0),
        ((-1.0, 0.0, 0.0, 0.0), 20.0),
    ],
)
def test_watts_are_those_of_the_curve(ratios: tuple[float, ...], watts: float) -> None:
    assert PowerCurves.of([CURVE]).watts(np.array([ratios])) == pytest.approx([watts])


@given(st.floats(0, 1))
def test_between_its_points_a_curve_is_straight(cpu: float) -> None:
    expected = 20.0 + np.interp(cpu, CURVE.cpu_ratios, CURVE.cpu_watts)
    assert PowerCurves.of([CURVE]).watts(np.array([[cpu, 0.0, 0.0, 0.0]])) == pytest.approx([expected])


def test_without_a_curve_the_power_is_unknown() -> None:
    curves = PowerCurves.of([None, CURVE])
    assert np.isnan(curves.idle_watts).tolist() == [True, False]
    watts = curves.watts(np.zeros((2, 4)))
    assert np.isnan(watts[0])
    assert watts[1] == 20.0


def test_rows_may_be_in_any_order() -> None:
    curves = PowerCurves.of([None, CURVE])
    watts = curves.watts(np.array([[0.5, 0, 0, 0], [0, 0, 0, 0], [1.0, 0, 0, 0]]), np.array([1, 1, 1]))
    assert watts == pytest.approx([50.0, 20.0, 60.0])


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 4), min_size=2, max_size=5))
def test_the_power_of_a_node_does_not_depend_on_the_other_rows(ratios: list[tuple[float, ...]]) -> None:
    curves, table = PowerCurves.of([CURVE] * len(ratios)), np.asfortranarray(ratios)
    alone = [curves.watts(table[row : row + 1], np.array([row])).item() for row in range(len(ratios))]
    assert curves.watts(table).tolist() == alone


def test_the_grid_covers_all_ratios() -> None:
    assert GRID[0] == 0.0
    assert GRID[-1] == 1.0
    assert (np.diff(GRID) > 0).all()
    assert np.diff(GRID).max() <= 0.05 + 1e-12
