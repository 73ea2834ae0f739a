"""Three lightly used nodes become two, the third is switched off, and comes back when load rises."""

import time
from typing import Any

from bench.frame import Figure
from bench.swarm_scenarios.cluster import Cluster, Collector, until
from tests.lab.image import BURN

_NODES = ("node1", "node2", "node3")
_PATIENCE_SECONDS = 120.0
_LIGHT_CORES, _HEAVY_CORES = 0.04, 0.2
_MEASURED_SECONDS = 20.0
SETTINGS: dict[str, dict[str, Any]] = {
    "acting": {"timer_policy": "least-watts", "every_seconds": 5, "cool_down_seconds": 20},
    "policies": {
        "least-watts": {"cool_down_seconds": 5, "no_return_seconds": 30},
        "draps": {"cool_down_seconds": 5},
    },
}


def consolidation(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Pack, switch off, load, switch on."""
    hook = cluster.folder / "power"
    hook.write_text(f'#!/bin/sh\necho "$@" >> {cluster.folder}/power.log\n', encoding="ascii")
    hook.chmod(0o755)
    driver = {"power_off_command": f"{hook} off", "power_on_command": f"{hook} on"}
    collector.process.end()
    for number, node in enumerate(_NODES, start=1):
        cluster.service(f"light{number}", *BURN, on=node, extra=(f"--limit-cpu={_LIGHT_CORES}",))
    collector = cluster.collector({"driver": driver, **SETTINGS})
    spread_watts = _watts(collector)
    off, seconds = until(lambda: "off" in _called(cluster), _PATIENCE_SECONDS)
    packed_watts = _watts(collector)
    for number in (1, 2, 3):
        cluster.swarm.manager.docker(
            "service", "update", "--detach", f"--limit-cpu={_HEAVY_CORES}", f"light{number}"
        )
    on, back_seconds = until(lambda: "on" in _called(cluster), _PATIENCE_SECONDS)
    for decision in collector.decisions():
        print(
            decision["outcome"],
            decision["left"],
            [(step["act"]["kind"], step["state"], step["why"]) for step in decision["steps"]],
        )
    return [
        Figure(
            name="consolidation_off",
            value=seconds if off else None,
            unit="s until the hook",
            at_most=_PATIENCE_SECONDS,
        ),
        Figure(
            name="consolidation_on",
            value=back_seconds if on else None,
            unit="s until the hook",
            at_most=_PATIENCE_SECONDS,
        ),
        Figure(name="consolidation_watts_spread", value=spread_watts, unit="W by the power model"),
        Figure(
            name="consolidation_watts_packed",
            value=packed_watts,
            unit="W by the power model",
            at_most=spread_watts,
        ),
    ]


def _called(cluster: Cluster) -> list[str]:
    log = cluster.folder / "power.log"
    return log.read_text(encoding="ascii").split() if log.exists() else []


def _watts(collector: Collector) -> float:
    """The mean draw of the nodes that are on."""
    sums: list[float] = []
    end = time.monotonic() + _MEASURED_SECONDS
    while time.monotonic() < end:
        nodes = collector.get("/v1/nodes")["nodes"]
        sums.append(
            sum(node["power"]["watts"] for node in nodes if node["power"] and node["placement"]["on"])
        )
        time.sleep(1)
    return sum(sums) / len(sums)
