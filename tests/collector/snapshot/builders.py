"""Snapshots for tests, from a few facts about nodes and tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import TYPE_CHECKING

import numpy as np

from collector.common.arrays import Floats
from collector.common.liveness import Liveness
from collector.snapshot.columns import (
    Four,
    coalesce,
    four,
    strictest_by_node,
    sum_by_node,
)
from collector.snapshot.constraints import PlacementRules
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.power_curves import PowerCurves
from collector.snapshot.tables import NOWHERE, Generation, Nodes, Services, Snapshot, TaskKind, Tasks
from collector.snapshot.windows import TaskWindows
from wire.messages import PowerCurve
from wire.resources import RESOURCES, Quantities

if TYPE_CHECKING:
    from collector.features.promises.ledger.promises import Promise

_UNKNOWN = Quantities()


def four_columns(rows: Sequence[Sequence[float]]) -> Floats:
    """Rows of one number per resource, as an array."""
    return np.array(rows, dtype=np.float64).reshape(-1, len(RESOURCES))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node."""

    name: str
    capacity: Quantities
    learned: tuple[bool, bool, bool, bool] = (False, False, False, False)
    used: Quantities = _UNKNOWN
    reported_watts: float = nan
    busy: Four = (nan, nan, nan, nan)
    liveness: Liveness = Liveness.UP
    on: bool = True
    accepts: bool = True
    report_age_seconds: float = 0.0
    generation: Generation = Generation.ANY
    failures: int = 0
    bottleneck: tuple[bool, bool, bool, bool] = (False, False, False, False)
    culprits: tuple[str, str, str, str] = ("", "", "", "")
    """Ids of the containers that the alerts name."""
    excess: Four = (nan, nan, nan, nan)
    by_time: tuple[bool, bool, bool, bool] = (False, False, False, False)
    domain: str | None = None
    history: Sequence[Four] = ()
    curve: PowerCurve | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SloFacts:
    """How the promise of a container stands."""

    promise: "Promise"
    slack_seconds: float = 0.0
    preemption_ratio: float = 0.0
    startup_seconds: float = 0.0
    admitted_seconds: float = 0.0
    is_spare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """One container."""

    id: str
    node: str | None
    name: str = ""
    service: str | None = None
    used: Quantities = _UNKNOWN
    mean: Quantities = _UNKNOWN
    variance: Four = (0.0, 0.0, 0.0, 0.0)
    envelope: Quantities | None = None
    observed_seconds: float = 0.0
    requested: Quantities = _UNKNOWN
    allocated: Quantities | None = None
    """None: as requested."""
    task_class: int = 1
    kind: TaskKind = TaskKind.SERVICE
    group: int = NOWHERE
    age_seconds: float = inf
    settled_seconds: float = inf
    came_from: str | None = None
    movable: bool = True
    cuttable: bool = True
    windows: Sequence[Four] = ()
    """Amounts, the newest last."""
    slo: SloFacts | None = None
    rules: PlacementRules | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """One service; the values are per instance."""

    name: str
    profiled: bool = False
    dominant: int = NOWHERE
    confidence: float = 0.0
    envelope: Quantities = _UNKNOWN
    mean: Quantities = _UNKNOWN
    variance: Four = (0.0, 0.0, 0.0, 0.0)
    image: str = ""


def service_table(services: Sequence[ServiceFacts]) -> Services:
    """The table of these services, which are given in the order of their names."""
    return Services(
        names=tuple(each.name for each in services),
        profiled=np.array([each.profiled for each in services], dtype=np.bool_),
        dominant=np.array([each.dominant for each in services], dtype=np.int8),
        confidence=np.array([each.confidence for each in services], dtype=np.float64),
        envelope=four_columns([four(each.envelope) for each in services]),
        mean=four_columns([four(each.mean) for each in services]),
        variance=four_columns([each.variance for each in services]),
        images=tuple(each.image for each in services),
    )


def assemble(  # noqa: PLR0913 - three tables and the moment
    nodes: Sequence[NodeFacts],
    tasks: Sequence[TaskFacts] = (),
    services: Sequence[ServiceFacts] = (),
    *,
    at: float = 0.0,
    turn: int = 0,
    seed: int = 0,
) -> Snapshot:
    """A snapshot of these, given in any order.

    A service that only tasks name is not profiled; a task on an unknown node waits.
    """
    nodes = sorted(nodes, key=lambda each: each.name)
    tasks = sorted(tasks, key=lambda each: each.id)
    named = {each.service: ServiceFacts(name=each.service) for each in tasks if each.service is not None}
    named |= {each.name: each for each in services}
    node_row = {each.name: row for row, each in enumerate(nodes)}
    service_row = {name: row for row, name in enumerate(sorted(named))}
    domain_names = tuple(sorted({each.domain for each in nodes if each.domain is not None}))
    task_table = _tasks(tasks, node_row, service_row)
    return Snapshot(
        at=at,
        nodes=_nodes(nodes, task_table, domain_names),
        tasks=task_table,
        services=service_table([named[name] for name in sorted(named)]),
        turn=turn,
        seed=seed,
        domain_names=domain_names,
        parts=_parts([each.slo for each in tasks]),
        rules={row: each.rules for row, each in enumerate(tasks) if each.rules is not None},
    )


