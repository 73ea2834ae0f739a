"""The correction of a curve learns from readings whether a change is even or local."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.models.adaptive import Correction, CorrectionSums

FULL_WATTS = 100.0


def learned(residuals: dict[float, float], rounds: int = 5) -> Correction:
    """From readings at some roots of CPU usage, on a curve that is linear in them."""
    sums = CorrectionSums(FULL_WATTS)
    for number in range(rounds):
        for place, (root, residual) in enumerate(residuals.items()):
            sums.add(3.0 * (number * len(residuals) + place), root, FULL_WATTS * root, residual)
    return sums.correction


def watts_at(correction: Correction, root: float) -> float:
    return correction.even_watts(FULL_WATTS * root) + correction.local_watts(root)


def test_an_even_change_reaches_loads_without_readings() -> None:
    correction = learned({root: 10.0 + 20.0 * root for root in (0.1, 0.3, 0.5, 0.7)})
    # It would be 30 W with readings at all loads.
    assert 20 < watts_at(correction, 1.0) < 31


def test_a_local_change_stays_where_it_is() -> None:
    changed = {root: (12.0 if root == 0.5 else 0.0) for root in (0.1, 0.3, 0.5, 0.7, 0.9)}
    correction = learned(changed)
    assert watts_at(correction, 0.5) > 5.0
    assert all(abs(watts_at(correction, root)) < 2.5 for root in (0.1, 0.3, 0.7, 0.9))


residuals = st.dictionaries(st.floats(0, 1), st.floats(-5, 5), min_size=1, max_size=12)


@given(residuals, st.floats(0.01, 5))
def test_units_do_not_matter(changed: dict[float, float], factor: float) -> None:
    """The same readings in other units give the same correction in these: no number of watts is built in."""
    plain = learned(changed)
    scaled = learned({root: factor * watts for root, watts in changed.items()})
    if plain.gain > -0.5 and scaled.gain > -0.5:
        assert watts_at(scaled, 0.4) == pytest.approx(factor * watts_at(plain, 0.4), rel=1e-6, abs=1e-6)


@given(residuals)
def test_any_readings_give_a_correction_within_their_range(changed: dict[float, float]) -> None:
    correction = learned(changed)
    largest = max(map(abs, changed.values()))
    assert all(abs(watts_at(correction, root)) <= 1.5 * largest + 1e-9 for root in changed)
