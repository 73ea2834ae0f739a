import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.sketch import RELATIVE_ERROR, Sketch, merged

values = st.lists(st.floats(1e-6, 1e15), min_size=1, max_size=200)


def sketch(samples: list[float]) -> Sketch:
    made = Sketch()
    for sample in samples:
        made.add(sample)
    return made


def nearest_rank(samples: list[float], q: float) -> float:
    return sorted(samples)[max(1, math.ceil(q * len(samples))) - 1]


@given(values, st.floats(0, 1))
def test_any_quantile_is_within_one_percent_of_the_sample_at_its_rank(samples: list[float], q: float) -> None:
    assert sketch(samples).quantile(q) == pytest.approx(nearest_rank(samples, q), rel=RELATIVE_ERROR * 1.001)


@given(values, values, values)
def test_merge_equals_one_sketch_of_all_samples_in_any_order(
    a: list[float], b: list[float], c: list[float]
) -> None:
    assert (
        merged([sketch(a), sketch(b), sketch(c)]) == merged([sketch(c), sketch(a + b)]) == sketch(a + b + c)
    )


@given(values)
def test_it_comes_back_from_the_wire_as_it_was(samples: list[float]) -> None:
    made = sketch(samples)
    assert msgspec.json.decode(msgspec.json.encode(made), type=Sketch) == made


def test_what_is_below_the_floor_counts_as_nothing_used() -> None:
    made = Sketch()
    for value in (0.0, -1.0, 0.0004, 2.0):
        made.add(value, floor=0.001)
    assert (made.zeros, made.count) == (3, 4)
    assert made.quantile(0.5) == 0.0
    assert made.quantile(0.9) == pytest.approx(2.0, rel=RELATIVE_ERROR)


def test_without_samples_nothing_is_known() -> None:
    assert Sketch().quantile(0.9) is None