def _parts(slo: Sequence[SloFacts | None]) -> Mapping[type[SnapshotPart], SnapshotPart]:
    known = [each for each in slo if each is not None]
    if not known:
        return {}
    # Tests of the core run without this feature.
    from collector.features.promises.snapshot import TaskPromises  # noqa: PLC0415

    promises = sorted({each.promise for each in known}, key=lambda each: each.name)

    def column(name: str) -> Floats:
        return np.array([nan if each is None else getattr(each, name) for each in slo], dtype=np.float64)

    made = TaskPromises(
        promises=tuple(promises),
        promise=np.array(
            [NOWHERE if each is None else promises.index(each.promise) for each in slo], dtype=np.int8
        ),
        slack_seconds=column("slack_seconds"),
        preemption_ratio=column("preemption_ratio"),
        startup_seconds=column("startup_seconds"),
        admitted_seconds=column("admitted_seconds"),
        is_spare=np.array([each is not None and each.is_spare for each in slo], dtype=np.bool_),
    )
    return {TaskPromises: made}


def _histories(histories: Sequence[Sequence[Four]]) -> Floats:
    longest = max((len(each) for each in histories), default=0)
    planes = np.full((len(histories), longest, len(RESOURCES)), np.nan)
    for row, each in enumerate(histories):
        if each:
            planes[row, longest - len(each) :] = each
    return planes


def _tasks(tasks: Sequence[TaskFacts], node_row: Mapping[str, int], service_row: Mapping[str, int]) -> Tasks:
    def row_of(name: str | None, rows: Mapping[str, int]) -> int:
        return NOWHERE if name is None else rows.get(name, NOWHERE)

    used = four_columns([four(each.used) for each in tasks])
    requested = four_columns([four(each.requested) for each in tasks])
    mean = four_columns([four(each.mean) for each in tasks])
    learnt = four_columns([four(_UNKNOWN if each.envelope is None else each.envelope) for each in tasks])
    allocated = [four(each.requested if each.allocated is None else each.allocated) for each in tasks]
    return Tasks(
        ids=tuple(each.id for each in tasks),
        names=tuple(each.name or each.id for each in tasks),
        node=np.array([row_of(each.node, node_row) for each in tasks], dtype=np.intp),
        service=np.array([row_of(each.service, service_row) for each in tasks], dtype=np.intp),
        used=used,
        mean=np.where(np.isnan(mean), coalesce(used, requested), mean),
        variance=four_columns([each.variance for each in tasks]),
        envelope=coalesce(learnt, used, requested),
        observed_seconds=np.array([each.observed_seconds for each in tasks], dtype=np.float64),
        requested=requested,
        allocated=four_columns(allocated),
        task_class=np.array([each.task_class for each in tasks], dtype=np.int8),
        kind=np.array([each.kind for each in tasks], dtype=np.int8),
        group=np.array([each.group for each in tasks], dtype=np.int8),
        age_seconds=np.array([each.age_seconds for each in tasks], dtype=np.float64),
        settled_seconds=np.array([each.settled_seconds for each in tasks], dtype=np.float64),
        came_from=np.array([row_of(each.came_from, node_row) for each in tasks], dtype=np.intp),
        movable=np.array([each.movable for each in tasks], dtype=np.bool_),
        cuttable=np.array([each.cuttable for each in tasks], dtype=np.bool_),
        windows=TaskWindows.of(_histories([each.windows for each in tasks]).astype(np.float32)),
    )


def _nodes(nodes: Sequence[NodeFacts], tasks: Tasks, domain_names: Sequence[str]) -> Nodes:
    count = len(nodes)
    domain_row = {name: row for row, name in enumerate(domain_names)}
    return Nodes(
        names=tuple(each.name for each in nodes),
        capacity=four_columns([four(each.capacity) for each in nodes]),
        learned=np.array([each.learned for each in nodes], dtype=np.bool_).reshape(count, 4),
        used=four_columns([four(each.used) for each in nodes]),
        reported_watts=np.array([each.reported_watts for each in nodes], dtype=np.float64),
        busy=four_columns([each.busy for each in nodes]),
        liveness=np.array([each.liveness for each in nodes], dtype=np.int8),
        on=np.array([each.on for each in nodes], dtype=np.bool_),
        accepts=np.array([each.accepts for each in nodes], dtype=np.bool_),
        report_age_seconds=np.array([each.report_age_seconds for each in nodes], dtype=np.float64),
        generation=np.array([each.generation for each in nodes], dtype=np.int8),
        failures=np.array([each.failures for each in nodes], dtype=np.int32),
        bottleneck=np.array([each.bottleneck for each in nodes], dtype=np.bool_).reshape(count, 4),
        culprit=np.array(
            [[tasks.index.get(name, NOWHERE) for name in each.culprits] for each in nodes], dtype=np.intp
        ).reshape(count, 4),
        excess=four_columns([each.excess for each in nodes]),
        by_time=np.array([each.by_time for each in nodes], dtype=np.bool_).reshape(count, 4),
        domain=np.array(
            [NOWHERE if each.domain is None else domain_row[each.domain] for each in nodes], dtype=np.int32
        ),
        history=_histories([each.history for each in nodes]),
        power=PowerCurves.of([each.curve for each in nodes]),
        labels=tuple(each.labels for each in nodes),
        tasks=np.bincount(tasks.node[tasks.node != NOWHERE], minlength=count).astype(np.int32),
        allocated=sum_by_node(tasks.node, tasks.allocated, count),
        envelope_sum=sum_by_node(tasks.node, tasks.envelope, count),
        mean=sum_by_node(tasks.node, tasks.mean, count),
        variance=sum_by_node(tasks.node, tasks.variance, count),
        strictest_class=strictest_by_node(tasks.node, tasks.task_class, count),
    )
