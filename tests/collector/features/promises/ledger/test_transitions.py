"""Chains of transitions in one pool."""

from hypothesis import given
from hypothesis import strategies as st

from collector.features.promises.ledger.transitions import NO_CHAIN, PackedTransition, TransitionPool

TRANSITIONS = st.builds(
    PackedTransition,
    at=st.integers(0, 5).map(float),
    codes=st.integers(0, 3),
    startup_seconds=st.just(-1.0),
)


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.none() | TRANSITIONS), max_size=60))
def test_a_chain_has_each_of_its_transitions_once_and_in_order(
    steps: list[tuple[int, PackedTransition | None]],
) -> None:
    pool, chains = TransitionPool(), [NO_CHAIN] * 3
    expected: list[set[PackedTransition]] = [set(), set(), set()]
    for number, new in steps:
        if new is None:
            pool.release(chains[number])
            chains[number] = NO_CHAIN
            expected[number] = set()
        else:
            chain = pool.add(chains[number], new)
            assert (chain is None) == (new in expected[number])
            chains[number] = chains[number] if chain is None else chain
            expected[number].add(new)
        for one, content in zip(chains, expected, strict=True):
            found = list(pool.walk(one))
            assert len(found) == len(content)
            assert set(found) == content
            assert [each.at for each in found] == sorted((each.at for each in content), reverse=True)
            assert pool.newest_at(one) == max((each.at for each in content), default=float("-inf"))
