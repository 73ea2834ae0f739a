"""Tasks with a promise that wait: in the orchestrator's queue, or in the collector's own."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.control.orchestrator_state import orchestrated_services, pending_tasks
from collector.drivers.interface import Mode, NodeView, OrchestratorState, PendingView, ServiceView, TaskView
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.constraints import Constraint, Operator
from collector.snapshot.tables import NOWHERE
from tests.collector.builders import START
from tests.collector.control.builders import HOG, NODES, STEADY, FakeDriver, actor_of, staged
from wire.resources import Quantities

SILVER = {"wattpack.slo": "silver"}
VIEW = OrchestratorState(
    nodes=tuple(NodeView(name=name) for name in NODES),
    services=(
        ServiceView(name=HOG, replicas=2, labels=SILVER),
        ServiceView(name=STEADY),
        ServiceView(name="lone", mode=Mode.STANDALONE, labels=SILVER),
    ),
    tasks=(
        TaskView(container="id-of-hog", service=HOG, node="alpha", state="running", task="t1", slot="1"),
        TaskView(container="id-of-steady", service=STEADY, node="alpha", state="running", task="t2"),
        TaskView(container="id-of-lone", service="lone", node="beta", state="running"),
    ),
    pending=(
        PendingView(
            id="t3",
            service=HOG,
            slot="2",
            since=START - 5,
            requested=Quantities(2.0, 1000),
            labels={**SILVER, "wattpack.class": "3"},
            constraints=("node.labels.disk==ssd", "node.hostname != alpha", "node.role==worker"),
            spread=True,
        ),
        PendingView(id="t4", service=STEADY, slot="2", since=START),
        PendingView(id="t5", service=HOG, slot="3", node="beta", labels=SILVER),
    ),
)


def test_tasks_of_an_orchestrator_are_listed_by_service_and_single_containers_are_not() -> None:
    services = {each.name: each for each in orchestrated_services(VIEW)}
    assert services.keys() == {HOG, STEADY}
    assert [(each.id, each.slot, each.container, each.node) for each in services[HOG].tasks] == [
        ("t1", "1", "id-of-hog", "alpha"),
        ("t3", "2", "", ""),
        ("t5", "3", "", "beta"),
    ]
    assert services[HOG].instances == 2
    everywhere = replace(VIEW, services=(ServiceView(name=HOG, mode=Mode.GLOBAL, replicas=1),))
    [service] = orchestrated_services(everywhere)
    assert (service.instances, service.labels) == (None, {"wattpack.kind": "daemon"})


def test_pending_tasks_without_a_node_wait_with_their_constraints() -> None:
    first, second = pending_tasks(VIEW, default_class=1)
    assert (first.id, first.name, first.service, first.task_class) == ("t3", "hog.2", HOG, 3)
    assert first.requested[:2] == (2.0, 1000)
    assert first.constraints == (
        Constraint("disk", Operator.IS, "ssd"),
        Constraint("node", Operator.IS_NOT, "alpha"),
        Constraint("node.role", Operator.IS_NOT, "manager"),
    )
    assert first.spread
    assert (second.id, second.task_class) == ("t4", 1)
    kubernetes = PendingView(id="p", service="s", constraints=("node.kubernetes.io/instance-type==m5",))
    [pod] = pending_tasks(OrchestratorState(pending=(kubernetes,)), default_class=1)
    assert pod.constraints == (Constraint("node.kubernetes.io/instance-type", Operator.IS, "m5"),)


async def test_a_snapshot_for_decisions_shows_pending_tasks_with_a_promise(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.begin()
        actor = await actor_of(stage, FakeDriver(view_now=VIEW))
        stage.clock.now += 30
        snapshot = await actor.situation.snapshot()
    promises = snapshot.part(TaskPromises)
    assert promises is not None
    rows = {name: row for row, name in enumerate(snapshot.tasks.ids)}
    assert snapshot.tasks.ids[-1] == "t3"
    assert "t4" not in rows
    assert snapshot.tasks.node[rows["t3"]] == NOWHERE
    names = [promises.promises[code].name if code >= 0 else "" for code in promises.promise.tolist()]
    assert {name: names[row] for name, row in rows.items()} == {
        "id-of-hog": "silver",
        "id-of-steady": "",
        "t3": "silver",
    }
    # It was created before the collector knew it: it waits since then.
    assert promises.waited_seconds[rows["t3"]] == pytest.approx(30)
    assert snapshot.rules[rows["t3"]].spread
