import pytest

from collector.common.labels import OPTIONAL_LABEL, WEIGHT_LABEL
from collector.common.orchestrator import Mode, OrchestratorState, ServiceView, TaskView
from collector.features.brownout.rule import optional_services, usage_by_node, weight_of
from tests.collector.decide.policies.clusters import amount
from tests.collector.decide.policies.least_watts.builders import make_node, make_task
from tests.collector.snapshot.builders import assemble
from wire.resources import Quantities


@pytest.mark.parametrize(
    ("label", "weight"), [("0.5", 0.5), ("0", 0.0), ("-1", 1.0), ("nan", 1.0), ("much", 1.0), ("inf", 1.0)]
)
def test_an_invalid_weight_counts_as_unset(label: str, weight: float) -> None:
    assert weight_of({WEIGHT_LABEL: label}) == weight
    assert weight_of({}) == 1.0


def test_daemons_stopped_and_mandatory_services_are_never_optional() -> None:
    labels = {OPTIONAL_LABEL: "true"}
    services = (
        ServiceView(name="daemon", mode=Mode.GLOBAL, replicas=3, labels=labels),
        ServiceView(name="stopped", replicas=0, labels=labels),
        ServiceView(name="mandatory", labels={OPTIONAL_LABEL: "yes"}),
        ServiceView(name="optional", labels=labels),
    )
    tasks = tuple(
        TaskView(container=f"{each.name}-{state}", service=each.name, node="a", state=state)
        for each in services
        for state in ("running", "failed")
    )
    (found,) = optional_services(OrchestratorState(services=services, tasks=tasks))
    assert (found.name, found.containers, found.nodes) == ("optional", ("optional-running",), ("a",))


def test_each_optional_service_has_its_own_tasks_in_their_order() -> None:
    labels = {OPTIONAL_LABEL: "true"}
    services = tuple(ServiceView(name=name, labels=labels) for name in ("b", "a", "none"))
    tasks = tuple(
        TaskView(container=container, service=service, node=f"on-{container}", state="running")
        for container, service in (("1", "a"), ("2", "b"), ("3", "a"), ("4", "mandatory"))
    )
    found = optional_services(OrchestratorState(services=services, tasks=tasks))
    assert [(each.name, each.containers) for each in found] == [
        ("b", ("2",)),
        ("a", ("1", "3")),
        ("none", ()),
    ]


def test_usage_is_summed_by_node() -> None:
    tasks = [make_task("x", "a", 1.0), make_task("y", "a", 0.5), make_task("z", "b", 0.25)]
    snapshot = assemble([make_node("a"), make_node("b")], tasks)
    used = usage_by_node(snapshot, ("x", "y", "z", "unknown"))
    assert {node: each.cpu_cores for node, each in used.items()} == {"a": 1.5, "b": 0.25}
    assert used["b"].memory_bytes == amount(0, 0.1).memory_bytes
    assert usage_by_node(snapshot, ("unknown",)) == dict[str, Quantities]()
