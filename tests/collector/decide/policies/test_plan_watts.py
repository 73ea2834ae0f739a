"""The watts before and after a plan."""

import pytest

from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Start
from collector.decide.policies.interface import Plan
from collector.decide.policies.stability import with_watts
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import CURVE, amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

HALF = amount(2, 0)
"""Of four cores; the curve has 20 W when idle and adds 30 W for it."""


def node(name: str, cores: float = 0.0) -> NodeFacts:
    return NodeFacts(name=name, capacity=amount(4, 4), used=amount(cores, 0), curve=CURVE)


def estimate_watts(snapshot: Snapshot, actions: tuple[Action, ...]) -> tuple[float | None, float | None]:
    plan = with_watts(snapshot, Plan(actions=actions))
    return plan.watts_before, plan.watts_after


@pytest.mark.parametrize(
    ("actions", "after"),
    [
        ((), 50 + 20),
        ((Move(task="1", node="a", target="b", reasons=()),), 20 + 50),
        ((Move(task="1", node="a", target="b", reasons=()), PowerOff(node="a", reasons=())), 50),
        ((Kill(task="1", node="a", target=None, reasons=()),), 20 + 20),
        ((Kill(task="1", node="a", target="b", reasons=()),), 20 + 50),
        ((Start(task="2", target="b", reasons=()),), 50 + 50),
        ((PowerOn(node="c", reasons=()),), 50 + 20 + 20),
        ((Cut(task="1", node="a", allocated=amount(1, 1), reasons=()),), 50 + 20),
    ],
)
def test_watts_follow_moves_and_switched_nodes(actions: tuple[Action, ...], after: float) -> None:
    off = NodeFacts(name="c", capacity=amount(4, 4), on=False, curve=CURVE)
    tasks = [TaskFacts(id="1", node="a", used=HALF), TaskFacts(id="2", node=None, mean=HALF)]
    snapshot = assemble([node("a", 2.0), node("b"), off], tasks)
    assert estimate_watts(snapshot, actions) == pytest.approx((70, after))


def test_unknown_watts_stay_unknown() -> None:
    dark = NodeFacts(name="b", capacity=amount(4, 4))
    snapshot = assemble([node("a"), dark])
    assert estimate_watts(snapshot, ()) == (None, None)
    assert estimate_watts(snapshot, (PowerOff(node="b", reasons=()),)) == (None, 20.0)
