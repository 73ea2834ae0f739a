"""Equivalence of a live collector and replay's: the same reports must lead to the same columns and plans."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from http import HTTPStatus
from typing import Any, ClassVar

import aiohttp
import msgspec
import numpy as np

from collector.config import (
    AccessConfig,
    AnalysisConfig,
    CollectorConfig,
    ControlConfig,
    HistoryConfig,
    HttpConfig,
)
from collector.decide.policies.resolve import resolve
from collector.main import RunningCollector, running
from collector.observe.updates import Succession
from collector.snapshot.columns import sum_by_node
from collector.snapshot.tables import Snapshot
from collector.snapshot.windows import TaskWindows
from replay.setup.hosts import MEBIBYTE, Hosts, build_hosts
from replay.setup.scenario import Host
from replay.setup.workload import Steady, Workload, build_workload, columns, numbered
from replay.simulation.agents.agents import HostLoad, SimulatedAgents
from replay.simulation.agents.samples import AgentSettings
from replay.simulation.cluster import unix
from replay.simulation.collector import SimulatedCollector
from wire.messages import MAX_BATCH, Report, encode

_ANALYSIS_SECONDS, _PLAN_SECONDS = 60.0, 300.0
_NEVER_SECONDS = 86_400.0
_CPU = 0
_SEED = 7
_LATE_RATIO = 0.2
"""Share of containers that start later, and share that end."""


@dataclass(slots=True)
class Equivalence:
    """Number of compared plans, and the differences."""

    reports: int = 0
    plans: int = 0
    actions: int = 0
    """Actions in all plans."""
    different_plans: list[float] = field(default_factory=list)
    """Seconds at which the plans differed."""
    different_columns: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Clock:
    now: float

    def __call__(self) -> float:
        return self.now


async def compare_collectors(  # noqa: PLR0913 - the size of the cluster
    *,
    hours: float,
    hosts: int = 12,
    containers: int = 100,
    sample_seconds: float = 15.0,
    policy: str = "least-watts",
    progress: Callable[[float], None] = lambda _: None,
) -> Equivalence:
    """Let simulated agents report to both for some hours, and request a plan of both every five minutes."""
    cluster = build_hosts(
        [Host(name="host", count=hosts, cpu_cores=8, memory_mb=16384, watts=(60, 110, 150))]
    )
    load = make_workload(containers, hours * 3600)
    agents = SimulatedAgents(cluster, load, AgentSettings.sampling_every(sample_seconds))
    clock = _Clock(unix(0.0))
    replayed = SimulatedCollector(_config())
    chosen = resolve(policy, {}, "rebalance")
    equivalence = Equivalence()
    async with _live(clock) as (live, post):
        # Both make their first pass before the first report; a full pass follows every hour.
        await live.analysis.analyse()
        replayed.analyse(clock.now)

        async def deliver(reports: list[Report], now: float) -> None:
            clock.now = now
            for start in range(0, len(reports), MAX_BATCH):
                await post("/v1/reports", encode(reports[start : start + MAX_BATCH]))
            replayed.receive(reports, now)
            equivalence.reports += len(reports)

        first = [agents.boot(host, unix(0.0)) for host in range(hosts)]
        await deliver([each for each in first if each is not None], unix(0.0))
        placement = SimulatedPlacement(cluster, load, agents)
        for tick in range(1, int(hours * 3600 / sample_seconds) + 1):
            seconds = tick * sample_seconds
            load_now = placement.load(seconds)
            for registry in (live.core.registry, replayed.registry):
                registry.add_successions(placement.moves)
            await deliver(agents.sample(unix(seconds), load_now), unix(seconds))
            if seconds % _ANALYSIS_SECONDS == 0:
                await live.analysis.analyse()
                replayed.analyse(unix(seconds))
            if seconds % _PLAN_SECONDS == 0:
                now = clock.now = unix(seconds) + 1.0
                theirs = msgspec.json.decode(await post("/v1/hints/rebalance", encode({"policy": policy})))
                snapshot = replayed.snapshot(now)
                ours = msgspec.json.decode(encode({"actions": chosen.rebalance(snapshot).actions}))
                equivalence.plans += 1
                equivalence.actions += len(ours["actions"])
                if theirs["actions"] != ours["actions"]:
                    equivalence.different_plans.append(seconds)
                equivalence.different_columns |= set(different_columns(await live.core.snapshot(), snapshot))
                progress(seconds)
    return equivalence


def different_columns(one: Snapshot, other: Snapshot) -> list[str]:
    """Return the columns of all tables that differ in any bit."""
    different = [] if one.at == other.at else ["at"]
    for table in ("nodes", "tasks", "services"):
        mine, theirs = getattr(one, table), getattr(other, table)
        for column in fields(mine):
            left, right = getattr(mine, column.name), getattr(theirs, column.name)
            parts = (
                [(getattr(left, part.name), getattr(right, part.name)) for part in fields(left)]
                if column.name == "power"
                else [(left, right)]
            )
            if not all(_is_equal(*both) for both in parts):
                different.append(f"{table}.{column.name}")
    return different


def _is_equal(left: Any, right: Any) -> bool:  # noqa: ANN401 - columns of all types
    if isinstance(left, TaskWindows) and isinstance(right, TaskWindows):
        left, right = left.amounts, right.amounts
    if isinstance(left, np.ndarray):
        numbers = left.dtype.kind == "f"
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=numbers)
    return bool(left == right)


class _Never(AnalysisConfig, frozen=True):
    bottleneck_seconds: ClassVar[float] = _NEVER_SECONDS


def _config() -> CollectorConfig:
    return CollectorConfig(
        http=HttpConfig(listen="127.0.0.1:0"),
        access=AccessConfig(tokens=""),
        history=HistoryConfig(path=":memory:"),
        # The passes are run at simulated times, not by the real clock.
        analysis=_Never(interval_seconds=_NEVER_SECONDS),
        control=ControlConfig(policy=""),
    )


@asynccontextmanager
async def _live(clock: _Clock) -> AsyncIterator[tuple[RunningCollector, Callable[[str, bytes], Any]]]:
    async with running(_config(), clock=clock) as collector, aiohttp.ClientSession() as http:

        async def post(path: str, body: bytes) -> bytes:
            headers = {"Content-Type": "application/json"}
            async with http.post(collector.address.url + path, data=body, headers=headers) as response:
                read = await response.read()
                assert response.status == HTTPStatus.OK, read
                return read

        yield collector, post


def make_workload(count: int, seconds: float) -> Workload:
    """Make services of several containers with different loads; some start later, and some end."""
    rng = np.random.default_rng(_SEED)
    level = columns(
        rng.lognormal(-1.0, 0.8, count),
        rng.uniform(0.1, 1.2, count) * 1024 * MEBIBYTE,
        rng.uniform(0, 2e6, count),
        rng.uniform(0, 2e6, count),
        count=count,
    )
    arrival = np.where(rng.uniform(size=count) < _LATE_RATIO, rng.uniform(0, 0.5 * seconds, count), 0.0)
    lifetime = np.where(rng.uniform(size=count) < _LATE_RATIO, rng.uniform(0.2, 0.6, count) * seconds, np.inf)
    use = Steady(
        level=level,
        ramp_seconds=np.full(count, 120.0),
        wave_ratio=np.tile([0.8, 0.1, 0.9, 0.9], (count, 1)),
        wave_seconds=rng.uniform(300, 7200, count),
        phase=rng.uniform(0, 1, count),
    )
    return build_workload(
        numbered(count),
        columns(level[:, 0] * 2.5, level[:, 1] * 1.5, rest=np.nan, count=count),
        use,
        arrival_seconds=arrival,
        lifetime_seconds=lifetime,
        duration_seconds=seconds,
        step_seconds=300.0,
        services=tuple(f"service-{number // 3}" for number in range(count)),
    )


class SimulatedPlacement:
    """Placement of the containers: each runs on one host, and one per hour moves to the next host."""

    def __init__(self, hosts: Hosts, containers: Workload, agents: SimulatedAgents) -> None:
        self._hosts, self._workload, self._agents = hosts, containers, agents
        self._node = np.arange(containers.size) % hosts.size
        self._started = np.zeros(containers.size, dtype=np.bool_)
        self.moves: list[Succession] = []
        """The moves so far."""

    def load(self, seconds: float) -> HostLoad:
        workload, size = self._workload, self._hosts.size
        ends = workload.arrival_seconds + workload.lifetime_seconds
        running = np.flatnonzero((workload.arrival_seconds <= seconds) & (seconds < ends))
        for row in running[~self._started[running]].tolist():
            self._agents.containers.start(row, unix(seconds))
        self._started[running] = True
        if seconds % 3600 == 0:
            self._move(int(running[int(seconds // 3600) % running.size]), seconds)
        node = self._node[running]
        used = workload.use.at(seconds, running, workload.arrival_seconds[running])
        demand = sum_by_node(node, used, size)
        capacity = self._hosts.capacity
        share = np.minimum(1.0, capacity[:, _CPU] / np.maximum(demand[:, _CPU], 1e-9))
        used[:, _CPU] *= share[node]
        return HostLoad(running=running, node=node, used=used, by_node=np.fmin(demand, capacity))

    def _move(self, container: int, seconds: float) -> None:
        names, source = self._hosts.names, int(self._node[container])
        target = (source + 1) % self._hosts.size
        before = self._agents.containers.id_of(container)
        after = self._agents.containers.start(container, unix(seconds))
        self._node[container] = target
        self.moves.append(
            Succession(node=names[target], container=after, from_node=names[source], predecessor=before)
        )
