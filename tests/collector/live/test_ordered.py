import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from collector.live import ordered
from collector.live.ordered import OrderedLists

_keys = st.sampled_from([f"k{number}" for number in range(12)])
_names = st.sampled_from(["one", "two"])
_weights = st.sampled_from([0.0, 0.25, 0.5, 1.0, math.inf, -1.0])


class Moves(RuleBasedStateMachine):
    """Whatever comes, goes and moves: each list is as if it were sorted anew."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: OrderedLists[str, str] = OrderedLists()
        self.truth: dict[str, tuple[str, float]] = {}

    @rule(key=_keys, name=_names, weight=_weights)
    def put(self, key: str, name: str, weight: float) -> None:
        self.lists.put(key, name, weight)
        self.truth[key] = (name, weight)

    @rule(key=_keys)
    def drop(self, key: str) -> None:
        self.lists.drop(key)
        self.truth.pop(key, None)

    @invariant()
    def is_in_order(self) -> None:
        for name in ("one", "two", "none"):
            expected = sorted((weight, key) for key, (where, weight) in self.truth.items() if where == name)
            assert list(self.lists.listed(name)) == [key for _, key in expected]
        assert all(self.lists.where(key) == where for key, where in self.truth.items())


TestMoves = Moves.TestCase


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=200))
def test_short_runs_split_and_vanish_as_long_ones_do(moves: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "_LONGEST_RUN", 3)
        lists: OrderedLists[str, int] = OrderedLists()
        truth: dict[int, int] = {}
        for key, weight in moves:
            if weight == 9:
                lists.drop(key)
                truth.pop(key, None)
            else:
                lists.put(key, "all", weight)
                truth[key] = weight
        assert list(lists.listed("all")) == sorted(truth, key=lambda key: (truth[key], key))
        assert all(0 < len(run) <= 3 for runs in lists._lists.values() for run in runs.runs)
