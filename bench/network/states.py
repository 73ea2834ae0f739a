"""Random states of clusters, applications to place there, and the best placement by brute force."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.common.applications import ApplicationTraits
from collector.common.arrays import Floats
from collector.decide.policies.interface import Request
from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.problem import BuiltProblem
from collector.features.network.applications.table import Applications
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import Snapshot
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

MILLISECONDS: Floats = np.array(
    [[1.0, 100.0, 135.0, 32.0], [100.0, 1.0, 33.0, 82.0], [135.0, 33.0, 1.0, 115.0], [32.0, 82.0, 115.0, 1.0]]
)
"""ge-kube's regions: us-central, eu-west, eu-north, na-northeast."""
SERVICES = ("cache", "db", "queue", "search", "web", "worker")
_CORES, _GIBIBYTES = 2.0, 8.0
_POD_CORES, _POD_GIBIBYTES = (0.1, 0.25, 0.5, 0.75, 1.0), (0.25, 0.5, 1.0, 2.0)
_BOUNDS = (0.04, 0.085, 0.12)
_SHARES_WITH_IMAGE = (0.1, 0.3, 0.6)
_ALL_PAIRS = 64
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class State:
    """A cluster, and the containers of an application to place there."""

    snapshot: Snapshot
    requests: tuple[Request, ...]
    bound: float


def random_state(seed: int, *, nodes: int = 12, pods: int | None = None) -> State:
    """Make nodes of 2 cores in 4 regions with random load, and 1 to 12 pods unless their number is given.

    In a third of the states, a member of the application already runs.
    """
    draw = np.random.default_rng(seed)
    names = [f"node-{number:04}" for number in range(nodes)]
    load = zip(names, draw.uniform(0, _CORES, nodes), draw.uniform(0, _GIBIBYTES, nodes), strict=True)
    tasks = [
        TaskFacts(id=f"load-{name}", node=name, requested=_amount(round(cores, 2), round(memory, 2)))
        for name, cores, memory in load
    ]
    if draw.random() < 1 / 3:
        tasks.append(TaskFacts(id="member", node=str(draw.choice(names)), service="web"))
    share = draw.choice(_SHARES_WITH_IMAGE)
    images = [[each for each in SERVICES if draw.random() < share] for _ in names]
    services = SERVICES[: int(draw.integers(1, len(SERVICES) + 1))]
    bound = float(draw.choice(_BOUNDS))
    of_service = {
        each: Request(
            service=each,
            reserve=_amount(draw.choice(_POD_CORES), draw.choice(_POD_GIBIBYTES)),
            application=ApplicationTraits("shop", bound),
            image=each,
        )
        for each in services
    }
    count = pods or int(draw.integers(1, 13))
    snapshot = assemble([NodeFacts(name=each, capacity=_amount(_CORES, _GIBIBYTES)) for each in names], tasks)
    shop = Applications(
        names=("shop",),
        delay_max=np.array([np.inf]),
        of_service=np.zeros(len(snapshot.services.names), dtype=np.intp),
    )
    snapshot = snapshot.with_part(_delays(nodes, draw)).with_part(shop)
    snapshot = snapshot.with_part(ImageTable.of_nodes(images))
    requests = tuple(of_service[str(each)] for each in draw.choice(services, size=count))
    return State(snapshot, requests, bound)


def _amount(cores: float, gibibytes: float) -> Quantities:
    return Quantities(float(cores), round(float(gibibytes) * (1 << 30)))


def _delays(nodes: int, draw: np.random.Generator) -> Delays:
    """Delays between nodes: all measured in a small cluster, estimated from coordinates in a large one."""
    region = np.arange(nodes) % len(MILLISECONDS)
    if nodes <= _ALL_PAIRS:
        seconds = MILLISECONDS[np.ix_(region, region)] / 1e3
        return Delays.of_matrix(seconds)
    at = _coordinates()[region] + draw.normal(0.0, 0.001, (nodes, 3))
    pairs, seconds = np.empty((0, 2), dtype=np.intp), np.empty(0)
    return Delays.of_pairs(pairs, seconds, at, draw.uniform(0.0, 0.001, nodes))


