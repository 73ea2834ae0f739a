"""The input and output of a pass over the queue, as arrays."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats, Rows
from collector.decide.policies.filters import OpenNodes, node_filters
from collector.decide.policies.interface import Stability
from collector.decide.policies.stability import may_receive
from collector.features.promises.ledger.promises import Promise
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.constraints import PlacementRules
from collector.snapshot.overbooking import RESERVED, allocations, originals
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind

_NO_RULES = PlacementRules()


@dataclass(frozen=True, eq=False, kw_only=True)
class Hosts:
    """Hosts, one row each. The two columns of an amount are CPU and memory."""

    capacity: Floats
    free: Floats
    """Capacity without what running instances reserve."""
    masks: Flags
    """The hosts that a set of constraints allows: one row per set. A host that no row has takes no instance
    and loses none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Instances:
    """Instances with a promise, one row each, in any order: those that run, and those that wait."""

    host: Rows
    """The row of its host; `NOWHERE` while it waits."""
    demand: Floats
    """What it reserves: CPU and memory."""
    mask: Rows
    """The row in `Hosts.masks` of its constraints; used only while it waits."""
    group: Rows
    """Of instances with the same number, each host runs at most one; `NOWHERE` without such a rule."""
    last_host: Rows
    """The host that it ran on before it waited, where it starts faster; `NOWHERE` if there is none."""
    importance: NDArray[np.int64]
    """1 is the most important."""
    availability: Floats
    """What it is promised."""
    slack_seconds: Floats
    preemption_ratio: Floats
    startup_seconds: Floats
    admitted_seconds: Floats
    is_spare: Flags
    """Whether it runs without effect: it is stopped first, at no cost."""
    may_stop: Flags
    """Whether it may be stopped at all; if it waits, whether it may lose a host that it got in this pass."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Terms:
    """The decisions of a policy about the instances: which start first, and which stop for which.

    `Terms` depend on the time, and are computed before each pass. They do not change during a pass.
    """

    queue: Rows
    """The rows of waiting instances, the most urgent first."""
    level: NDArray[np.int8]
    """Its importance: 0 is the most important."""
    slack: Floats
    """How long it can wait. Of waiting instances with the same level, a later one has no less."""
    limits: Floats
    """One row per level: an instance is stopped for a waiting one of that level whose slack is lower than
    this. Minus infinity: never."""
    order: Floats
    """On a host, the instances with the highest value are stopped first."""
    costs: Floats
    """The cost of stopping an instance. Costs of the victims on a host add up; hosts compare by the first
    row, then by the second, and so on. Lower is better."""
    is_safe: Flags
    """The instances that the last row of `costs` is about: a host without one among its victims comes before
    those with one."""
    keeps_order: bool = False
    """Whether the most urgent of the instances with the same needs start, also where room was found only
    after their turn, or was lost again."""
    home_after: int | None = None
    """The number of rows of `costs` after which the host that an instance ran on before comes first of those
    that are equal so far. None: it never does."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A waiting instance that starts, and the instances that stop for it first."""

    instance: int
    host: int
    victims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a pass."""

    assignments: tuple[Assignment, ...]
    left: tuple[int, ...]
    """The instances that still wait, in the order of the queue."""
    operations: int
    """How often a host was checked and scored for a waiting instance."""


@dataclass(frozen=True, eq=False, kw_only=True)
class QueueInput:
    """A snapshot as the input of a pass. Only tasks with a promise are instances."""

    rows: Rows
    """The row of the task of each instance."""
    hosts: Hosts
    instances: Instances

    def with_new(
        self, promise: Promise, slack_seconds: float, demand: Floats, allowed: Flags
    ) -> "QueueInput":
        """The same, with one more instance at the end: just admitted, and allowed on these nodes."""
        new = {
            "host": NOWHERE,
            "demand": demand,
            "mask": len(self.hosts.masks),
            "group": NOWHERE,
            "last_host": NOWHERE,
            "importance": promise.importance,
            "availability": promise.availability,
            "slack_seconds": slack_seconds,
        }
        columns: dict[str, Any] = {
            name: np.concatenate((column, np.array([new.get(name, 0)], dtype=column.dtype)))
            for name, column in vars(self.instances).items()
        }
        masks = np.concatenate((self.hosts.masks, allowed[np.newaxis]))
        return QueueInput(
            rows=np.append(self.rows, NOWHERE),
            hosts=replace(self.hosts, masks=masks),
            instances=Instances(**columns),
        )


def has_capacity(snapshot: Snapshot) -> Flags:
    """Return the nodes whose CPU and memory are known, and not 0: their points are ratios of those."""
    known: Flags = np.all(snapshot.nodes.capacity[:, :RESERVED] > 0, axis=1)
    return known


def queue_input(
    snapshot: Snapshot, slo: TaskPromises, stale_seconds: float, held: AbstractSet[int] = frozenset()
) -> QueueInput:
    """Return the arrays of a pass. Tasks that are held do not start.

    Containers start and stop on nodes that report, and have no open alert.
    """
    nodes, tasks = snapshot.nodes, snapshot.tasks
    receives = may_receive(snapshot, Stability(stale_seconds=stale_seconds))
    is_open = has_capacity(snapshot) & receives & ~nodes.has_bottleneck
    rows = snapshot.cached(
        "tasks with a promise", lambda: np.flatnonzero(slo.decided() & ~np.isnan(slo.slack_seconds))
    )
    host, standing = tasks.node[rows], slo.rows(rows)
    waits = host == NOWHERE
    # One flag more is for the tasks that wait: without nodes, there would be none to index.
    is_open_host = np.append(is_open, False)[host]
    masks, mask = _masks(snapshot, rows, is_open, held)
    importance = np.array([each.importance for each in slo.promises], dtype=np.int64)
    availability = np.array([each.availability for each in slo.promises])
    return QueueInput(
        rows=rows,
        hosts=Hosts(
            capacity=nodes.capacity[:, :RESERVED],
            free=nodes.capacity[:, :RESERVED] - nodes.allocated[:, :RESERVED],
            masks=masks,
        ),
        instances=Instances(
            host=host,
            demand=np.where(waits[:, np.newaxis], originals(tasks, rows), allocations(tasks, rows)),
            mask=mask,
            group=_groups(snapshot, rows),
            last_host=np.where(waits, tasks.came_from[rows], NOWHERE),
            importance=importance[standing.promise],
            availability=availability[standing.promise],
            slack_seconds=standing.slack_seconds,
            preemption_ratio=standing.preemption_ratio,
            startup_seconds=standing.startup_seconds,
            admitted_seconds=standing.admitted_seconds,
            is_spare=standing.is_spare,
            may_stop=waits | (tasks.movable[rows] & (tasks.kind[rows] != TaskKind.DAEMON) & is_open_host),
        ),
    )


def _masks(snapshot: Snapshot, rows: Rows, is_open: Flags, held: AbstractSet[int]) -> tuple[Flags, Rows]:
    """Return the nodes that each distinct set of rules allows, and the set of each instance.

    The rules are constraints and the filters of features, which are the same for all tasks of a service.
    """
    masks, places = [is_open], dict[tuple[object, ...], int]()
    mask = np.zeros(rows.size, dtype=np.intp)
    bounded = _bounded(snapshot)
    waiting = snapshot.waiting[bounded[snapshot.tasks.service[snapshot.waiting]]] if bounded.any() else ()
    nodes = OpenNodes(snapshot)
    for row in {*snapshot.rules, *np.asarray(waiting, dtype=np.intp).tolist()}:
        rules = snapshot.rules.get(row, _NO_RULES)
        service = int(snapshot.tasks.service[row])
        is_bounded = bool(bounded[service])
        at = int(np.searchsorted(rows, row))
        if not (rules.constraints or is_bounded) or at == rows.size or rows[at] != row:
            continue
        key = rules.constraints, service if is_bounded else NOWHERE, row in held
        if key not in places:
            places[key] = len(masks)
            allowed, open_to = is_open & (row not in held), nodes.open_to(row, snapshot.tasks.node)
            masks.append(allowed if open_to is None else allowed & open_to)
        mask[at] = places[key]
    return np.array(masks), mask


def _bounded(snapshot: Snapshot) -> Flags:
    """Return the services with constraints, or that a filter restricts.

    False follows at the end, for tasks without a service.
    """
    flags = np.zeros(len(snapshot.services.names) + 1, dtype=np.bool_)
    for each in node_filters(snapshot):
        restricted = each.services(snapshot)
        if restricted is not None:
            flags[: len(restricted)] |= restricted
    flags[list(snapshot.constraints)] = True
    return flags


def _groups(snapshot: Snapshot, rows: Rows) -> Rows:
    """Return the service of each instance if a node runs at most one of its instances, else `NOWHERE`."""
    service = snapshot.tasks.service
    spread = {int(service[row]) for row, rules in snapshot.rules.items() if rules.spread} - {NOWHERE}
    return np.where(np.isin(service[rows], list(spread)), service[rows], NOWHERE)
