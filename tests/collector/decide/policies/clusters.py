"""Random clusters, and their state after a plan is carried out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from collector.common.liveness import Liveness
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Start
from collector.decide.policies.interface import Request
from collector.features import FEATURES
from collector.snapshot.constraints import Constraint, Operator, PlacementRules
from collector.snapshot.tables import Generation, Snapshot
from tests.collector.snapshot.builders import NodeFacts, ServiceFacts, SloFacts, TaskFacts, assemble
from wire.messages import PowerCurve, PowerSource
from wire.resources import Quantities

if TYPE_CHECKING:
    from collector.features.promises.ledger.promises import Promise

GIB = 1 << 30
CURVE = PowerCurve(
    source=PowerSource.MODEL,
    error_ratio=0.1,
    idle_watts=20.0,
    cpu_ratios=(0.0, 0.5, 1.0),
    cpu_watts=(0.0, 30.0, 40.0),
    memory_watts=8.0,
    disk_watts=3.0,
    network_watts=2.0,
)
SERVICES = ("api", "batch", "cache", "db")
_CLASSES = {"gold": (1.0, 1), "silver": (0.9, 2), "bronze": (0.5, 3)}


def _promises() -> "tuple[Promise, ...]":
    if "promises" not in FEATURES:  # tests of the core run without features
        return ()
    from collector.features.promises.ledger.promises import Promise  # noqa: PLC0415

    return tuple(
        Promise(name=name, availability=availability, importance=importance)
        for name, (availability, importance) in _CLASSES.items()
    )


PROMISES = _promises()
_LONG, _SHORT = 90_000.0, 60.0


def amount(cores: float, gibibytes: float, disk: float = 0.0, network: float = 0.0) -> Quantities:
    return Quantities(cores, round(gibibytes * GIB), disk, network)


@dataclass(frozen=True)
class Cluster:
    """Facts that a snapshot is made of."""

    nodes: Sequence[NodeFacts]
    tasks: Sequence[TaskFacts]
    services: Sequence[ServiceFacts] = ()
    turn: int = 0

    def snapshot(self) -> Snapshot:
        return self._snapshot

    @cached_property
    def _snapshot(self) -> Snapshot:
        return assemble(self.nodes, self.tasks, self.services, turn=self.turn)

    def shuffled(self, seed: int) -> "Cluster":
        generator = np.random.default_rng(seed)
        nodes = [self.nodes[row] for row in generator.permutation(len(self.nodes))]
        tasks = [self.tasks[row] for row in generator.permutation(len(self.tasks))]
        services = [self.services[row] for row in generator.permutation(len(self.services))]
        return replace(self, nodes=nodes, tasks=tasks, services=services)

    def after(self, actions: Iterable[Action], *, settled_seconds: float = 0.0) -> "Cluster":
        """The same cluster once a plan is carried out, and some time has passed."""
        tasks = {each.id: each for each in self.tasks}
        nodes = {each.name: each for each in self.nodes}
        for action in actions:
            match action:
                case Move():
                    tasks[action.task] = replace(
                        tasks[action.task],
                        node=action.target,
                        came_from=action.node,
                        settled_seconds=settled_seconds,
                    )
                case Kill() | Start():
                    task = tasks[action.task]
                    tasks[action.task] = replace(task, node=action.target, allocated=task.requested)
                case Cut():
                    tasks[action.task] = replace(tasks[action.task], allocated=action.allocated)
                case PowerOn() | PowerOff():
                    on = isinstance(action, PowerOn)
                    nodes[action.node] = replace(nodes[action.node], on=on, report_age_seconds=0.0)
        return replace(self, nodes=list(nodes.values()), tasks=list(tasks.values()))


@cache
def random_cluster(seed: int, *, classes: int = 1, calm: bool = True, queue: bool = False) -> Cluster:
    """A random cluster where every task reserves what it needs and uses, and everything fits.

    In a cluster that is not calm, nodes are off, silent, closed or short of something, and tasks have come
    recently or may not be moved. With a queue, most tasks have a promise of availability, and some wait.
    """
    generator = np.random.default_rng(seed)
    names = [f"node-{number:02}" for number in range(generator.integers(1, 9))]
    room = {name: generator.choice([4.0, 8.0, 16.0], size=2) for name in names}
    left = {name: capacity.copy() for name, capacity in room.items()}
    off = set() if calm else {name for name in names if generator.random() < 0.2}
    tasks = []
    for number in range(generator.integers(0, 25)):
        size = np.round(generator.uniform(0.1, 3.0, size=2), 2)
        fits = [name for name in names if name not in off and (left[name] >= size).all()]
        if not fits:
            continue
        node = str(generator.choice(fits))
        left[node] -= size
        need = amount(*size)
        came_from = None if calm or generator.random() < 0.4 else str(generator.choice(names))
        tasks.append(
            TaskFacts(
                id=f"task-{number:02}",
                node=node,
                service=str(generator.choice(SERVICES)),
                used=need,
                mean=need,
                envelope=need,
                observed_seconds=86_400.0,
                requested=need,
                task_class=int(generator.integers(1, classes + 1)),
                age_seconds=float(generator.choice([_SHORT, 1000.0, _LONG])),
                settled_seconds=_LONG if calm else float(generator.choice([_SHORT, 1000.0, 1000.0, _LONG])),
                came_from=None if came_from == node else came_from,
                movable=calm or bool(generator.random() < 0.8),
            )
        )
    nodes = [
        NodeFacts(
            name=name,
            capacity=amount(float(room[name][0]), float(room[name][1]), 1e9, 1e9),
            used=amount(*(room[name] - left[name])),
            on=name not in off,
            liveness=Liveness.DOWN if name in off else Liveness.UP,
            accepts=calm or bool(generator.random() < 0.9),
            report_age_seconds=1e6 if name in off or (not calm and generator.random() < 0.2) else 1.0,
            generation=Generation(int(generator.integers(0, 4))),
            bottleneck=_short_of(generator) if not calm else (False,) * 4,
            domain=str(generator.choice(["east", "west"])),
            curve=CURVE if generator.random() < 0.8 else None,
            labels={"disk": str(generator.choice(["ssd", "hdd"]))},
        )
        for name in names
    ]
    known = [
        ServiceFacts(name=name, profiled=bool(generator.random() < 0.5), dominant=0) for name in SERVICES
    ]
    if queue:
        tasks = _with_queue(tasks, classes, seed)
    return Cluster(nodes, tasks, known, turn=seed)


def _with_queue(tasks: Sequence[TaskFacts], classes: int, seed: int) -> list[TaskFacts]:
    generator = np.random.default_rng([seed, 2])
    waiting = [
        TaskFacts(
            id=f"waiting-{number:02}",
            node=None,
            service=str(generator.choice(SERVICES)),
            requested=amount(*np.round(generator.uniform(0.1, 4.0, size=2), 2)),
            task_class=int(generator.integers(1, classes + 1)),
            movable=False,
            rules=PlacementRules(
                constraints=(Constraint("disk", Operator.IS, "ssd"),) if generator.random() < 0.2 else (),
                spread=bool(generator.random() < 0.2),
            ),
        )
        for number in range(generator.integers(0, 12))
    ]
    return [
        replace(each, slo=random_standing(generator)) if PROMISES and generator.random() < 0.9 else each
        for each in (*tasks, *waiting)
    ]


def random_standing(generator: np.random.Generator) -> SloFacts:
    promise = PROMISES[generator.integers(len(PROMISES))]
    slack = -generator.exponential(30.0) if promise.availability == 1.0 else generator.normal(0.0, 100.0)
    return SloFacts(
        promise=promise,
        slack_seconds=float(slack),
        preemption_ratio=float(generator.choice([0.0, 0.05, 0.2, 0.6])),
        startup_seconds=float(generator.choice([0.0, 5.0, 20.0])),
        admitted_seconds=float(generator.uniform(0.0, 3600.0)),
        is_spare=bool(generator.random() < 0.1),
    )


@cache
def random_request(seed: int, *, task_class: int = 1) -> Request:
    generator = np.random.default_rng(seed)
    need = amount(*np.round(generator.uniform(0.1, 4.0, size=2), 2))
    return Request(
        demand=need,
        mean=need,
        reserve=need,
        known=bool(generator.random() < 0.5),
        service=str(generator.choice([*SERVICES, "new"])),
        task_class=task_class,
        labels={"wattpack.slo": str(generator.choice(["gold", "silver", "bronze"]))} if seed % 2 else {},
        avoid=("cache",) if generator.random() < 0.2 else (),
        exclude=frozenset({"node-00"}) if generator.random() < 0.2 else frozenset(),
        spread=bool(generator.random() < 0.3),
    )


def _short_of(generator: np.random.Generator) -> tuple[bool, bool, bool, bool]:
    cpu, memory = (bool(generator.random() < 0.3) for _ in range(2))
    return cpu, memory, False, False
