from collector.decide.policies.actions import Move, PowerOn
from collector.decide.policies.draps import DrapsSettings, rebalance
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

_CPU_IS_SHORT = (True, False, False, False)


def snapshot(other: NodeFacts) -> Snapshot:
    """A node that is short of CPU, one that is switched off, and another."""
    capacity = amount(10, 10, 10, 10)
    short = NodeFacts(name="a", capacity=capacity, used=amount(9.5, 0), bottleneck=_CPU_IS_SHORT)
    asleep = NodeFacts(name="c", capacity=capacity, used=amount(0, 0), on=False)
    hog = TaskFacts(id="id-of-hog", name="hog", node="a", used=amount(5, 0.1), service="hog")
    return assemble([short, other, asleep], [hog])


def test_a_move_to_a_node_that_is_off_is_proposed_with_switching_it_on() -> None:
    full = NodeFacts(name="b", capacity=amount(10, 10, 10, 10), used=amount(6, 0))
    wake, move = rebalance(snapshot(full), DrapsSettings()).actions
    assert isinstance(wake, PowerOn)
    assert wake.node == "c"
    assert isinstance(move, Move)
    assert (move.name, move.target) == ("hog", "c")


def test_nothing_is_switched_on_where_a_node_that_is_on_has_room() -> None:
    idle = NodeFacts(name="b", capacity=amount(10, 10, 10, 10), used=amount(1, 0))
    (move,) = rebalance(snapshot(idle), DrapsSettings()).actions
    assert isinstance(move, Move)
    assert move.target == "b"
