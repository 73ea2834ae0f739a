"""Containers come and go, and none ever gets less than its class tolerates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.actions import Kill
from collector.decide.policies.interface import Request
from collector.features.energy4cloud.policies import Energy4CloudSettings, place, rebalance
from collector.snapshot.tables import TaskKind
from tests.collector.decide.policies.clusters import Cluster, amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts
from wire.resources import Quantities

TOLERATED = {1: 0.0, 2: 1 - 100 / 120, 3: 1 - 100 / 150, 4: 1 - 100 / 200}
"""Share of what a container requested that it can lose, by class, as in the thesis."""
CORES, GIBIBYTES = 4.0, 4.0
_ROUNDING = 1e-6


def losses(cluster: Cluster) -> dict[str, float]:
    """The share that each container loses by its cut and by the overbooking of its node, at worst."""
    snapshot = cluster.snapshot()
    nodes, tasks = snapshot.nodes, snapshot.tasks
    overbooked = np.maximum(nodes.allocated[:, :2] / nodes.capacity[:, :2], 1.0)
    running = np.flatnonzero(tasks.node >= 0)
    kept = tasks.allocated[running, :2] / tasks.requested[running, :2] / overbooked[tasks.node[running]]
    return {tasks.ids[row]: float(1 - share.min()) for row, share in zip(running, kept, strict=True)}


def assert_sla(cluster: Cluster, what: str) -> None:
    classes = {each.id: each.task_class for each in cluster.tasks}
    for task, lost in losses(cluster).items():
        assert lost <= TOLERATED[classes[task]] + _ROUNDING, f"{what}: {task} of class {classes[task]}"


def arrive(cluster: Cluster, name: str, request: Request, rules: Energy4CloudSettings) -> Cluster:
    snapshot = cluster.snapshot()
    ranking = place(snapshot, request, rules)
    if ranking.best is None:
        return cluster
    needs = ranking.needs(ranking.best)
    if not rules.may_wait:
        assert all(each.target is not None for each in needs if isinstance(each, Kill))
    after = cluster.after(needs)
    new = TaskFacts(
        id=name,
        node=snapshot.nodes.names[ranking.best],
        used=request.reserve,
        requested=request.reserve,
        allocated=ranking.gets(ranking.best),
        task_class=request.task_class,
        kind=request.kind,
    )
    return replace(after, tasks=[*after.tasks, new])


def with_use(cluster: Cluster, share: float) -> Cluster:
    """The nodes use this share of what is reserved of them."""
    allocated = cluster.snapshot().nodes.allocated
    nodes = [
        replace(each, used=Quantities(share * float(cpu), round(share * memory), 0.0, 0.0))
        for each, (cpu, memory) in zip(
            sorted(cluster.nodes, key=lambda node: node.name), allocated[:, :2].tolist(), strict=True
        )
    ]
    return replace(cluster, nodes=nodes)


@pytest.mark.slow
@given(seed=st.integers(0, 100_000))
@settings(max_examples=150)
def test_no_task_is_ever_below_what_its_class_tolerates(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rules = Energy4CloudSettings(may_wait=bool(draw.random() < 0.5))
    cluster = Cluster(
        [
            NodeFacts(name=f"n{number}", capacity=amount(CORES, GIBIBYTES, 1e9, 1e9))
            for number in range(draw.integers(1, 4))
        ],
        [],
    )
    sizes = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0]
    for number in range(60):
        event = str(draw.choice(["come", "go", "plan"], p=[0.6, 0.35, 0.05]))
        cluster = with_use(cluster, float(draw.choice([0.1, 0.5])))
        if event == "come":
            wanted = Request(
                reserve=amount(float(draw.choice(sizes)), float(draw.choice(sizes))),
                task_class=int(draw.integers(1, 5)),
                kind=TaskKind(int(draw.integers(0, 2))),
            )
            cluster = arrive(cluster, f"task-{number}", wanted, rules)
        elif event == "plan":
            cluster = cluster.after(rebalance(cluster.snapshot(), rules).actions)
        elif cluster.tasks:
            gone = cluster.tasks[int(draw.integers(len(cluster.tasks)))]
            cluster = replace(cluster, tasks=[each for each in cluster.tasks if each is not gone])
        assert_sla(cluster, f"{event} {number}")


def test_a_task_that_is_cut_by_half_bears_no_overbooking_after_the_strict_one_left() -> None:
    """It kept half of what it requested; on a node that is booked 1.5 times it would keep a third."""
    node = NodeFacts(name="n", capacity=amount(4, 4, 1e9, 1e9), used=amount(1, 1, 0, 0))
    half = TaskFacts(id="half", node="n", requested=amount(4, 1), allocated=amount(2, 0.5), task_class=4)
    whole = TaskFacts(id="whole", node="n", requested=amount(2, 1), task_class=4)
    cluster = Cluster([node], [half, whole])
    assert losses(cluster)["half"] == pytest.approx(0.5)
    after = arrive(cluster, "new", Request(reserve=amount(2, 1), task_class=3), Energy4CloudSettings())
    assert_sla(after, "a task of class 3 came")
