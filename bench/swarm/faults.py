"""What goes wrong: a collector killed, two alive, a manager away, a target dead, a node cut off."""

import signal
import time
from collections.abc import Callable
from typing import Any

from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, until
from bench.swarm.hog import HOG_CORES, STEADY_CORES
from tests.lab.engines.image import BURN

_PATIENCE_SECONDS = 75.0
_NAMES = ("hog", "steady")
_QUIET_SECONDS = 5.0
_CUT_OFF_SECONDS = 10.0
Move = dict[str, Any]
"""A move as it is on record."""


def _fill(cluster: Cluster) -> None:
    cluster.service("steady", *BURN, on="node2", extra=(f"--limit-cpu={STEADY_CORES}",))
    cluster.service("hog", *BURN, on="node2", extra=(f"--limit-cpu={HOG_CORES}",))


def _lost(cluster: Cluster) -> int:
    """Services that do not run exactly once."""
    until(lambda: all(len(cluster.places(name)) == 1 for name in _NAMES), _PATIENCE_SECONDS)
    return sum(len(cluster.places(name)) != 1 for name in _NAMES)


def _moves(cluster: Cluster) -> int:
    """How often anything was started elsewhere."""
    started = [{task.container_id for task in cluster.swarm.tasks(name)} - {None} for name in _NAMES]
    return sum(len(each) - 1 for each in started)


def _steered(cluster: Cluster) -> int:
    """How often Swarm started anything under constraints: those are ours, as these services have none."""
    tasks = cluster.swarm.manager.get("/tasks")
    return sum(bool(task["Spec"].get("Placement", {}).get("Constraints")) for task in tasks)


def killed(cluster: Cluster, collector: Collector) -> list[Figure]:
    """The collector is killed as soon as a step is begun, and started again on its record."""
    _fill(cluster)

    def begun() -> str | None:
        running = [each for each in collector.decisions() if each["outcome"] == "running"]
        return next((each["id"] for each in running if each["steps"][0]["state"] != "planned"), None)

    name, _ = until(begun, _PATIENCE_SECONDS)
    collector.process.end(signal.SIGKILL)
    again = cluster.collector()

    def over() -> str | None:
        (decision,) = again.decisions(id=str(name))
        return decision["outcome"] if decision["ended_at"] is not None else None

    outcome, seconds = until(over, _PATIENCE_SECONDS)
    (decision,) = again.decisions(id=str(name))
    print(decision["outcome"], [(step["state"], step["what"], step["why"]) for step in decision["steps"]])
    return [
        Figure(
            name="killed_record_closed",
            value=seconds if outcome else None,
            unit="s after the restart",
            at_most=70,
        ),
        Figure(name="killed_services_lost", value=_lost(cluster), unit="services", at_most=0),
        Figure(name="killed_moves", value=_moves(cluster), unit="moves", at_most=1),
    ]


