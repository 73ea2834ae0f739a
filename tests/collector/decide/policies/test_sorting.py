"""The stable sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decide.policies import scoring
from collector.decide.policies.scoring import stable_argsort

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324])


@given(st.lists(NUMBERS, max_size=60))
def test_the_lowest_comes_first_and_of_equals_the_first(values: list[float]) -> None:
    column = np.array(values, dtype=np.float64)
    expected = np.argsort(column, kind="stable").tolist()
    assert stable_argsort(column).tolist() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "_FEW", 0)
        assert stable_argsort(column).tolist() == expected
        assert stable_argsort(-column).tolist() == np.argsort(-column, kind="stable").tolist()


def test_many_are_sorted_as_few_are() -> None:
    generator = np.random.default_rng(4)
    for column in (generator.normal(size=5000), np.floor(generator.normal(size=5000) * 9)):
        assert stable_argsort(column).tolist() == np.argsort(column, kind="stable").tolist()
