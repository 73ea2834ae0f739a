"""Three lightly used nodes become two, the third is switched off, and comes back when load rises."""

import time
from typing import Any

from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, until
from tests.lab.engines.image import BURN

_NODES = ("node1", "node2", "node3")
_TIMEOUT_SECONDS = 240.0
_WITHIN_SECONDS = 90.0
_LIGHT_CORES, _HEAVY_CORES = 0.1, 0.2
"""Three light services need two nodes, three heavy ones all."""
_MEASURED_SECONDS = 20.0
_ENERGY = f"J in {_MEASURED_SECONDS:g} s, by the power model"
AGENTS = {"reporting.heartbeat_seconds": 10}
"""A node is emptied only after its containers were observed for a while. Their usage is in heartbeats, which
come every five minutes by default."""
_SETTINGS: dict[str, dict[str, Any]] = {
    "control": {"timer_policy": "least-watts", "timer_seconds": 5, "cool_down_seconds": 20},
    "policies": {
        # By default, it takes an hour to learn that the load is steady.
        "least-watts": {
            "cool_down_seconds": 5,
            "no_return_seconds": 30,
            "short_ratio": 0.25,
            "moves_per_day": 100,
        },
        "draps": {"cool_down_seconds": 5},
    },
}


def consolidation(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Measure energy without actions; then let the nodes be packed, one switched off, and needed again."""
    hook = cluster.folder / "power"
    hook.write_text(f'#!/bin/sh\necho "$@" >> {cluster.folder}/power.log\n', encoding="ascii")
    hook.chmod(0o755)
    driver = {"power_off_command": f"{hook} off", "power_on_command": f"{hook} on"}
    for number, node in enumerate(_NODES, start=1):
        cluster.service(f"light{number}", *BURN, on=node, extra=(f"--limit-cpu={_LIGHT_CORES}",))
    spread_joules = _joules(collector)
    collector.process.end()
    collector = cluster.collector({"driver": driver, **_SETTINGS})
    _, planned_seconds = until(collector.decisions, _TIMEOUT_SECONDS)
    off, acted_seconds = until(lambda: "off" in _called(cluster), _TIMEOUT_SECONDS)
    packed_joules = _joules(collector)
    left_on = sum(node["placement"]["on"] for node in collector.get("/v1/nodes")["nodes"])
    for number in (1, 2, 3):
        cluster.swarm.manager.docker(
            "service", "update", "--detach", f"--limit-cpu={_HEAVY_CORES}", f"light{number}"
        )
    on, back_seconds = until(lambda: "on" in _called(cluster), _TIMEOUT_SECONDS)
    for decision in collector.decisions():
        print(
            decision["outcome"],
            decision["left"],
            [(step["action"]["kind"], step["state"], step["why"]) for step in decision["steps"]],
        )
    return [
        Figure(name="consolidation_planned", value=planned_seconds, unit="s until there is a plan"),
        Figure(
            name="consolidation_off",
            value=planned_seconds + acted_seconds if off else None,
            unit="s until the hook",
            at_most=_WITHIN_SECONDS,
        ),
        Figure(name="consolidation_nodes", value=left_on, unit="of 3 nodes left on", at_least=2, at_most=2),
        Figure(
            name="consolidation_on",
            value=back_seconds if on else None,
            unit="s until the hook",
            at_most=_WITHIN_SECONDS,
        ),
        Figure(name="consolidation_spread", value=spread_joules, unit=_ENERGY),
        Figure(name="consolidation_packed", value=packed_joules, unit=_ENERGY, at_most=spread_joules),
    ]


def _called(cluster: Cluster) -> list[str]:
    log = cluster.folder / "power.log"
    return log.read_text(encoding="ascii").split() if log.exists() else []


def _joules(collector: Collector) -> float:
    """Measure the energy of the nodes that are switched on."""
    sums: list[float] = []
    end = time.monotonic() + _MEASURED_SECONDS
    while time.monotonic() < end:
        nodes = collector.get("/v1/nodes")["nodes"]
        sums.append(
            sum(node["power"]["watts"] for node in nodes if node["power"] and node["placement"]["on"])
        )
        time.sleep(1)
    return sum(sums) / len(sums) * _MEASURED_SECONDS
