"""A CPU hog makes a bottleneck on node 2: who notices, who moves it, and whether it stays moved."""

import time
from typing import Any

from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, until
from tests.lab.engines.image import BURN

WITHIN_SECONDS = 60.0
_PATIENCE_SECONDS = 75.0
STEADY_CORES, HOG_CORES = 0.1, 0.2
"""Together they fill a node; the hog alone leaves one below the limit of an alert."""


def hog(cluster: Cluster, collector: Collector, watch_seconds: float) -> list[Figure]:
    """Two services share node 2 until one takes all of it; then the node is watched for a while."""
    cluster.service("steady", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES}",))
    cluster.service("hog", *BURN, on="node2", extra=(f"--limit-cpu={HOG_CORES}",))
    return _healed("hog", cluster, collector, watch_seconds)


def unlimited(cluster: Cluster, collector: Collector, watch_seconds: float) -> list[Figure]:
    """The same with a hog without limits: it fills any node, and is moved once nevertheless."""
    cluster.service("steady", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES / 2}",))
    cluster.service("hog", *BURN, on="node2")
    return _healed("unlimited_hog", cluster, collector, watch_seconds)


REPEATED: dict[str, dict[str, Any]] = {
    "control": {"settle_seconds": 2, "max_moves_per_hour": 1000},
}
"""Each run is a case of its own: it does not wait for the effect of the last, and has no budget in common."""


def repeated(cluster: Cluster, collector: Collector, runs: int = 20) -> list[Figure]:
    """Every run has services of its own; counts those in which the hog is moved, and not the other."""
    moved = 0
    for number in range(runs):
        steady, name = f"steady{number}", f"hog{number}"
        cluster.service(steady, *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES}",))
        # The other service has used the node for a while: the last window shows more of it than of the hog.
        time.sleep(number % 7)
        cluster.service(name, *BURN, on="node2", extra=(f"--limit-cpu={HOG_CORES}",))
        until(lambda: _apart(cluster.places(name), cluster.places(steady)), _PATIENCE_SECONDS)  # noqa: B023
        moved += cluster.places(steady) == ["node2"] and cluster.places(name) not in ([], ["node2"])
        print(f"run {number}: hog on {cluster.places(name)}, steady on {cluster.places(steady)}")
        until(lambda: not _under_way(collector), _PATIENCE_SECONDS)
        cluster.remove(steady, name)
        until(lambda: not collector.alerts(), _PATIENCE_SECONDS)
    return [Figure(name="hog_repeated_moved", value=moved, unit=f"of {runs} runs", at_least=runs)]


def _under_way(collector: Collector) -> bool:
    return any(each["outcome"] == "running" for each in collector.decisions())


def _healed(what: str, cluster: Cluster, collector: Collector, watch_seconds: float) -> list[Figure]:
    began = time.monotonic()
    _, alerted = until(lambda: any(each["node"] == "node2" for each in collector.alerts()), _PATIENCE_SECONDS)
    moved, _ = until(lambda: _apart(cluster.places("hog"), cluster.places("steady")), _PATIENCE_SECONDS)
    moved_seconds = time.monotonic() - began
    healed, _ = until(
        lambda: not any(each["node"] == "node2" for each in collector.alerts()), _PATIENCE_SECONDS
    )
    healed_seconds = time.monotonic() - began
    after = {name: cluster.places(name) for name in ("hog", "steady")}
    time.sleep(watch_seconds)
    done = [each for each in collector.decisions() if each["outcome"] in {"done", "partly", "failed"}]
    changed = sum(cluster.places(name) != places for name, places in after.items())
    return [
        Figure(name=f"{what}_alert", value=alerted, unit="s after the hog ran"),
        Figure(name=f"{what}_moved", value=moved_seconds if moved else None, unit="s after the hog ran"),
        Figure(
            name=f"{what}_healed",
            value=healed_seconds if healed and moved else None,
            unit="s after the hog ran",
            at_most=WITHIN_SECONDS,
        ),
        Figure(
            name=f"{what}_is_what_moved",
            value=int(after["hog"] != ["node2"] and after["steady"] == ["node2"]),
            unit="of 1 run",
            at_least=1,
        ),
        Figure(
            name=f"{what}_decisions_carried_out", value=len(done), unit="decisions", at_most=1, at_least=1
        ),
        Figure(
            name=f"{what}_moved_again",
            value=changed,
            unit=f"services within {watch_seconds:g} s afterwards",
            at_most=0,
        ),
    ]


def _apart(one: list[str], other: list[str]) -> bool:
    return len(one) == len(other) == 1 and one != other
