"""Energy4Cloud: a class-1 request that fits only if class-4 containers are cut, and their restored limits.

These have limits and no reservations: Swarm would keep a reservation, whatever is cut.
"""

from typing import Any

from bench.common.results import Figure
from bench.swarm.cluster import NODE_CORES, NODE_MEMORY_BYTES, Cluster, Collector, until

SETTINGS: dict[str, dict[str, Any]] = {
    "control": {"policy": "", "timer_policy": "energy4cloud", "timer_seconds": 5},
}
_TIMEOUT_SECONDS = 60.0
_KEPT_SECONDS = 20.0
_CORES = NODE_CORES * 0.7
_MEMORY_BYTES = NODE_MEMORY_BYTES // 4


def cut(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Run a container of class 4 on every node, and request half a node for class 1."""
    names = [f"lax{number}" for number in (1, 2, 3)]
    for number, name in enumerate(names, start=1):
        extra = (
            f"--limit-cpu={_CORES}",
            f"--limit-memory={_MEMORY_BYTES}",
            "--label=wattpack.class=4",
        )
        cluster.service(name, "sleep", "100000", on=f"node{number}", extra=extra)
    before = _limits(cluster, names)
    reserve = {"cpu_cores": NODE_CORES / 2, "memory_bytes": _MEMORY_BYTES}
    request = {"reserve": reserve, "class": 1, "service": "strict"}
    until(lambda: _fits_after_a_cut(collector, request), _TIMEOUT_SECONDS)
    decision = collector.post("/v1/room", {**request, "reserve_seconds": _KEPT_SECONDS})
    print(decision["outcome"], decision["reasons"], decision["left"])
    lowered = sum(_limits(cluster, names)[name] < before[name] for name in names)
    # No container starts, so the limits are restored when the reservation ends.
    restored, seconds = until(lambda: _limits(cluster, names) == before, _KEPT_SECONDS + _TIMEOUT_SECONDS)
    return [
        Figure(name="cut_lowered", value=lowered, unit="containers, by docker inspect", at_least=1),
        Figure(
            name="cut_restored",
            value=seconds if restored else None,
            unit="s after the request",
            at_least=_KEPT_SECONDS / 2,
            at_most=_KEPT_SECONDS + _TIMEOUT_SECONDS,
        ),
    ]


def _fits_after_a_cut(collector: Collector, request: dict[str, Any]) -> bool:
    """Whether the collector knows by how much the containers of class 4 may be cut."""
    hint = collector.post("/v1/hints/placement", {**request, "policy": "energy4cloud"})
    return bool(hint["nodes"]) and all(node["needs"] for node in hint["nodes"])


def _limits(cluster: Cluster, names: list[str]) -> dict[str, tuple[float, int]]:
    found = {}
    for name in names:
        (task,) = cluster.running(name)
        host = cluster.swarm.node(str(task.node)).engine.inspect(str(task.container_id))["HostConfig"]
        # An engine reports the same quota in one of two ways.
        cores = host["NanoCpus"] / 1e9 or host["CpuQuota"] / (host["CpuPeriod"] or 100_000)
        found[name] = round(cores, 2), host["Memory"]
    return found
