"""Reports made in bulk are those of the real reporters, one by one."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.snapshot.columns import sum_by_node
from collector.snapshot.tables import NOWHERE
from replay.setup.hosts import MEBIBYTE, build_hosts
from replay.setup.scenario import Host
from replay.setup.workload import Recorded, Workload, always_running, columns, numbered
from replay.simulation.agents.agents import HostLoad, SimulatedAgents
from replay.simulation.agents.heartbeats import rounded
from replay.simulation.agents.samples import AgentSettings
from wire.messages import Report

HOSTS, CONTAINERS, STEPS = 3, 8, 16
SAMPLE_SECONDS = 300.0
_BEGIN = 1_700_000_000.0


def some_workload(resources: int) -> Workload:
    values = np.zeros((CONTAINERS, 2, resources), dtype=np.float32)
    requested = columns(1.5, 512 * MEBIBYTE, np.nan, np.nan, count=CONTAINERS)
    return always_running(numbered(CONTAINERS), requested, Recorded.of_all(SAMPLE_SECONDS, values))


@dataclass
class Twins:
    """Two sets of agents that see the same: one reports in bulk."""

    resources: int
    every_window: bool
    rng: np.random.Generator
    now: float = _BEGIN
    node: np.ndarray = field(default_factory=lambda: np.full(CONTAINERS, NOWHERE, dtype=np.intp))
    on: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hosts = build_hosts(
            [
                Host(
                    name="host",
                    count=HOSTS,
                    cpu_cores=4,
                    memory_mb=4096,
                    disk_mb_per_second=100,
                    network_mb_per_second=100,
                    watts=(50, 100),
                )
            ]
        )
        settings = AgentSettings.sampling_every(SAMPLE_SECONDS, every_window=self.every_window)
        containers = some_workload(self.resources)
        self.agents = [
            SimulatedAgents(self.hosts, containers, settings, one_by_one=one_by_one)
            for one_by_one in (True, False)
        ]

    def same(self, of_one: list[Report], of_many: list[Report]) -> None:
        assert of_many == of_one
        ids = [[each.id for each in report.heartbeat.usage] for report in of_one if report.heartbeat]
        assert ids == [[each.id for each in report.heartbeat.usage] for report in of_many if report.heartbeat]

    def boot(self, host: int) -> None:
        if host not in self.on:
            self.on.add(host)
            one, many = (each.boot(host, self.now) for each in self.agents)
            assert one == many

    def shut_down(self, host: int) -> None:
        if host in self.on and not (self.node == host).any():
            self.on.remove(host)
            one, many = (each.shut_down(host, self.now) for each in self.agents)
            assert one == many

    def put(self, container: int, host: int) -> None:
        """Start a container, or move it."""
        if host in self.on:
            self.node[container] = host
            assert len({each.containers.start(container, self.now) for each in self.agents}) == 1

    def end(self, container: int, *, killed: bool) -> None:
        host = int(self.node[container])
        if host != NOWHERE:
            if killed:
                for each in self.agents:
                    each.kill(container, host, self.now)
            self.node[container] = NOWHERE

    def limit(self, container: int) -> None:
        limit = np.array([self.rng.uniform(0.5, 3), 1e9, np.nan, np.nan])
        for each in self.agents:
            each.containers.set_limit(container, limit)

    def look(self, host: int) -> None:
        self.now += 3.0
        running = np.flatnonzero(self.node != NOWHERE)
        self.same(
            *(each.list_containers(self.now, running, self.node[running], [host]) for each in self.agents)
        )

    def sample(self, *, busy: bool) -> None:
        running = np.flatnonzero(self.node != NOWHERE)
        scale = np.array([6.0 if busy else 0.5, 5e8, 1e7, 1e7])
        used = np.zeros((running.size, 4))
        used[:, : self.resources] = (
            self.rng.choice([0.0, 1.0], (running.size, self.resources), p=[0.1, 0.9])
            * self.rng.uniform(0, 1, (running.size, self.resources))
            * scale[: self.resources]
        )
        by_node = np.fmin(sum_by_node(self.node[running], used, HOSTS), self.hosts.capacity)
        load = HostLoad(running=running, node=self.node[running], used=used, by_node=by_node)
        self.same(*(each.sample(self.now, load) for each in self.agents))

    def change(self) -> None:
        """Let something happen."""
        container, host = int(self.rng.integers(CONTAINERS)), int(self.rng.integers(HOSTS))
        happens = (
            lambda: self.put(container, host),
            lambda: self.end(container, killed=bool(self.rng.uniform() < 0.3)),
            lambda: self.limit(container),
            lambda: self.look(host),
            lambda: self.shut_down(host),
            lambda: self.boot(host),
        )
        happens[int(self.rng.integers(len(happens)))]()
        if self.rng.uniform() < 0.5:
            self.look(int(self.rng.integers(HOSTS)))


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]), st.sampled_from([0.0, 10.0]), st.floats(0.0, 1.0))
def test_reports_made_in_bulk_are_those_of_the_reporters(
    seed: int, resources: int, points: float, changes: float
) -> None:
    rng = np.random.default_rng(seed)
    twins = Twins(resources, every_window=points == 0, rng=rng)
    for host in range(HOSTS):
        twins.boot(host)
    for container in range(CONTAINERS):
        twins.put(container, int(rng.integers(HOSTS)))
    for step in range(1, STEPS):
        if rng.uniform() < changes:
            twins.change()
        # Now and then a sample is late.
        late_seconds = float(rng.choice([0.0, 0.0, 0.0, 20.0, 400.0]))
        twins.now = max(twins.now + 1.0, _BEGIN + step * SAMPLE_SECONDS + late_seconds)
        twins.sample(busy=bool(rng.uniform() < 0.2))


def test_most_reports_of_a_calm_cluster_are_made_in_bulk() -> None:
    twins = Twins(4, every_window=False, rng=np.random.default_rng(1))
    for host in range(HOSTS):
        twins.boot(host)
    for container in range(CONTAINERS):
        twins.put(container, container % HOSTS)
    for step in range(1, STEPS):
        twins.now = _BEGIN + step * SAMPLE_SECONDS
        twins.sample(busy=False)
    assert all(
        agent.plain is not None and agent.plain.reports > STEPS / 2
        for agent in twins.agents[1]._agents.values()
    )


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 10**7), st.integers(-15, 15))
def test_numbers_of_many_samples_are_rounded_as_those_of_one(value: float, digits: int, power: int) -> None:
    near_a_tie = digits * 10.0**power
    values = [value, near_a_tie, np.nextafter(near_a_tie, np.inf), np.nextafter(near_a_tie, -np.inf), 0.0]
    assert rounded(np.array(values)).tolist() == [float(f"{each:.6g}") for each in values]