def _coordinates() -> Floats:
    """Points in three dimensions with the distances of the regions, by multidimensional scaling."""
    squares = np.square(MILLISECONDS / 1e3 - np.diag(MILLISECONDS.diagonal() / 1e3))
    count = len(squares)
    centred = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centred @ squares @ centred)
    return np.asarray(vectors[:, 1:] * np.sqrt(np.maximum(values[1:], 0.0)))


@dataclass(frozen=True, eq=False, slots=True)
class _Partial:
    """Placements of some kinds of pods, one per row."""

    taken: Floats
    """Resources of each node that the pods take."""
    nodes: NDArray[np.int64]
    """The nodes in use, as bits."""
    absent: NDArray[np.int64]


def brute_force(built: BuiltProblem, most: int) -> float | None:
    """Return the lowest F of all placements: infinite if there are none, None if there are too many to try.

    Placements that break a rule are dropped as soon as they do.
    """
    problem = built.problem
    count = len(problem.nodes)
    too_far = [int(((~near) * 2 ** np.arange(count)).sum()) for near in problem.near]
    rows = _Partial(
        np.zeros((1, *problem.free.shape)), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    )
    for kind in range(len(problem.counts)):
        lowest = None
        for number in range(int(problem.counts[kind])):
            # Equal pods are placed in the order of nodes, so that each placement comes up once.
            rows, lowest = _place_one_more(built, rows, kind, too_far, lowest if number else None)
            if len(rows.nodes) > most:
                return None
            if not len(rows.nodes):
                return float("inf")
    used = int((problem.used * 2 ** np.arange(count)).sum())
    in_use = np.array([(int(each) | used).bit_count() for each in rows.nodes])
    value = rows.absent / len(built.kind) + (in_use - 1) / max(problem.candidates - 1, 1)
    return float(value.min())


def _place_one_more(
    built: BuiltProblem,
    rows: _Partial,
    kind: int,
    too_far: list[int],
    lowest: NDArray[np.int64] | None,
) -> tuple[_Partial, NDArray[np.int64]]:
    """Return all placements with one more pod of a kind, and the node of that pod."""
    problem = built.problem
    parts: list[_Partial] = []
    pod_nodes: list[NDArray[np.int64]] = []
    for node in np.flatnonzero(problem.allowed[kind]).tolist():
        room = problem.free[node] + _ROUNDING * np.abs(problem.free[node])
        fits = (rows.taken[:, node] + problem.sizes[kind] <= room).all(axis=1)
        fits &= (rows.nodes & too_far[node]) == 0
        if lowest is not None:
            fits &= node >= lowest
        taken = rows.taken[fits].copy()
        taken[:, node] += problem.sizes[kind]
        absent = rows.absent[fits] + int(problem.absent[kind, node])
        parts.append(_Partial(taken, rows.nodes[fits] | (1 << node), absent))
        pod_nodes.append(np.full(len(taken), node, dtype=np.int64))
    if not parts:
        return _Partial(rows.taken[:0], rows.nodes[:0], rows.absent[:0]), np.empty(0, dtype=np.int64)
    joined = _Partial(
        np.concatenate([each.taken for each in parts]),
        np.concatenate([each.nodes for each in parts]),
        np.concatenate([each.absent for each in parts]),
    )
    return joined, np.concatenate(pod_nodes)


def is_within_bound(state: State, nodes: tuple[str, ...]) -> bool:
    """Whether the nodes of all containers, and of running members, are within the bound of each other."""
    snapshot, delays = state.snapshot, state.snapshot.part(Delays)
    assert delays is not None
    members = snapshot.tasks.node[snapshot.tasks.service >= 0].tolist()
    rows = {*(snapshot.nodes.index[name] for name in nodes), *members}
    between = delays.among(np.array(sorted(rows)))
    return bool((between <= state.bound + _ROUNDING).all())


def has_room(state: State, nodes: tuple[str, ...]) -> bool:
    """Whether no node reserves more than its capacity."""
    table = state.snapshot.nodes
    taken = table.allocated[:, :2].copy()
    for name, request in zip(nodes, state.requests, strict=True):
        taken[table.index[name]] += [request.reserve.cpu_cores or 0.0, request.reserve.memory_bytes or 0]
    rows = [table.index[name] for name in nodes]
    return bool((taken[rows] <= table.capacity[rows, :2] * (1 + _ROUNDING)).all())
