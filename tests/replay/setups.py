"""Small set-ups that can be calculated by hand."""

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.config import CollectorConfig
from collector.decide.policies.interface import Plan, Policy, PolicySettings, Ranking, Rejection, Request
from collector.decide.policies.resolve import PolicyChoice
from collector.snapshot.tables import Snapshot
from replay.contenders.table import POLICIES
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Host, Simulation
from replay.setup.workload import Recorded, Workload
from replay.simulation.policy_runs import PolicyRun
from replay.simulation.results import Outcome
from replay.simulation.run import run

GIGABYTE = 1 << 30
PLAIN = Host(name="node", cpu_cores=1, memory_mb=1024, watts=(100, 200))
CALM = Simulation(delay_seconds=0.0)


class Always:
    """Every container uses the same all the time."""

    def __init__(self, *used: tuple[float, float]) -> None:
        self.used = np.array([[cpu, memory, 0.0, 0.0] for cpu, memory in used])

    @property
    def resources(self) -> int:
        return 4

    def at(self, seconds: float, rows: Rows, since: Floats) -> Floats:
        del seconds, since
        return self.used[rows].copy()


def workload(
    *used: tuple[float, float],
    seconds: float = 600.0,
    arrivals: Sequence[float] | None = None,
    lifetimes: Sequence[float] | None = None,
    kind: int = 0,
    requested: Sequence[tuple[float, float]] | None = None,
) -> Workload:
    """Containers a, b, c, ... of cores and bytes; they ask for what they use."""
    count = len(used)
    asked = np.full((count, 4), np.nan)
    asked[:, :2] = used if requested is None else requested
    return Workload(
        ids=tuple("abcdefghij"[:count]),
        services=tuple("abcdefghij"[:count]),
        requested=asked,
        use=Always(*used),
        duration_seconds=seconds,
        step_seconds=60.0,
        arrival_seconds=np.zeros(count) if arrivals is None else np.array(arrivals),
        lifetime_seconds=np.full(count, inf) if lifetimes is None else np.array(lifetimes),
        task_class=np.ones(count, dtype=np.int8),
        kind=np.full(count, kind, dtype=np.int8),
    )


def recorded(*percent: Sequence[float], cores: float = 1.0, step_seconds: float = 300.0) -> Recorded:
    """CPU of containers, step by step."""
    values = (np.array(percent) / 100 * cores).astype(np.float32)
    return Recorded.of_all(step_seconds, values[:, :, None])


def scripted(
    place: dict[str, str], plans: Callable[[Snapshot], Plan] | None = None, name: str = "scripted"
) -> Policy:
    """A policy with a given plan."""

    def chosen(snapshot: Snapshot, request: Request, settings: PolicySettings) -> Ranking:
        del settings
        assert request.service is not None
        row = snapshot.nodes.index[place[request.service]]
        refused = np.full(len(snapshot.nodes.names), Rejection.EXCLUDED, dtype=np.int8)
        refused[row] = Rejection.NOT
        return Ranking(
            rows=np.array([row]), scores=np.ones(1), score_is="fixed", refused=refused, explain=lambda _: ()
        )

    return Policy(
        name=name,
        summary="returns a given plan",
        place=chosen,
        rebalance=None if plans is None else lambda snapshot, _: plans(snapshot),
    )


def simulate(  # noqa: PLR0913 - the parts of a run
    policy: Policy | str,
    hosts: Sequence[Host],
    containers: Workload,
    simulation: Simulation = CALM,
    *,
    config: CollectorConfig | None = None,
    earlier: Workload | None = None,
    alerts: Policy | None = None,
) -> Outcome:
    """Run it."""
    chosen = POLICIES[policy] if isinstance(policy, str) else policy
    choice = PolicyChoice(chosen, chosen.settings())
    policy_run = PolicyRun(
        name=chosen.name,
        chosen=choice,
        timer=None if chosen.rebalance is None else choice,
        alerts=None if alerts is None else PolicyChoice(alerts, alerts.settings()),
        collector=config or CollectorConfig(),
        simulation=simulation,
    )
    return run(policy_run, build_hosts(hosts), containers, earlier, lambda _: None)
