"""The demo shop: its nodes, its containers, and their first placement. The same seed gives the same shop."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.snapshot.tables import NOWHERE
from wattpack.demo.tables import MACHINE_ORDER, MACHINES, SERVICES, ZONES, Machine, ShopService
from wire.resources import Quantities

MIB = float(1 << 20)
_CPU_RATIO, _MEMORY_RATIO = 0.5, 0.42
"""Shares of the cluster's CPU and memory that all services use together at the busiest time of day."""
_HOME_RATIO = 0.6
"""Share of their node that databases and the optional service use at most."""
_SPARE, _LIMIT_CORES, _LIMIT_BYTES = 1.2, 0.05, 32 << 20
"""Limits: the highest usage times a factor, rounded up to a multiple of these sizes."""
_CONTAINERS_PER_SHOP = 400
"""A large cluster has several shops with the same services."""
_SHOP_NAMES = ("linden", "acorn", "birch", "cedar", "elder", "hazel", "maple", "rowan", "willow", "aspen")


@dataclass(frozen=True, slots=True)
class ShopNode:
    """A node of the shop."""

    name: str
    machine: Machine
    zone: str


@dataclass(frozen=True, slots=True)
class ShopContainer:
    """A container of the shop, independent of its node."""

    service: str
    slot: int
    kind: ShopService

    @property
    def name(self) -> str:
        return f"{self.service}.{self.slot}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Shop:
    """Nodes in the order of their names, containers, and their first placement.

    Spare containers of elastic services come last, and are placed nowhere.
    """

    seed: int
    nodes: tuple[ShopNode, ...]
    containers: tuple[ShopContainer, ...]
    placement: Rows
    """The node of each container; `NOWHERE` if it does not run."""
    levels: Floats
    """Usage of each container at the busiest time of its day."""
    down_node: int
    """The node that stopped reporting."""
    full_disk_node: int
    """The node whose disk is a bottleneck that no move ends."""
    surge_node: int
    """The node whose databases fill its CPU now and then; only stopping an optional service makes room."""

    @cached_property
    def replicas(self) -> dict[str, int]:
        """The number of containers of each service at the start."""
        return {name: int((self.placement[rows] != NOWHERE).sum()) for name, rows in self.rows.items()}

    @cached_property
    def rows(self) -> dict[str, list[int]]:
        """The containers of each service, by slot."""
        found: dict[str, list[int]] = {}
        for row, each in enumerate(self.containers):
            found.setdefault(each.service, []).append(row)
        return found

    def limit(self, row: int) -> Quantities:
        """The limits of a container, as people set them: a round number with some room to spare."""
        cpu, memory = self.levels[row, :2].tolist()
        cores = float(np.ceil(cpu * _SPARE / _LIMIT_CORES) * _LIMIT_CORES)
        return Quantities(cores, int(np.ceil(memory * _SPARE / _LIMIT_BYTES)) * _LIMIT_BYTES)


def make_shop(seed: int, nodes: int, containers: int) -> Shop:
    """A shop of this size."""
    rng = np.random.default_rng(seed)
    members = _nodes(nodes)
    tasks = tuple(_containers(containers))
    capacity = np.array([each.machine.capacity.values for each in members], dtype=np.float64)
    levels = _levels(tasks, capacity, rng)
    machines = [each.machine.name for each in members]
    down = _last(machines, "edge")
    database = machines.index("db") if "db" in machines else 0
    surge = _surge_node(machines, down, database)
    placement = _place(tasks, levels, capacity, (database, surge, down), rng)
    spares, models = _spares(tasks)
    return Shop(
        seed=seed,
        nodes=members,
        containers=(*tasks, *spares),
        placement=np.concatenate([placement, np.full(len(spares), NOWHERE, dtype=np.intp)]),
        levels=np.concatenate([levels, levels[models]]),
        down_node=down,
        full_disk_node=database,
        surge_node=surge,
    )


def _nodes(count: int) -> tuple[ShopNode, ...]:
    machines = {each.name: each for each in MACHINES}
    numbers: Counter[tuple[str, str]] = Counter()
    found = []
    for number, kind in enumerate(islice(cycle(MACHINE_ORDER), count)):
        zone = ZONES[number % len(ZONES)]
        numbers[zone, kind] += 1
        found.append(ShopNode(f"{zone}-{kind}-{numbers[zone, kind]:02}", machines[kind], zone))
    return tuple(sorted(found, key=lambda each: each.name))


