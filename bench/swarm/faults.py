"""Faults: a killed collector, two collectors, a stopped manager, a dead target, a node without network."""

import signal
import time
from collections.abc import Callable
from typing import Any

from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, until
from bench.swarm.hog import HOG_CORES, STEADY_CORES
from tests.lab.engines.image import BURN

_TIMEOUT_SECONDS = 75.0
_NAMES = ("hog", "steady")
_QUIET_SECONDS = 5.0
_CUT_OFF_SECONDS = 10.0
Move = dict[str, Any]
"""A move in the journal."""


def _fill(cluster: Cluster) -> None:
    cluster.service("steady", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES}",))
    cluster.service("hog", *BURN, on="node2", extra=(f"--limit-cpu={HOG_CORES}",))


def _count_lost(cluster: Cluster) -> int:
    """Count the services that do not run exactly once."""
    until(lambda: all(len(cluster.places(name)) == 1 for name in _NAMES), _TIMEOUT_SECONDS)
    return sum(len(cluster.places(name)) != 1 for name in _NAMES)


def _count_restarts(cluster: Cluster) -> int:
    """Count the restarts of services."""
    started = [{task.container_id for task in cluster.swarm.tasks(name)} - {None} for name in _NAMES]
    return sum(len(each) - 1 for each in started)


def _count_constrained(cluster: Cluster) -> int:
    """Count the tasks with constraints, which only the collector sets."""
    tasks = cluster.swarm.manager.get("/tasks")
    return sum(bool(task["Spec"].get("Placement", {}).get("Constraints")) for task in tasks)


