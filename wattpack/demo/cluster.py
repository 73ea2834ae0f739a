"""The simulated cluster: where containers run, and the samples of its agents."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock

import numpy as np

from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo
from collector.common.arrays import Rows
from collector.snapshot.tables import NOWHERE
from powermodels.attribution.split import container_error_ratio
from powermodels.common.interface import Terms
from wattpack.demo.load import CPU, CROWDED_RATIO, DISK, DemoLoad, Moment, container_pressure, node_pressure
from wattpack.demo.shop import Shop
from wire.messages import ContainerPower, NodePower, PowerSource, Pressure
from wire.resources import Quantities

_DAY_SECONDS = 86_400.0
_FULL_DISK_RATIO = 0.965
DOWN_SECONDS = 1500.0
"""How long before the start the node that is down stopped reporting."""
_LIFE_DAYS = 40.0
_STARTUP_SECONDS = 3.2
_STREAM = 3
"""The stream of random numbers for the ages of containers."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a container runs, under which id, and since when."""

    node: int
    id: str
    started_at: float


class DemoCluster:
    """Nodes and containers over time. Methods may be called from any thread."""

    def __init__(self, shop: Shop, starts_at: float) -> None:
        """`starts_at` is the time at which the demo starts; times before it are its past."""
        self.shop, self.starts_at = shop, starts_at
        self._load = DemoLoad(shop, starts_at)
        self._lock = Lock()
        count = len(shop.containers)
        ages = np.random.default_rng([shop.seed, _STREAM]).uniform(0.02, 1.0, count) ** 2
        self._places: dict[int, Place] = {
            row: Place(node, _container_id(shop.seed, row, 0), starts_at - age * _LIFE_DAYS * _DAY_SECONDS)
            for row, (node, age) in enumerate(zip(shop.placement.tolist(), ages.tolist(), strict=True))
            if node != NOWHERE
        }
        self._node_of: Rows = shop.placement.copy()
        self._incarnation = [0] * count
        self._cpu_seconds = np.zeros(count)
        self._joules = np.zeros(count)
        self._node_joules = np.zeros(len(shop.nodes))
        self._capacities = [each.machine.capacity for each in shop.nodes]
        self._limit = [shop.limit(row) for row in range(count)]
        self._elastic = [row for row, each in enumerate(shop.containers) if each.kind.replicas_max]
        self._probed: list[tuple[int, str, float]] = []

    # --- Where containers run -----------------------------------------------------------------------

    def is_up(self, node: int, now: float) -> bool:
        """Whether the agent of a node reports at a time."""
        return node != self.shop.down_node or now < self.starts_at - DOWN_SECONDS

    def places(self) -> dict[int, Place]:
        """Where each container that runs is now."""
        with self._lock:
            return dict(self._places)

    def replicas_of(self, service: str) -> int:
        """The number of running containers of a service."""
        with self._lock:
            return len(self._running(service))

    def move(self, row: int, node: int, now: float) -> str:
        """Move a container; returns the id that it has there."""
        with self._lock:
            return self._start(row, node, now)

    def scale(self, service: str, replicas: int, nodes: Sequence[int], now: float) -> tuple[str, ...]:
        """Start or stop containers of a service; returns the ids of all that run afterwards.

        New containers start on `nodes`, one on each. If there are none, a container with local data starts
        where its data is, any other one on the node with the fewest containers of the service. The newest
        containers on the nodes with the most of them stop first.
        """
        with self._lock:
            free = [row for row in self.shop.rows[service] if row not in self._places]
            wanted = list(nodes)
            while len(self._running(service)) < replicas:
                row = free.pop(0)
                self._start(row, wanted.pop(0) if wanted else self._choose_node(row, now), now)
            while len(running := self._running(service)) > replicas:
                counts = Counter(self._places[row].node for row in running)
                places = self._places
                self._stop(
                    max(running, key=lambda row: (counts[places[row].node], places[row].started_at, row))
                )
            return tuple(sorted(self._places[row].id for row in self._running(service)))

    def _running(self, service: str) -> list[int]:
        return [row for row in self.shop.rows.get(service, ()) if row in self._places]

    def _choose_node(self, row: int, now: float) -> int:
        container, home = self.shop.containers[row], int(self.shop.placement[row])
        if container.kind.is_pinned and home != NOWHERE:
            return home
        own = Counter(self._places[each].node for each in self._running(container.service))
        every = Counter(place.node for place in self._places.values())
        up = [node for node in range(len(self.shop.nodes)) if self.is_up(node, now)]
        return min(up, key=lambda node: (own[node], every[node], node))

    def _start(self, row: int, node: int, now: float) -> str:
        self._incarnation[row] += 1
        name = _container_id(self.shop.seed, row, self._incarnation[row])
        self._places[row] = Place(node, name, now)
        self._node_of[row] = node
        self._cpu_seconds[row] = self._joules[row] = 0.0
        return name

    def _stop(self, row: int) -> None:
        del self._places[row]
        self._node_of[row] = NOWHERE

    def limit(self, row: int, limit: Quantities) -> None:
        """Change the limits of a container."""
        with self._lock:
            before = self._limit[row]
            self._limit[row] = Quantities(
                before.cpu_cores if limit.cpu_cores is None else limit.cpu_cores,
                before.memory_bytes if limit.memory_bytes is None else limit.memory_bytes,
            )

    def limit_of(self, row: int) -> Quantities:
        return self._limit[row]

    # --- Samples ------------------------------------------------------------------------------------

    def sample(self, now: float, interval_seconds: float) -> Iterator[tuple[int, NodeSample]]:
        """The samples of all nodes that are up, over the interval that ends now."""
        with self._lock:
            moment = self.at(now)
            self._probed = [
                (place.node, place.id, float(moment.busy[row]))
                for row in self._elastic
                if (place := self._places.get(row)) is not None
            ]
            order = np.argsort(self._node_of, kind="stable")
            starts = np.searchsorted(self._node_of[order], np.arange(len(self.shop.nodes) + 1)).tolist()
            self._cpu_seconds += moment.used[:, CPU] * interval_seconds
            self._joules += moment.watts * interval_seconds
            self._node_joules += moment.node_watts * interval_seconds
            for node in range(len(self.shop.nodes)):
                if self.is_up(node, now):
                    rows = order[starts[node] : starts[node + 1]]
                    yield node, self._node_sample(node, rows, moment, now, interval_seconds)

    def probed(self, node: int) -> list[tuple[str, float]]:
        """The id and the last load of each container that the agent of a node probes."""
        return [(container, busy) for on, container, busy in self._probed if on == node]

    def at(self, now: float) -> Moment:
        """The usage and power of every container and node at a time."""
        return self._load.at(now, self._node_of)

    def pressures(self, moment: Moment) -> tuple[list[Pressure], list[Pressure]]:
        """The pressure of all nodes, and of all containers."""
        ratios = np.minimum(moment.by_node / self._load.capacity, 1.0).tolist()
        nodes = [node_pressure(each[CPU], self._disk_busy(node, each)) for node, each in enumerate(ratios)]
        limits = (each.cpu_cores for each in self._limit)
        used = moment.used[:, CPU].tolist()
        return nodes, [container_pressure(*each) for each in zip(used, limits, strict=True)]

    def _disk_busy(self, node: int, ratios: list[float]) -> float:
        return _FULL_DISK_RATIO if node == self.shop.full_disk_node else ratios[DISK]

    def _node_sample(
        self, node: int, rows: Rows, moment: Moment, now: float, interval_seconds: float
    ) -> NodeSample:
        total, curve = moment.by_node[node], self._load.curves[node]
        ratios = np.minimum(total / self._load.capacity[node], 1.0).tolist()
        busy = self._disk_busy(node, ratios)
        idle_watts, terms = float(moment.idle_watts[node]), moment.terms[node].tolist()
        error_ratio = container_error_ratio(Terms(idle_watts, *terms), curve.error_ratio)
        own_watts = moment.watts[rows].tolist()
        watts = idle_watts + sum(terms)
        crowded = max(0.0, ratios[CPU] - CROWDED_RATIO)
        return NodeSample(
            monotonic_seconds=now,
            rates=HostRates(
                unix_seconds=now,
                interval_seconds=interval_seconds,
                used=_quantities(total.tolist()),
                capacity=self._capacities[node],
                pressure=node_pressure(ratios[CPU], busy),
                load_1m=round(float(total[CPU]) * (1 + crowded), 2),
                disk_busy_ratio=busy,
                iowait_ratio=round(0.25 * max(0.0, busy - 0.3), 4),
            ),
            power=NodePower(
                watts,
                idle_watts,
                max(0.0, sum(terms) - sum(own_watts)),
                curve.source,
                curve.error_ratio,
                float(self._node_joules[node]),
                source_scope=curve.source_scope,
            ),
            containers=tuple(
                self._container(row, used, each, curve.source, error_ratio)
                for row, used, each in zip(rows.tolist(), moment.used[rows].tolist(), own_watts, strict=True)
            ),
            gaps=self.shop.nodes[node].machine.gaps,
            power_curve=curve,
        )

    def _container(
        self, row: int, used: list[float], watts: float, source: PowerSource, error_ratio: float
    ) -> ContainerSample:
        place = self._places[row]
        return ContainerSample(
            ContainerRates(
                id=place.id,
                runtime="docker",
                cpu_seconds_total=float(self._cpu_seconds[row]),
                used=_quantities(used),
                limit=self._limit[row],
                pressure=container_pressure(used[CPU], self._limit[row].cpu_cores),
            ),
            self._info(row, place),
            ContainerPower(watts, source, error_ratio, float(self._joules[row])),
        )

    def _info(self, row: int, place: Place) -> ContainerInfo:
        container = self.shop.containers[row]
        name = f"{container.name}.{place.id[:8]}"
        return ContainerInfo(
            name=name,
            image=container.kind.image,
            service=container.service,
            started_at=place.started_at,
            labels={
                **container.kind.labels,
                "com.docker.stack.namespace": container.service.partition("_")[0],
                "com.docker.swarm.service.id": sha256(container.service.encode()).hexdigest()[:25],
                "com.docker.swarm.service.name": container.service,
                "com.docker.swarm.task.name": name,
            },
            restarts=0,
            startup_seconds=_STARTUP_SECONDS,
        )


def _quantities(values: list[float]) -> Quantities:
    cpu, memory, disk, network = values
    return Quantities(cpu, int(memory), disk, network)


def _container_id(seed: int, row: int, incarnation: int) -> str:
    """An id in the format of engines."""
    return sha256(f"{seed}/{row}/{incarnation}".encode()).hexdigest()