def _containers(count: int) -> Iterator[ShopContainer]:
    """All services, each with at least one container, in proportion to their shares."""
    shops = max(1, round(count / _CONTAINERS_PER_SHOP))
    total = sum(each.share for each in SERVICES) * shops
    kinds = [(shop, kind) for shop in range(shops) for kind in SERVICES][:count]
    extra = count - len(kinds)
    edges = np.floor(np.cumsum([kind.share for _, kind in kinds]) / total * extra + 1e-9)
    more = np.diff(edges, prepend=0.0).astype(int)
    more[: extra - int(more.sum())] += 1
    for (shop, kind), others in zip(kinds, more.tolist(), strict=True):
        own = kind.without_control() if shop else kind
        for slot in range(1, 2 + others):
            yield ShopContainer(_service_name(kind.name, shop), slot, own)


def _spares(tasks: tuple[ShopContainer, ...]) -> tuple[list[ShopContainer], list[int]]:
    """The containers that elastic services may get, and the row of the first container of each."""
    spares, models = [], []
    for row, each in enumerate(tasks):
        if each.slot == 1 and each.kind.replicas_max:
            count = sum(other.service == each.service for other in tasks)
            for slot in range(count + 1, each.kind.replicas_max + 1):
                spares.append(replace(each, slot=slot))
                models.append(row)
    return spares, models


def _service_name(name: str, shop: int) -> str:
    if shop == 0:
        return name
    prefix = _SHOP_NAMES[shop % len(_SHOP_NAMES)]
    again = shop // len(_SHOP_NAMES)
    return f"{prefix}{again or ''}-{name}"


def _levels(tasks: tuple[ShopContainer, ...], capacity: Floats, rng: np.random.Generator) -> Floats:
    """Usage at the busiest time: the table's, scaled to the size of the cluster."""
    levels: Floats = np.array([each.kind.used for each in tasks]) * np.array([1.0, MIB, MIB, MIB])
    variation = rng.lognormal(0.0, 0.25, (len(tasks), 1))
    # Replicas that share their requests have the same limits.
    levels *= np.where([[each.kind.replicas_max > 0] for each in tasks], 1.0, variation)
    total = capacity.sum(axis=0)
    for column, ratio in ((0, _CPU_RATIO), (1, _MEMORY_RATIO)):
        used = levels[:, column].sum()
        if used > 0:
            levels[:, column] *= min(4.0, ratio * total[column] / used)
    return levels


def _place(
    tasks: tuple[ShopContainer, ...],
    levels: Floats,
    capacity: Floats,
    special: tuple[int, int, int],
    rng: np.random.Generator,
) -> Rows:
    """An uneven placement, as in a cluster after some months, with some nodes nearly idle."""
    database, surge, down = special
    target = rng.uniform(0.25, 1.0, len(capacity))
    target[rng.permutation(len(capacity))[: max(1, len(capacity) // 7)]] = 0.12
    target[down] = 0.2
    target[surge] = 0.0
    free = capacity[:, :2] * target[:, None] * np.array([0.85, 0.8])
    limit = capacity[:, :2] * np.array([0.8, 0.85])
    used = np.zeros_like(limit)
    placement = np.zeros(len(tasks), dtype=np.intp)
    for row in sorted(range(len(tasks)), key=lambda row: (not tasks[row].kind.is_optional, -levels[row, 1])):
        need, kind = levels[row, :2], tasks[row].kind
        fits_home = bool((used[surge] + need <= _HOME_RATIO * capacity[surge, :2]).all())
        if kind.name == "data_clickhouse" and tasks[row].slot == 1 and used[database, 0] < 1:
            node = database
        elif kind.is_pinned and fits_home:
            node = surge
        else:
            left = ((free - used - need) / capacity[:, :2]).min(axis=1)
            if left.max() < 0:
                left = ((limit - used - need) / capacity[:, :2]).min(axis=1)
            if kind.replicas_max:
                left[down] = -np.inf
            candidates = np.flatnonzero(left >= min(left.max(), max(0.0, left.max() - 0.25)))
            node = int(rng.choice(candidates))
        used[node] += need
        placement[row] = node
    return placement


def _surge_node(machines: list[str], down: int, database: int) -> int:
    """The last machine for databases, or else the last of all, that is not special already."""
    others = [row for row in range(len(machines)) if row not in {down, database}]
    return max(others, key=lambda row: (machines[row] == "db", row), default=down)


def _last(machines: list[str], kind: str) -> int:
    return len(machines) - 1 - machines[::-1].index(kind) if kind in machines else len(machines) - 1