def killed(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Kill the collector as soon as a step has started, and start it again with its journal."""
    _fill(cluster)

    def find_started() -> str | None:
        running = [each for each in collector.decisions() if each["outcome"] == "running"]
        return next((each["id"] for each in running if each["steps"][0]["state"] != "planned"), None)

    name, _ = until(find_started, _TIMEOUT_SECONDS)
    collector.process.end(signal.SIGKILL)
    again = cluster.collector()

    def find_outcome() -> str | None:
        (decision,) = again.decisions(id=str(name))
        return decision["outcome"] if decision["ended_at"] is not None else None

    outcome, seconds = until(find_outcome, _TIMEOUT_SECONDS)
    (decision,) = again.decisions(id=str(name))
    print(decision["outcome"], [(step["state"], step["what"], step["why"]) for step in decision["steps"]])
    return [
        Figure(
            name="killed_record_closed",
            value=seconds if outcome else None,
            unit="s after the restart",
            at_most=70,
        ),
        Figure(name="killed_services_lost", value=_count_lost(cluster), unit="services", at_most=0),
        Figure(name="killed_moves", value=_count_restarts(cluster), unit="moves", at_most=1),
    ]


def two(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Run two collectors with the same lease and the same reports: only one acts."""
    # Each collector has its own agents, with the same reports.
    other = cluster.second(collector)
    _fill(cluster)
    until(lambda: _is_separated(cluster) and not _has_alert(collector), _TIMEOUT_SECONDS)
    time.sleep(5)
    acting = [each.get("/v1/control")["active"] for each in (collector, other)]
    for each in (*collector.decisions(), *other.decisions()):
        print(each["at"], each["outcome"], [(step["action"]["name"], step["why"]) for step in each["steps"]])
    return [
        Figure(name="two_acting", value=sum(acting), unit="collectors that act", at_most=1, at_least=1),
        Figure(name="two_moves", value=_count_restarts(cluster), unit="moves", at_most=1, at_least=1),
        Figure(name="two_services_lost", value=_count_lost(cluster), unit="services", at_most=0),
    ]


def _is_separated(cluster: Cluster) -> bool:
    return len({*cluster.places("hog"), *cluster.places("steady")}) > 1


def _has_alert(collector: Collector) -> bool:
    return any(each["node"] == "node2" for each in collector.alerts())


def away(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Stop the manager's engine while a bottleneck opens, and start it again."""
    _fill(cluster)
    manager = cluster.swarm.manager
    manager.stop_daemon()
    until(lambda: collector.get("/v1/control")["problem"], _TIMEOUT_SECONDS)
    trouble = collector.get("/v1/control")["problem"]
    decisions, _ = until(
        lambda: [each for each in collector.decisions() if each["trouble"]], _TIMEOUT_SECONDS
    )
    manager.start_daemon()
    healed, _ = until(lambda: _is_separated(cluster) and not _has_alert(collector), 2 * _TIMEOUT_SECONDS)
    for each in decisions or ():
        print(each["outcome"], each["left"], [step["why"] for step in each["steps"]], each["trouble"])
    return [
        Figure(name="away_reported", value=float(bool(trouble)), unit="times", at_least=1),
        Figure(
            name="away_on_record",
            value=len(decisions or ()),
            unit="decisions that record it",
            at_least=1,
        ),
        Figure(name="away_healed_afterwards", value=float(bool(healed)), unit="times", at_least=1),
        Figure(name="away_moves", value=_count_constrained(cluster), unit="starts that we caused", at_most=1),
        # After its restart, a manager may consider nodes as down, and restart their tasks.
        Figure(name="away_starts", value=_count_restarts(cluster), unit="starts, including Swarm's own"),
        Figure(name="away_services_lost", value=_count_lost(cluster), unit="services", at_most=0),
    ]


def dead_target(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Kill the target as soon as a move to it has started."""

    def die(move: Move) -> None:
        cluster.swarm.kill(cluster.swarm.node(move["target"]))
        cluster.agents[move["target"]].end()

    return _inject_fault("dead_target", cluster, collector, die)


def cut_off(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Cut the network of the source as soon as a move from it has started, and restore it."""

    def cut(move: Move) -> None:
        node, agent = cluster.swarm.node(move["node"]), cluster.agents[move["node"]]
        cluster.swarm.cut(node)
        agent.freeze()
        until(lambda: cluster.swarm.node_states()[node.name] == "down", _TIMEOUT_SECONDS)
        time.sleep(_CUT_OFF_SECONDS)
        cluster.swarm.heal(node)
        agent.thaw()

    return _inject_fault("cut_off", cluster, collector, cut)


def _inject_fault(
    what: str, cluster: Cluster, collector: Collector, inject: Callable[[Move], None]
) -> list[Figure]:
    """Inject a fault during a move; afterwards, every service must run exactly once."""
    # Fill the manager's node, so that it is not the target: a cluster without a manager is another case.
    cluster.service("filler", *BURN, on="node1", extra=("--limit-cpu=0.12",))
    _fill(cluster)

    def find_started() -> tuple[str, Move] | None:
        steps = [(each["id"], step) for each in collector.decisions() for step in each["steps"]]
        return next(
            ((name, step["action"]) for name, step in steps if step["state"] == "started"),
            None,
        )

    found, _ = until(find_started, _TIMEOUT_SECONDS)
    ended_at = None
    if found is not None:
        name, move = found
        inject(move)
        ended_at, _ = until(lambda: collector.decisions(id=name)[0]["ended_at"], 2 * _TIMEOUT_SECONDS)
        for step in collector.decisions(id=name)[0]["steps"]:
            print(what, step["action"]["name"], step["action"]["target"], step["state"], step["why"])
    return [
        Figure(name=f"{what}_struck", value=float(found is not None), unit="moves", at_least=1),
        Figure(name=f"{what}_on_record", value=float(bool(ended_at)), unit="outcomes", at_least=1),
        Figure(name=f"{what}_services_lost", value=_count_lost(cluster), unit="services", at_most=0),
    ]


def dry(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Use the driver `none`: a plan is recorded, and no engine gets a request."""
    # No agent reports the bottleneck before the services have started.
    for agent in cluster.agents.values():
        agent.freeze()
    _fill(cluster)
    until(lambda: not _events(cluster, time.time() - _QUIET_SECONDS), _TIMEOUT_SECONDS)
    since = time.time()
    for agent in cluster.agents.values():
        agent.thaw()
    planned, seconds = until(
        lambda: [each for each in collector.decisions() if each["outcome"] == "dry"], _TIMEOUT_SECONDS
    )
    time.sleep(_QUIET_SECONDS)
    return [
        Figure(
            name="dry_planned",
            value=seconds if planned else None,
            unit="s until a plan is on record",
            at_most=60,
        ),
        Figure(name="dry_engine_events", value=len(_events(cluster, since)), unit="events", at_most=0),
    ]


def _events(cluster: Cluster, since: float) -> list[str]:
    """Return all events of the engines since a time."""
    span = (f"--since={since:.3f}", f"--until={time.time():.3f}")
    return [line for node in cluster.swarm.nodes for line in node.engine.docker("events", *span).splitlines()]
