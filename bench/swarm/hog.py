"""A CPU hog causes a bottleneck on node 2: it must be moved once, and stay there."""

import time
from typing import Any

from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, until
from tests.lab.engines.image import BURN

WITHIN_SECONDS = 60.0
_TIMEOUT_SECONDS = 75.0
STEADY_CORES, HOG_CORES = 0.1, 0.2
"""Together they fill a node; the hog alone stays below the threshold of an alert."""


def hog(cluster: Cluster, collector: Collector, watch_seconds: float) -> list[Figure]:
    """Let two services fill node 2, and observe it for a while after the move."""
    cluster.service("steady", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES}",))
    cluster.service("hog", *BURN, on="node2", extra=(f"--limit-cpu={HOG_CORES}",))
    return _observe_move("hog", cluster, collector, watch_seconds)


COMPRESSED: dict[str, dict[str, Any]] = {"control": {"verdict_seconds": 4}}
"""Decisions get their verdicts after 4 s and 24 s, and not after ten minutes and an hour."""


def judged(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Let the hog be moved, and read what the collector says that it brought."""
    cluster.service("steady", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES}",))
    cluster.service("hog", *BURN, on="node2", extra=(f"--limit-cpu={HOG_CORES}",))
    until(lambda: len(_verdicts(collector)) > 1, 2 * _TIMEOUT_SECONDS)
    verdicts = _verdicts(collector)
    if not verdicts:
        return [Figure(name="judged_verdicts", value=0, unit="verdicts", at_least=1)]
    last, (alert,) = verdicts[-1], verdicts[-1]["alerts"]
    print(f"after {last['after_seconds']:g} s: {last}")
    before, after = alert["used_before"], alert["used_after"]
    return [
        Figure(name="judged_verdicts", value=len(verdicts), unit="verdicts", at_least=1),
        Figure(name="judged_helped", value=int(last["effect"] == "helped"), unit="of 1 run", at_least=1),
        Figure(
            name="judged_taken", value=100 * alert["taken_ratio"], unit="% of the node's CPU use", at_least=5
        ),
        Figure(name="judged_closed", value=alert["closed_seconds"], unit="s after the decision"),
        Figure(name="judged_relieved", value=100 * (before - after), unit="points of CPU", at_least=1),
        Figure(name="judged_short_before", value=last["short_seconds_before"], unit="s short before"),
        Figure(name="judged_short_after", value=last["short_seconds_after"], unit="s short after"),
    ]


def _verdicts(collector: Collector) -> list[dict[str, Any]]:
    return next((each["verdicts"] for each in collector.decisions() if each["outcome"] == "done"), [])


def pinned(cluster: Cluster, collector: Collector, watch_seconds: float) -> list[Figure]:
    """Let a hog that must not move fill node 2: this is explained, and nothing moves instead of it."""
    cluster.service("small", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES / 10:g}",))
    stays = ("--label=wattpack.move=never", f"--limit-cpu={STEADY_CORES + HOG_CORES:g}")
    cluster.service("hog", *BURN, on="node2", extra=stays)
    explained, _ = until(lambda: bool(_explanations(collector)), _TIMEOUT_SECONDS)
    print("; ".join(_explanations(collector)))
    time.sleep(watch_seconds)
    steps = sum(len(each["steps"]) for each in collector.decisions())
    moved = sum(cluster.places(name) != ["node2"] for name in ("small", "hog"))
    return [
        Figure(name="pinned_explained", value=int(bool(explained)), unit="of 1 run", at_least=1),
        Figure(name="pinned_steps", value=steps, unit=f"steps within {watch_seconds:g} s", at_most=0),
        Figure(name="pinned_moved", value=moved, unit="services", at_most=0),
    ]


def _explanations(collector: Collector) -> list[str]:
    """Return why the shortage of node 2 stays, where this names the hog."""
    left = [each for decision in collector.decisions() for each in decision["left"]]
    return [each for each in left if each.startswith("node2 stays short") and "hog" in each]


def unlimited(cluster: Cluster, collector: Collector, watch_seconds: float) -> list[Figure]:
    """Use a hog without limits, which fills any node: it is still moved only once."""
    cluster.service("steady", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES / 2}",))
    cluster.service("hog", *BURN, on="node2")
    return _observe_move("unlimited_hog", cluster, collector, watch_seconds)


REPEATED: dict[str, dict[str, Any]] = {
    "control": {"settle_seconds": 2, "max_moves_per_hour": 1000},
}
"""Runs are independent: none waits for the effect of the previous one, and moves have no common limit."""


def repeated(cluster: Cluster, collector: Collector, runs: int = 20) -> list[Figure]:
    """Run with new services each time; count the runs in which only the hog is moved."""
    moved = 0
    for number in range(runs):
        steady, name = f"steady{number}", f"hog{number}"
        cluster.service(steady, *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES}",))
        # The other service starts earlier, so that the last window has more of its usage than of the hog's.
        time.sleep(number % 7)
        cluster.service(name, *BURN, on="node2", extra=(f"--limit-cpu={HOG_CORES}",))
        until(lambda: _is_separated(cluster.places(name), cluster.places(steady)), _TIMEOUT_SECONDS)  # noqa: B023
        moved += cluster.places(steady) == ["node2"] and cluster.places(name) not in ([], ["node2"])
        print(f"run {number}: hog on {cluster.places(name)}, steady on {cluster.places(steady)}")
        until(lambda: not _is_running(collector), _TIMEOUT_SECONDS)
        cluster.remove(steady, name)
        until(lambda: not collector.alerts(), _TIMEOUT_SECONDS)
    return [Figure(name="hog_repeated_moved", value=moved, unit=f"of {runs} runs", at_least=runs)]


def _is_running(collector: Collector) -> bool:
    return any(each["outcome"] == "running" for each in collector.decisions())


def _observe_move(what: str, cluster: Cluster, collector: Collector, watch_seconds: float) -> list[Figure]:
    began = time.monotonic()
    _, alerted = until(lambda: any(each["node"] == "node2" for each in collector.alerts()), _TIMEOUT_SECONDS)
    moved, _ = until(lambda: _is_separated(cluster.places("hog"), cluster.places("steady")), _TIMEOUT_SECONDS)
    moved_seconds = time.monotonic() - began
    healed, _ = until(
        lambda: not any(each["node"] == "node2" for each in collector.alerts()), _TIMEOUT_SECONDS
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


def _is_separated(one: list[str], other: list[str]) -> bool:
    return len(one) == len(other) == 1 and one != other
