"""Containers move only to nodes that meet the constraints of their service."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.act.guards import first_refusal
from collector.act.guards.state import meets_constraints
from collector.act.orchestrator_state import constraints_by_service
from collector.act.records import Step
from collector.common.orchestrator import OrchestratorState, ServiceView
from collector.decide.policies.actions import Move
from collector.snapshot.codec import pack, unpack
from collector.snapshot.constraints import Constraint, Operator
from tests.collector.act.builders import CHOSEN, HOG, FakeDriver, actor_of, hog_id, staged, view

SSD = {"labels": {"disk": "ssd"}}


@pytest.mark.parametrize(
    ("constraint", "nodes", "target"),
    [
        ("node.labels.disk==ssd", {"beta": SSD}, "beta"),
        ("node.labels.disk != ssd", {"gamma": SSD}, "beta"),
        ("node.hostname!=gamma", {}, "beta"),
        ("node.role==worker", {"gamma": {"is_manager": True}}, "beta"),
        ("node.role!=manager", {"gamma": {"is_manager": True}}, "beta"),
        ("node.role==manager", {"beta": {"is_manager": True}}, "beta"),
        ("node.platform.os==linux", {}, "gamma"),
        ("node.labels.disk==none", {}, None),
    ],
)
async def test_an_alert_is_answered_by_a_move_that_the_orchestrator_can_carry_out(
    tmp_path: Path, constraint: str, nodes: dict[str, dict[str, object]], target: str | None
) -> None:
    """Without constraints, the hog goes to gamma."""
    async with staged(tmp_path) as stage:
        stage.begin()
        driver = FakeDriver(
            view_now=view(**{HOG: {"constraints": (constraint,)}}, **nodes), on_move=stage.report_move
        )
        actor = await actor_of(stage, driver)
        decision = await actor.planner.answer_alerts(CHOSEN)
        assert decision is not None
        found = [step.action for step in decision.steps if isinstance(step.action, Move)]
        assert [each.target for each in found if each.task == hog_id()] == ([target] if target else [])
        snapshot = await actor.situation.snapshot()
        assert unpack(pack(snapshot)).constraints == snapshot.constraints
        if target == "beta":
            wrong = Step(
                action=Move(task=hog_id(), name=HOG, node="alpha", target="gamma", reasons=("why",)),
                service=HOG,
            )
            context = replace(actor.situation.guard_context(snapshot), earlier=[])
            assert "does not hold there" in str(meets_constraints(wrong, context))
            refusal = first_refusal(wrong, context)
            assert refusal is not None
            assert refusal[0] == "constraints"


def test_constraints_that_only_the_orchestrator_can_check_are_left_to_it() -> None:
    services = (
        ServiceView(name="a", constraints=("node.id==x", "engine.labels.os==linux", "node.labels.zone==z")),
        ServiceView(name="b", constraints=("node.ip!=10.0.0.1",)),
        ServiceView(name="c"),
        ServiceView(name="d", constraints=("topology.kubernetes.io/zone==z",)),
    )
    assert constraints_by_service(OrchestratorState(services=services)) == {
        "a": (Constraint("zone", Operator.IS, "z"),),
        "d": (Constraint("topology.kubernetes.io/zone", Operator.IS, "z"),),
    }
