"""The planned cluster against the obvious version: adding up everything again after each step."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.interface import Stability
from collector.decide.policies.planned import PlannedCluster
from collector.snapshot.columns import sum_by_node
from collector.snapshot.tables import NOWHERE
from tests.collector.decide.policies.clusters import random_cluster


@given(
    seed=st.integers(0, 999),
    steps=st.lists(st.tuples(st.integers(0, 999), st.integers(-1, 999)), max_size=20),
)
@settings(max_examples=50)
def test_amounts_of_nodes_follow_their_tasks(seed: int, steps: list[tuple[int, int]]) -> None:
    snapshot = random_cluster(seed, calm=False).snapshot()
    tasks, count = snapshot.tasks, len(snapshot.nodes.names)
    if not tasks.ids or not count:
        return
    planned, home = PlannedCluster(snapshot, Stability()), tasks.node.copy()
    need = np.nan_to_num(tasks.envelope)
    sums = sum_by_node(home, need, count)
    planned.follow(need, sums)
    for number, step in steps:
        task, node = number % len(tasks.ids), NOWHERE if step == NOWHERE else step % count
        planned.put(task, node)
        home[task] = node
        assert planned.home.tolist() == home.tolist()
        np.testing.assert_allclose(sums, sum_by_node(home, need, count), rtol=1e-9, atol=1.0)
        assert planned.leavers(node).tolist() == [
            row for row in range(len(tasks.ids)) if home[row] == node and planned.may_leave[row]
        ]
