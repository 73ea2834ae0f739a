import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.engines import cgroups
from tests.lab.engines.docker import docker_engine
from tests.lab.engines.image import BURN
from tests.lab.engines.swarm import Swarm, swarm
from tests.lab.parts import require
from tests.lab.traces import traces
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab


def names(cluster: Swarm) -> list[str]:
    return [cluster.name, *(node.engine.root.name for node in cluster.nodes)]


def test_three_nodes_are_ready(cluster: Swarm) -> None:
    assert cluster.node_states() == {"node1": "ready", "node2": "ready", "node3": "ready"}


def test_a_service_really_moves_from_one_node_to_another(cluster: Swarm) -> None:
    second, third = cluster.node("node2"), cluster.node("node3")
    cluster.create_service("mover", "sleep", "1000", node="node2")
    [before] = cluster.wait_until_runs("mover", on="node2")
    assert before.container_id is not None
    assert second.engine.cgroup(before.container_id, "cpu").exists()

    cluster.move_service("mover", to="node3")
    [after] = cluster.wait_until_runs("mover", on="node3")
    assert after.container_id is not None
    assert third.engine.cgroup(after.container_id, "cpu").exists()
    assert not second.engine.cgroup(before.container_id, "cpu").exists()
    cluster.remove_service("mover")


def test_a_node_has_no_more_cores_and_memory_than_it_is_given(cluster: Swarm) -> None:
    node = cluster.node("node2")
    cluster.limit(node, cpus=0.4, memory_bytes=256 << 20)
    cluster.create_service("hungry", *BURN, node="node2", replicas=2)
    tasks = cluster.wait_until_runs("hungry", on="node2", replicas=2)

    def used_seconds() -> float:
        return sum(node.engine.cpu_seconds(task.container_id) for task in tasks if task.container_id)

    start, begun = used_seconds(), time.monotonic()
    # They want all there is; how soon they had this much depends on how busy the machine is elsewhere.
    eventually(lambda: used_seconds() - start >= 1.2, 60)
    assert (used_seconds() - start) / (time.monotonic() - begun) < 0.48
    memory = cgroups.root_of("memory") / node.engine.cgroup_parent
    limits = [memory / "memory.limit_in_bytes", memory / "memory.max"]
    assert [int(path.read_text(encoding="ascii")) for path in limits if path.exists()] == [256 << 20]
    cluster.clear()


def test_a_node_that_is_cut_off_is_down_until_it_is_healed(cluster: Swarm) -> None:
    node = cluster.node("node3")
    cluster.cut(node)
    cluster.wait_for_node("node3", "down")
    assert cluster.node_states()["node2"] == "ready"
    cluster.heal(node)
    cluster.wait_for_node("node3", "ready")


def test_swarms_and_engines_run_side_by_side() -> None:
    with swarm(nodes=2) as one, swarm(nodes=2) as other, docker_engine() as engine:
        assert one.address != other.address
        one.create_service("same", "sleep", "1000", node="node2")
        other.create_service("same", "sleep", "1000", node="node2")
        [mine] = one.wait_until_runs("same", on="node2")
        [theirs] = other.wait_until_runs("same", on="node2")
        assert mine.container_id != theirs.container_id
        assert engine.get("/containers/json") == []


def test_a_node_that_is_killed_is_down_and_its_service_can_run_elsewhere() -> None:
    with swarm(nodes=2) as cluster:
        cluster.create_service("survivor", "sleep", "1000", node="node2")
        cluster.wait_until_runs("survivor", on="node2")
        cluster.kill(cluster.node("node2"))
        cluster.wait_for_node("node2", "down")
        cluster.move_service("survivor", to="node1")

        # The manager cannot know that the task of the dead node has ended, and goes on listing it as running.
        def runs_on_node1() -> bool:
            wanted = [task for task in cluster.tasks("survivor") if task.desired_state == "running"]
            return [(task.node, task.state) for task in wanted] == [("node1", "running")]

        eventually(runs_on_node1, 30)


def test_nothing_is_left_of_a_swarm_even_when_the_block_fails() -> None:
    seen: list[str] = []

    def fail() -> None:
        with swarm(nodes=2) as cluster:
            cluster.create_service("web", *BURN, replicas=2)
            eventually(lambda: {task.state for task in cluster.tasks("web")} == {"running"}, 30)
            seen.extend(names(cluster))
            raise RuntimeError("the test's own failure")

    with pytest.raises(RuntimeError, match="the test's own failure"):
        fail()
    assert [trace for name in seen for trace in traces(name)] == []


# Says what its swarm is called and waits to be killed.
VICTIM = """
import sys
from tests.lab.parts import require
from tests.lab.engines.swarm import swarm
with swarm(nodes=2) as cluster:
    cluster.create_service("web", "sleep", "1000", node="node2")
    cluster.wait_until_runs("web", on="node2")
    print(cluster.name, *(node.engine.root.name for node in cluster.nodes), flush=True)
    sys.stdin.read()
"""


def test_nothing_is_left_of_a_swarm_whose_test_run_was_killed() -> None:
    require("swarm")
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as victim:
        assert victim.stdout is not None
        seen = victim.stdout.readline().split()
        assert all(traces(name) for name in seen)
        victim.send_signal(signal.SIGKILL)
    assert len(seen) == 3
    eventually(lambda: not any(traces(name) for name in seen), 15)
