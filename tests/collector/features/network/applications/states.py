"""Random states of the paper's cluster: 12 nodes of 2 vCPU in 4 regions, and applications to place there."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from collector.common.applications import ApplicationTraits
from collector.decide.policies.interface import Request
from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.problem import BuiltProblem, Counts
from collector.features.network.applications.table import Applications
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.features.network.applications.clusters import REGIONS, delays_of
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble

SERVICES = ("cache", "db", "queue", "search", "web", "worker")


def random_state(
    seed: int, *, nodes: int = 12, pods: int = 12, linked: bool = False
) -> tuple[Snapshot, list[Request]]:
    """A cluster with some load, where an application may run in part, and the rest of it."""
    draw = np.random.default_rng(seed)
    names = [f"node-{number:04}" for number in range(nodes)]
    regions = [REGIONS[number % len(REGIONS)] for number in range(nodes)]
    tasks = [
        TaskFacts(
            id=f"load-{name}",
            node=name,
            requested=amount(
                round(float(draw.uniform(0.0, 2.0)), 2), round(float(draw.uniform(0.0, 8.0)), 2)
            ),
        )
        for name in names
    ]
    bound = float(draw.choice([0.04, 0.085, 0.12]))
    if draw.random() < 0.3:
        tasks.append(TaskFacts(id="member", node=str(draw.choice(names)), service="web"))
    share = float(draw.choice([0.1, 0.3, 0.6]))
    images = [[each for each in SERVICES if draw.random() < share] for _ in names]
    count = int(draw.integers(1, pods + 1))
    used = SERVICES[: int(draw.integers(1, len(SERVICES) + 1))]
    sizes = {
        each: amount(
            float(draw.choice([0.1, 0.25, 0.5, 0.75, 1.0])), float(draw.choice([0.25, 0.5, 1.0, 2.0]))
        )
        for each in used
    }
    talks = {
        each: tuple(str(other) for other in draw.choice(used, size=1)) if linked else () for each in used
    }
    services = [str(each) for each in draw.choice(used, size=count)]
    requests = [
        Request(
            service=each,
            reserve=sizes[each],
            application=ApplicationTraits("shop", bound, talks[each]),
            image=each,
        )
        for each in services
    ]
    snapshot = assemble([NodeFacts(name=name, capacity=amount(2.0, 8.0)) for name in names], tasks)
    web = snapshot.services.index.get("web")
    of_service = np.array([] if web is None else [0], dtype=np.intp)
    return (
        snapshot.with_part(delays_of(regions))
        .with_part(Applications(names=("shop",), delay_max=np.array([np.inf]), of_service=of_service))
        .with_part(ImageTable.of_nodes(images)),
        requests,
    )


def brute_force(built: BuiltProblem, *, most: int = 200_000) -> float | None:
    """The lowest F of all placements, by trying all of them; infinite if there is none, None if too many."""
    problem = built.problem
    kinds = [
        list(_distributions(room.tolist(), int(count)))
        for room, count in zip(problem.room, problem.counts, strict=True)
    ]
    if np.prod([float(len(each)) for each in kinds]) > most:
        return None
    best = np.inf
    for rows in product(*kinds):
        placed = np.array(rows, dtype=np.int64).reshape(problem.allowed.shape)
        value = _value(built, placed)
        if value < best and _is_allowed(built, placed):
            best = value
    return float(best)


def _distributions(room: list[int], count: int) -> Iterator[tuple[int, ...]]:
    """All ways to put some equal pods on nodes."""
    if not room:
        if count == 0:
            yield ()
        return
    for here in range(min(room[0], count) + 1):
        for rest in _distributions(room[1:], count - here):
            yield (here, *rest)


def _value(built: BuiltProblem, placed: Counts) -> float:
    """F, written out."""
    problem = built.problem
    absent = sum(int(placed[kind][problem.absent[kind]].sum()) for kind in range(len(placed)))
    in_use = len({*np.flatnonzero(problem.used).tolist(), *np.flatnonzero(placed.sum(axis=0)).tolist()})
    return absent / len(built.kind) + (in_use - 1) / max(built.problem.candidates - 1, 1)


def _is_allowed(built: BuiltProblem, placed: Counts) -> bool:
    """Room and bound, written out."""
    problem, kinds = built.problem, built.kinds
    assert problem.delays is not None
    seconds = problem.delays.among(problem.nodes)
    for node in np.flatnonzero(placed.sum(axis=0)).tolist():
        taken = sum(placed[kind, node] * problem.sizes[kind] for kind in range(len(kinds)))
        if (taken > problem.free[node] + 1e-9).any():
            return False
    for one, other in product(range(len(kinds)), repeat=2):
        if built.problem.talks[one, other]:
            for here, there in product(np.flatnonzero(placed[one]), np.flatnonzero(placed[other])):
                if not seconds[here, there] <= problem.bound + 1e-12:
                    return False
    return True
