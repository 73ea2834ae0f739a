"""Tasks with a promise that wait: in the orchestrator's queue, or in the collector's own."""

from pathlib import Path

import pytest

from collector.act.orchestrator_state import pending_tasks
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.constraints import Constraint, Operator
from collector.snapshot.tables import NOWHERE
from tests.collector.act.builders import HOG, NODES, STEADY, FakeDriver, actor_of, staged
from tests.collector.builders import START
from wire.resources import Quantities

SILVER = {"wattpack.slo": "silver"}
VIEW = OrchestratorState(
    nodes=tuple(NodeView(name=name) for name in NODES),
    services=(
        ServiceView(
            name=HOG,
            replicas=2,
            reserve=Quantities(2.0, 1000),
            labels={**SILVER, "wattpack.class": "3"},
            constraints=("node.labels.disk==ssd", "node.hostname != alpha", "node.role==worker"),
            spread=True,
        ),
        ServiceView(name=STEADY),
        ServiceView(name="lone", mode=Mode.STANDALONE, labels=SILVER),
    ),
    tasks=(
        TaskView(container="id-of-hog", service=HOG, node="alpha", state="running", id="t1", slot="1"),
        TaskView(container="id-of-steady", service=STEADY, node="alpha", state="running", id="t2"),
        TaskView(container="id-of-lone", service="lone", node="beta", state="running"),
    ),
    pending=(
        TaskView(id="t3", service=HOG, slot="2", created_at=START - 5),
        TaskView(id="t4", service=STEADY, slot="2", created_at=START),
        TaskView(id="t5", service=HOG, slot="3", node="beta"),
    ),
)


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
    kubernetes = OrchestratorState(
        services=(ServiceView(name="s", constraints=("node.kubernetes.io/instance-type==m5",)),),
        pending=(TaskView(id="p", service="s"),),
    )
    [pod] = pending_tasks(kubernetes, default_class=1)
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
    assert promises.admitted_seconds[rows["t3"]] == pytest.approx(30)
    assert snapshot.rules[rows["t3"]].spread