def two(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Two collectors with the same lease and the same reports: only one acts."""
    # Agents report to one; the other reads the same reports as if they had been sent to both.
    other = cluster.second(collector)
    _fill(cluster)
    until(lambda: _is_apart(cluster) and not _short(collector), _PATIENCE_SECONDS)
    time.sleep(5)
    acting = [each.get("/v1/control")["active"] for each in (collector, other)]
    for each in (*collector.decisions(), *other.decisions()):
        print(each["at"], each["outcome"], [(step["action"]["name"], step["why"]) for step in each["steps"]])
    return [
        Figure(name="two_acting", value=sum(acting), unit="collectors that act", at_most=1, at_least=1),
        Figure(name="two_moves", value=_moves(cluster), unit="moves", at_most=1, at_least=1),
        Figure(name="two_services_lost", value=_lost(cluster), unit="services", at_most=0),
    ]


def _is_apart(cluster: Cluster) -> bool:
    return len({*cluster.places("hog"), *cluster.places("steady")}) > 1


def _short(collector: Collector) -> bool:
    return any(each["node"] == "node2" for each in collector.alerts())


def away(cluster: Cluster, collector: Collector) -> list[Figure]:
    """The manager stops answering while a bottleneck opens, and comes back."""
    _fill(cluster)
    manager = cluster.swarm.manager
    manager.stop_daemon()
    until(lambda: collector.get("/v1/control")["problem"], _PATIENCE_SECONDS)
    trouble = collector.get("/v1/control")["problem"]
    decisions, _ = until(
        lambda: [each for each in collector.decisions() if each["trouble"]], _PATIENCE_SECONDS
    )
    manager.start_daemon()
    healed, _ = until(lambda: _is_apart(cluster) and not _short(collector), 2 * _PATIENCE_SECONDS)
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
        Figure(name="away_moves", value=_steered(cluster), unit="starts that we caused", at_most=1),
        # A manager that comes back may take its nodes for down, and restart all that ran there.
        Figure(name="away_starts", value=_moves(cluster), unit="starts, Swarm's own among them"),
        Figure(name="away_services_lost", value=_lost(cluster), unit="services", at_most=0),
    ]


def dead_target(cluster: Cluster, collector: Collector) -> list[Figure]:
    """The target dies as soon as a move to it is begun."""

    def die(move: Move) -> None:
        cluster.swarm.kill(cluster.swarm.node(move["target"]))
        cluster.agents[move["target"]].end()

    return _struck("dead_target", cluster, collector, die)


def cut_off(cluster: Cluster, collector: Collector) -> list[Figure]:
    """The source loses its link as soon as a move from it is begun, and gets it back."""

    def cut(move: Move) -> None:
        node, agent = cluster.swarm.node(move["node"]), cluster.agents[move["node"]]
        cluster.swarm.cut(node)
        agent.freeze()
        until(lambda: cluster.swarm.node_states()[node.name] == "down", _PATIENCE_SECONDS)
        time.sleep(_CUT_OFF_SECONDS)
        cluster.swarm.heal(node)
        agent.thaw()

    return _struck("cut_off", cluster, collector, cut)


def _struck(
    what: str, cluster: Cluster, collector: Collector, strike: Callable[[Move], None]
) -> list[Figure]:
    """Let something happen in the middle of a move; whatever comes of it, everything runs once."""
    # The manager is no target: a cluster without it is another case.
    cluster.service("filler", *BURN, on="node1", extra=("--limit-cpu=0.12",))
    _fill(cluster)

    def begun() -> tuple[str, Move] | None:
        steps = [(each["id"], step) for each in collector.decisions() for step in each["steps"]]
        return next(
            ((name, step["action"]) for name, step in steps if step["state"] == "started"),
            None,
        )

    found, _ = until(begun, _PATIENCE_SECONDS)
    over = None
    if found is not None:
        name, move = found
        strike(move)
        over, _ = until(lambda: collector.decisions(id=name)[0]["ended_at"], 2 * _PATIENCE_SECONDS)
        for step in collector.decisions(id=name)[0]["steps"]:
            print(what, step["action"]["name"], step["action"]["target"], step["state"], step["why"])
    return [
        Figure(name=f"{what}_struck", value=float(found is not None), unit="moves", at_least=1),
        Figure(name=f"{what}_on_record", value=float(bool(over)), unit="outcomes", at_least=1),
        Figure(name=f"{what}_services_lost", value=_lost(cluster), unit="services", at_most=0),
    ]


def dry(cluster: Cluster, collector: Collector) -> list[Figure]:
    """The driver `none`: a plan on record, and not a word to any engine."""
    # No agent reports the bottleneck until the start of the services is over.
    for agent in cluster.agents.values():
        agent.freeze()
    _fill(cluster)
    until(lambda: not _events(cluster, time.time() - _QUIET_SECONDS), _PATIENCE_SECONDS)
    since = time.time()
    for agent in cluster.agents.values():
        agent.thaw()
    planned, seconds = until(
        lambda: [each for each in collector.decisions() if each["outcome"] == "dry"], _PATIENCE_SECONDS
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
    """The events of the engines since then: of containers, services, nodes, and others."""
    span = (f"--since={since:.3f}", f"--until={time.time():.3f}")
    return [line for node in cluster.swarm.nodes for line in node.engine.docker("events", *span).splitlines()]
