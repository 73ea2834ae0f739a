"""Cost of the live tables per report and per snapshot, at several sizes of clusters."""

import argparse
import random
import threading
import time
from collections.abc import Iterator

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from collector.config import CollectorConfig, PlacementConfig
from collector.observe.registry import Registry
from wire.messages import ContainerState, Heartbeat, NodeState, Report
from wire.resources import Quantities

_BEGIN = 1_800_000_000.0
_SIZES = ((100, 50), (1000, 50), (10_000, 20))
_NEWS, _MOVED = 3000, 3
_SNAPSHOTS = 5
_HEARTBEAT = Heartbeat(agent_version="0", sample_seconds=3.0, beacon_seconds=30.0)
_MOST_REPORT_MICROSECONDS = 400.0
_MOST_SNAPSHOT_MILLISECONDS = 500.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=[f"{nodes}x{each}" for nodes, each in _SIZES],
        metavar="NODESxCONTAINERS",
        help="sizes of clusters: nodes, and containers per node",
    )


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Fill a registry, apply reports, and take snapshots meanwhile."""
    figures: list[Figure] = []
    for size in options.sizes:
        nodes, each = (int(part) for part in size.split("x"))
        progress.say(f"{nodes} nodes with {each} containers each")
        figures.extend(_figures(_Cluster(nodes, each), size))
    return Result(tuple(figures), settings={"sizes": options.sizes, "containers_per_report": _MOVED})


class _Cluster:
    """Nodes that have reported everything once, and then report changes."""

    def __init__(self, nodes: int, containers: int) -> None:
        self._nodes, self._containers = nodes, containers
        self._random = random.Random(7)  # noqa: S311 - reproducible, not a secret
        self._sequences = [1] * nodes
        self.registry = Registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0)))

    def first_reports(self) -> Iterator[Report]:
        for node in range(self._nodes):
            yield self._report(node, 1, range(self._containers), _HEARTBEAT)

    def news(self) -> Report:
        """Make a report of a node's state and of a few of its containers."""
        node = self._random.randrange(self._nodes)
        self._sequences[node] += 1
        moved = self._random.sample(range(self._containers), min(_MOVED, self._containers))
        return self._report(node, self._sequences[node], moved)

    def apply(self, reports: list[Report]) -> float:
        """Apply reports; return the CPU seconds that this took."""
        began = time.process_time()
        for report in reports:
            self.registry.apply(report, report.at)
        return time.process_time() - began

    def _report(
        self, node: int, sequence: int, containers: "range | list[int]", heartbeat: Heartbeat | None = None
    ) -> Report:
        return Report(
            node=f"node-{node:05d}",
            boot="bench",
            sequence=sequence,
            at=_BEGIN + sequence,
            state=NodeState(used=self._use(8.0), capacity=Quantities(8.0, 1 << 35, 1e9, 1e9)),
            containers=tuple(self._container(node, each) for each in containers),
            heartbeat=heartbeat,
        )

    def _container(self, node: int, number: int) -> ContainerState:
        return ContainerState(
            id=f"{random.Random(node * 1000 + number).getrandbits(256):064x}",  # noqa: S311 - not a secret
            name=f"task-{number}",
            runtime="docker",
            cpu_seconds_total=1.0,
            used=self._use(0.5),
            limit=Quantities(1.0, 1 << 30),
            service=f"service-{(node * self._containers + number) % 997}",
        )

    def _use(self, most_cores: float) -> Quantities:
        share = self._random.random()
        return Quantities(share * most_cores, int(share * (1 << 30)), share * 1e6, share * 1e6)


def _figures(cluster: _Cluster, size: str) -> Iterator[Figure]:
    first = list(cluster.first_reports())
    yield _microseconds(f"first_report_{size}", cluster.apply(first) / len(first))
    news = [cluster.news() for _ in range(_NEWS)]
    yield _microseconds(f"news_{size}", cluster.apply(news) / len(news), _MOST_REPORT_MICROSECONDS)
    tables = cluster.registry.tables
    tables.snapshot(_BEGIN)
    taken = []
    for number in range(1, _SNAPSHOTS + 1):
        cluster.apply([cluster.news() for _ in range(20)])
        began = time.process_time()
        tables.snapshot(_BEGIN + number)
        taken.append(time.process_time() - began)
    yield Figure(
        name=f"snapshot_{size}",
        value=1e3 * sorted(taken)[len(taken) // 2],
        unit="ms of CPU",
        at_most=_MOST_SNAPSHOT_MILLISECONDS,
    )
    yield Figure(
        name=f"report_beside_snapshots_p99_{size}", value=1e3 * _p99_during_snapshots(cluster), unit="ms"
    )


def _p99_during_snapshots(cluster: _Cluster) -> float:
    """Return the 99th percentile of the duration of a report while another thread takes snapshots."""
    news = [cluster.news() for _ in range(_NEWS)]
    stopped = threading.Event()

    def take_snapshots() -> None:
        while not stopped.is_set():
            cluster.registry.tables.snapshot(time.time())

    taker = threading.Thread(target=take_snapshots)
    taker.start()
    durations = []
    for report in news:
        began = time.perf_counter()
        cluster.registry.apply(report, report.at)
        durations.append(time.perf_counter() - began)
    stopped.set()
    taker.join()
    return sorted(durations)[int(0.99 * len(durations))]


def _microseconds(name: str, seconds: float, at_most: float | None = None) -> Figure:
    return Figure(name=name, value=1e6 * seconds, unit="µs of CPU", at_most=at_most)
