"""The demo shop: its nodes, its containers, and which begins where. The same for the same seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from wattpack.demo.machines import MACHINE_ORDER, MACHINES, ZONES, Machine
from wattpack.demo.services import SERVICES, ShopService

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

MIB = float(1 << 20)
_CPU_RATIO, _MEMORY_RATIO = 0.5, 0.42
"""Shares of the cluster's CPU and memory that all services use together at the busiest time of day."""
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
    """A container of the shop, whichever node it runs on."""

    service: str
    slot: int
    kind: ShopService

    @property
    def name(self) -> str:
        return f"{self.service}.{self.slot}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Shop:
    """Nodes in the order of their names, containers, and where each begins."""

    seed: int
    nodes: tuple[ShopNode, ...]
    containers: tuple[ShopContainer, ...]
    placement: Rows
    """The node of each container."""
    levels: Floats
    """Usage of each container at the busiest time of its day."""
    down_node: int
    """It stopped reporting."""
    full_disk_node: int
    """Its disk is a bottleneck that no move ends."""

    @cached_property
    def replicas(self) -> dict[str, int]:
        """The number of containers of each service."""
        counts: dict[str, int] = {}
        for each in self.containers:
            counts[each.service] = counts.get(each.service, 0) + 1
        return counts


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
    placement = _place(tasks, levels, capacity, database, down, rng)
    return Shop(
        seed=seed,
        nodes=members,
        containers=tasks,
        placement=placement,
        levels=levels,
        down_node=down,
        full_disk_node=database,
    )


def _nodes(count: int) -> tuple[ShopNode, ...]:
    machines = {each.name: each for each in MACHINES}
    numbers: dict[tuple[str, str], int] = {}
    found = []
    for number, kind in enumerate(islice(cycle(MACHINE_ORDER), count)):
        zone = ZONES[number % len(ZONES)]
        numbers[zone, kind] = numbers.get((zone, kind), 0) + 1
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
        for slot in range(1, 2 + others):
            yield ShopContainer(_service_name(kind.name, shop), slot, kind)


def _service_name(name: str, shop: int) -> str:
    if shop == 0:
        return name
    prefix = _SHOP_NAMES[shop % len(_SHOP_NAMES)]
    again = shop // len(_SHOP_NAMES)
    return f"{prefix}{again or ''}-{name}"


def _levels(tasks: tuple[ShopContainer, ...], capacity: Floats, rng: np.random.Generator) -> Floats:
    """Usage at the busiest time: the table's, scaled to the size of the cluster."""
    levels: Floats = np.array([each.kind.used for each in tasks]) * np.array([1.0, MIB, MIB, MIB])
    levels *= rng.lognormal(0.0, 0.25, (len(tasks), 1))
    total = capacity.sum(axis=0)
    for column, ratio in ((0, _CPU_RATIO), (1, _MEMORY_RATIO)):
        used = levels[:, column].sum()
        if used > 0:
            levels[:, column] *= min(4.0, ratio * total[column] / used)
    return levels


def _place(  # noqa: PLR0913, PLR0917 - what a placement depends on
    tasks: tuple[ShopContainer, ...],
    levels: Floats,
    capacity: Floats,
    database: int,
    down: int,
    rng: np.random.Generator,
) -> Rows:
    """A placement as clusters have it after some months: uneven, with nodes that have little to do."""
    wish = rng.uniform(0.25, 1.0, len(capacity))
    wish[rng.permutation(len(capacity))[: max(1, len(capacity) // 7)]] = 0.12
    wish[down] = 0.2
    free = capacity[:, :2] * wish[:, None] * np.array([0.85, 0.8])
    limit = capacity[:, :2] * np.array([0.8, 0.85])
    used = np.zeros_like(limit)
    placement = np.zeros(len(tasks), dtype=np.intp)
    for row in np.argsort(-levels[:, 1], kind="stable").tolist():
        need = levels[row, :2]
        if tasks[row].kind.name == "data_clickhouse" and tasks[row].slot == 1 and used[database, 0] < 1:
            node = database
        else:
            left = ((free - used - need) / capacity[:, :2]).min(axis=1)
            if left.max() < 0:
                left = ((limit - used - need) / capacity[:, :2]).min(axis=1)
            near = np.flatnonzero(left >= min(left.max(), max(0.0, left.max() - 0.25)))
            node = int(rng.choice(near))
        used[node] += need
        placement[row] = node
    return placement


def _last(machines: list[str], kind: str) -> int:
    return len(machines) - 1 - machines[::-1].index(kind) if kind in machines else len(machines) - 1
