from hypothesis import given
from hypothesis import strategies as st

from collector.act.records import Step
from collector.act.steps import batches, failed_prerequisite, will_run
from collector.decide.policies.actions import Action, Kill, Move, PowerOn, Start, affected_nodes

WHY = ("because",)


def stop(number: int, node: str) -> Action:
    return Kill(task=f"c{number}", node=node, target=None, reasons=WHY)


def start(number: int, node: str) -> Action:
    return Start(task=f"c{number}", target=node, reasons=WHY)


def move(number: int, node: str, target: str) -> Action:
    return Move(task=f"c{number}", node=node, target=target, reasons=WHY)


def test_stops_that_keep_promises_run_at_once_and_then_the_starts_that_they_make_room_for() -> None:
    actions = [stop(0, "a"), start(1, "a"), stop(2, "b"), stop(3, "b"), start(4, "b"), start(5, "c")]
    steps = [Step(action=action, keeps_promises=True) for action in actions]
    assert list(batches(steps, 1)) == [[0, 2, 3, 5], [1, 4]]
    # Without a promise they come one after the other.
    assert list(batches([Step(action=action) for action in actions], 9)) == [[0], [1], [2], [3], [4], [5]]


def test_consecutive_moves_run_at_once_up_to_a_limit() -> None:
    moves = [move(number, f"a{number}", f"b{number}") for number in range(3)]
    steps = [Step(action=action) for action in (*moves, stop(3, "a3"), move(4, "a4", "b4"))]
    assert list(batches(steps, 2)) == [[0, 1], [2], [3], [4]]


def test_moves_from_or_to_the_same_node_follow_one_another() -> None:
    """A step runs only after the earlier ones on its nodes."""
    moves = [move(0, "a", "b"), move(1, "a", "c"), move(2, "d", "e"), move(3, "f", "e")]
    steps = [Step(action=action) for action in moves]
    assert list(batches(steps, 9)) == [[0], [1, 2], [3]]


actions = st.lists(
    st.builds(
        lambda is_stop, number, node: (stop if is_stop else start)(number, node),
        st.booleans(),
        st.integers(0, 99),
        st.sampled_from("abcd"),
    ),
    max_size=12,
)


@given(actions=actions)
def test_every_step_is_in_one_batch_and_after_those_that_it_needs(actions: list[Action]) -> None:
    steps = [Step(action=action, keeps_promises=True) for action in actions]
    order = list(batches(steps, 1))
    assert sorted(place for batch in order for place in batch) == list(range(len(steps)))
    for batch in order:
        kinds = {(*affected_nodes(actions[place]), actions[place].kind) for place in batch}
        assert len({node for node, _ in kinds}) == len(kinds), "no node stops and starts at once"
    for node in "abcd":
        mine = [place for batch in order for place in batch if node in affected_nodes(actions[place])]
        assert mine == sorted(mine)


def test_start_whose_room_was_not_made_is_dropped() -> None:
    steps = [
        Step(action=action, keeps_promises=True) for action in (stop(0, "a"), start(1, "a"), start(2, "b"))
    ]
    assert failed_prerequisite(steps, 1) == "an earlier step on a was not carried out"
    assert failed_prerequisite(steps, 2) is None
    more = [*steps, Step(action=stop(3, "a"), keeps_promises=True)]
    assert failed_prerequisite(more, 3) is None, "a stop needs nothing"


def test_a_refused_move_holds_up_the_rest_of_its_set_and_those_that_count_on_its_room() -> None:
    """And no other: what does not come to a node leaves more room there."""
    moves = [move(0, "a", "b"), move(1, "c", "b"), move(2, "a", "d"), move(3, "e", "a"), move(4, "c", "e")]
    steps = [Step(action=action) for action in moves]
    refused = [True, False, False, False, False]
    assert will_run(steps, refused) == [False, True, False, False, False]
    assert will_run(steps, [False] * 5) == [True] * 5


def test_a_move_to_a_node_that_is_not_switched_on_is_dropped() -> None:
    steps = [Step(action=action) for action in (PowerOn(node="b", reasons=WHY), move(1, "a", "b"))]
    assert will_run(steps, [True, False]) == [False, False]
