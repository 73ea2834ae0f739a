"""Energy4Cloud: a class-1 request that fits only when class-4 containers are cut, and what they get back."""

from typing import Any

from bench.frame import Figure
from bench.swarm_scenarios.cluster import NODE_CORES, NODE_MEMORY_BYTES, Cluster, Collector, until

SETTINGS: dict[str, dict[str, Any]] = {
    "acting": {"policy": "", "timer_policy": "energy4cloud", "every_seconds": 5},
}
_PATIENCE_SECONDS = 60.0
_CORES = NODE_CORES * 0.7
_MEMORY_BYTES = NODE_MEMORY_BYTES // 4


def cut(cluster: Cluster, collector: Collector) -> list[Figure]:
    """A container of class 4 on every node, and a request of class 1 for half of one."""
    names = [f"lax{number}" for number in (1, 2, 3)]
    for number, name in enumerate(names, start=1):
        extra = (
            f"--limit-cpu={_CORES}",
            f"--reserve-cpu={_CORES}",
            f"--limit-memory={_MEMORY_BYTES}",
            "--container-label=wattpack.class=4",
        )
        cluster.service(name, "sleep", "100000", on=f"node{number}", extra=extra)
    until(lambda: _known(collector, names), _PATIENCE_SECONDS)
    before = _limits(cluster, names)
    reserve = {"cpu_cores": NODE_CORES / 2, "memory_bytes": _MEMORY_BYTES}
    decision = collector.post("/v1/room", {"reserve": reserve, "class": 1, "service": "strict"})
    print(decision["outcome"], decision["reasons"], decision["left"])
    for step in decision["steps"]:
        print(step["act"], step["state"], step["why"])
    lowered, _ = until(lambda: _lower(_limits(cluster, names), before), _PATIENCE_SECONDS)
    restored, seconds = until(lambda: _limits(cluster, names) == before, _PATIENCE_SECONDS)
    return [
        Figure(name="cut_lowered", value=lowered or 0, unit="containers, by docker inspect", at_least=1),
        Figure(name="cut_restored", value=seconds if restored else None, unit="s", at_most=_PATIENCE_SECONDS),
    ]


def _known(collector: Collector, names: list[str]) -> bool:
    there = {each["service"] for each in collector.get("/v1/containers")["containers"]}
    return set(names) <= there


def _limits(cluster: Cluster, names: list[str]) -> dict[str, tuple[int, int]]:
    found = {}
    for name in names:
        (task,) = cluster.running(name)
        host = cluster.swarm.node(str(task.node)).engine.inspect(str(task.container_id))["HostConfig"]
        found[name] = host["NanoCpus"], host["Memory"]
    return found


def _lower(now: dict[str, tuple[int, int]], before: dict[str, tuple[int, int]]) -> int:
    return sum(now[name] != before[name] for name in before)
