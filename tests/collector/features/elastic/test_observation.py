"""What is observed of an elastic service."""

import pytest

from collector.act.records import Step, StepState
from collector.common.orchestrator import OrchestratorState, TaskView
from collector.decide.policies.actions import Resize, Scale
from collector.features.elastic.observation import (
    Reading,
    core_watts,
    cpu_cores,
    last_change,
    reported_containers,
    running_containers,
)
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.messages import PowerCurve, PowerSource

NOTHING = (None, None)


def test_cpu_time_is_counted_since_the_last_decision() -> None:
    before = {"a": Reading(100.0, 10.0, 0.9), "b": Reading(100.0, 5.0, 0.5)}
    now = {"a": Reading(130.0, 25.0, 0.1, None, 4.0), "b": Reading(100.0, 5.0, 0.5, None, 4.0)}
    # `b` has not reported since: its last window counts.
    assert cpu_cores(now, before) == pytest.approx(1.0)
    again = {"a": Reading(130.0, 1.0, 0.25, None, 4.0)}
    assert cpu_cores(again, before) == 0.25, "its counter started again"
    assert cpu_cores({"new": Reading(130.0, 1.0, None)}, before) is None
    assert cpu_cores({}, {}) is None


def test_a_node_claims_no_more_cpu_time_than_it_has_cores() -> None:
    before = {"a": Reading(100.0, 0.0, 0.5)}
    assert cpu_cores({"a": Reading(100.0 + 1e-9, 1e15, 0.5, None, 8.0)}, before) == 8.0
    assert cpu_cores({"a": Reading(101.0, 1e15, 0.5)}, before) == 0.5, "without a capacity, its window counts"


def step(action: Scale | Resize, state: StepState, at: float, done_at: float | None = None) -> Step:
    return Step(action=action, service=action.service, state=state, started_at=at, done_at=done_at)


def scale(after: int, before: int, service: str = "web") -> Scale:
    return Scale(service=service, replicas=after, replicas_before=before, reasons=())


def test_the_last_change_and_how_long_it_took_come_from_the_journal() -> None:
    resize = Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=())
    steps = [
        step(scale(3, 2), StepState.VERIFIED, 10.0, 14.0),
        step(scale(2, 3), StepState.VERIFIED, 50.0, 58.0),
        step(resize, StepState.STARTED, 90.0),
        step(scale(9, 2), StepState.FAILED, 95.0),
        step(scale(9, 2, "other"), StepState.VERIFIED, 99.0, 99.5),
        Step(action=scale(4, 2), service="web"),
    ]
    assert last_change("web", steps) == (90.0, 4.0)
    assert last_change("nobody", steps) == (None, None)


def test_watts_per_core_come_from_the_curves_of_the_nodes() -> None:
    curve = PowerCurve(PowerSource.MODEL, 0.1, 40.0, cpu_ratios=(0.0, 0.5, 1.0), cpu_watts=(0.0, 40.0, 60.0))
    nodes = [
        NodeFacts(name="idle", capacity=amount(4, 8), used=amount(0, 1), curve=curve),
        NodeFacts(name="full", capacity=amount(4, 8), used=amount(4, 1), curve=curve),
        NodeFacts(name="unknown", capacity=amount(4, 8)),
    ]
    snapshot = assemble(nodes, [])
    assert core_watts(snapshot, ["idle"]) == pytest.approx((20.0, 10.0)), "a quarter of the machine"
    assert core_watts(snapshot, ["full"])[0] == pytest.approx(10.0), "the last core"
    assert core_watts(snapshot, ["idle", "full", "unknown", "stranger"])[0] == pytest.approx(15.0)
    three = core_watts(snapshot, ["idle", "idle", "full"])
    assert three[0] == pytest.approx(20.0), "the median ignores one absurd node"
    assert core_watts(snapshot, ["unknown"]) == core_watts(snapshot, []) == NOTHING


def test_containers_are_those_of_the_orchestrator_or_of_reports() -> None:
    tasks = [
        TaskView(container="a", service="web", node="alpha", state="running"),
        TaskView(container="b", service="web", node="beta", state="starting"),
        TaskView(container="c", service="other", node="beta", state="running"),
    ]
    assert running_containers("web", OrchestratorState(tasks=tuple(tasks))) == {"a": "alpha"}
    snapshot = assemble(
        [NodeFacts(name="alpha", capacity=amount(4, 8))],
        [TaskFacts(id="a", node="alpha", service="web"), TaskFacts(id="x", node="alpha", service="other")],
    )
    assert reported_containers("web", snapshot) == {"a": "alpha"}
    assert reported_containers("nobody", snapshot) == {}
