"""The transitions of an instance as bytes."""

from hypothesis import given
from hypothesis import strategies as st

from collector.features.promises.ledger.events import Ending, LifecycleKind, Transition
from collector.features.promises.ledger.transitions import (
    NodeNames,
    add_transition,
    count_transitions,
    newest_at,
    read_transitions,
)

INCARNATIONS = ("a", "b", "")
TRANSITIONS = st.builds(
    Transition,
    at=st.integers(0, 5).map(float),
    kind=st.sampled_from(LifecycleKind),
    incarnation=st.sampled_from(INCARNATIONS),
    node=st.sampled_from(["", "n1", "n2"]),
    startup_seconds=st.none() | st.just(2.5),
    ending=st.none() | st.sampled_from(Ending),
)


@given(new=st.lists(TRANSITIONS, max_size=20))
def test_each_transition_is_there_once_and_in_order(new: list[Transition]) -> None:
    packed, nodes, expected = b"", NodeNames(), list[Transition]()
    for each in new:
        more = add_transition(packed, each, INCARNATIONS.index(each.incarnation), nodes.number(each.node))
        assert (more is None) == (each in expected)
        if more is not None:
            packed = more
            expected.append(each)
        found = list(read_transitions(packed, INCARNATIONS, nodes))
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
        assert [each.at for each in found] == sorted(each.at for each in expected)
        assert count_transitions(packed) == len(expected)
        assert newest_at(packed) == max(each.at for each in expected)
