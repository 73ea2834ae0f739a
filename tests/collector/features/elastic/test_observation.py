"""What is observed of an elastic service."""

import pytest

from collector.common.orchestrator import OrchestratorState, ServiceView, TaskView
from collector.control.records import Step, StepState
from collector.features.elastic.observation import (
    CorePower,
    CpuReading,
    core_power,
    cpu_cores,
    observe,
    reported_containers,
    running_containers,
)
from collector.policies.actions import Resize, Scale
from tests.collector.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.messages import PowerCurve, PowerSource
from wire.resources import Quantities

NOTHING = CorePower(None, None)


def test_cpu_time_is_counted_since_the_last_decision() -> None:
    before = {"a": CpuReading(100.0, 10.0, 0.9), "b": CpuReading(100.0, 5.0, 0.5)}
    now = {"a": CpuReading(130.0, 25.0, 0.1, None, 4.0), "b": CpuReading(100.0, 5.0, 0.5, None, 4.0)}
    # `b` has not reported since: its last window counts.
    assert cpu_cores(now, before) == pytest.approx(1.0)
    again = {"a": CpuReading(130.0, 1.0, 0.25, None, 4.0)}
    assert cpu_cores(again, before) == 0.25, "its counter started again"
    assert cpu_cores({"new": CpuReading(130.0, 1.0, None)}, before) is None
    assert cpu_cores({}, {}) is None


def test_a_node_claims_no_more_cpu_time_than_it_has_cores() -> None:
    before = {"a": CpuReading(100.0, 0.0, 0.5)}
    assert cpu_cores({"a": CpuReading(100.0 + 1e-9, 1e15, 0.5, None, 8.0)}, before) == 8.0
    assert cpu_cores({"a": CpuReading(101.0, 1e15, 0.5)}, before) == 0.5, (
        "without a capacity, its window counts"
    )


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
    found = observe(
        now=100.0,
        service=ServiceView(name="web", limit=Quantities(0.5)),
        running=2,
        cpu_used_cores=0.7,
        metric=0.2,
        steps=steps,
        power=NOTHING,
    )
    assert (found.changed_at_seconds, found.effect_seconds) == (90.0, 4.0)
    assert (found.replicas, found.cpu_limit_cores, found.cpu_used_cores) == (2, 0.5, 0.7)


def test_watts_per_core_come_from_the_curves_of_the_nodes() -> None:
    curve = PowerCurve(PowerSource.MODEL, 0.1, 40.0, cpu_ratios=(0.0, 0.5, 1.0), cpu_watts=(0.0, 40.0, 60.0))
    nodes = [
        NodeFacts(name="idle", capacity=amount(4, 8), used=amount(0, 1), curve=curve),
        NodeFacts(name="full", capacity=amount(4, 8), used=amount(4, 1), curve=curve),
        NodeFacts(name="unknown", capacity=amount(4, 8)),
    ]
    snapshot = assemble(nodes, [])
    idle, full = core_power(snapshot, ["idle"]), core_power(snapshot, ["full"])
    assert idle.used_watts == pytest.approx(20.0), "a quarter of the machine"
    assert full.used_watts == pytest.approx(10.0), "the last core"
    assert idle.reserved_watts == pytest.approx(10.0)
    both = core_power(snapshot, ["idle", "full", "unknown", "stranger"])
    assert both.used_watts == pytest.approx(15.0)
    three = core_power(snapshot, ["idle", "idle", "full"])
    assert three.used_watts == pytest.approx(20.0), "the median ignores one absurd node"
    assert core_power(snapshot, ["unknown"]) == core_power(snapshot, []) == NOTHING


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
