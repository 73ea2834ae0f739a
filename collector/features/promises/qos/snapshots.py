"""The arrays of a pass, from a snapshot."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.features.promises.ledger.promises import Promise
from collector.features.promises.qos.queue import Hosts, Instances
from collector.features.promises.qos.rules import Standing
from collector.features.promises.snapshot import TaskPromises
from collector.policies.interface import Stability
from collector.policies.node_filters import OpenNodes, node_filters
from collector.policies.overbooking import RESERVED, allocations, originals
from collector.policies.stability import may_receive
from collector.snapshot.constraints import PlacementRules
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind

Column = TypeVar("Column", Floats, Rows, Flags)
_NO_RULES = PlacementRules()


@dataclass(frozen=True, eq=False, kw_only=True)
class QueueInput:
    """A snapshot as the input of a pass. Only tasks with a promise are instances."""

    rows: Rows
    """The row of the task of each instance."""
    hosts: Hosts
    instances: Instances
    standing: Standing

    def with_new(
        self, promise: Promise, slack_seconds: float, demand: Floats, allowed: Flags
    ) -> "QueueInput":
        """The same, with one more instance at the end: just admitted, and allowed on these nodes."""
        masks = np.concatenate((self.hosts.masks, allowed[np.newaxis]))
        old, standing = self.instances, self.standing

        def plus(column: Column, value: float) -> Column:
            return np.append(column, column.dtype.type(value))

        return replace(
            self,
            rows=plus(self.rows, NOWHERE),
            hosts=replace(self.hosts, masks=masks),
            instances=Instances(
                host=plus(old.host, NOWHERE),
                demand=np.vstack((old.demand, demand)),
                mask=plus(old.mask, len(masks) - 1),
                group=plus(old.group, NOWHERE),
                last_host=plus(old.last_host, NOWHERE),
            ),
            standing=Standing(
                importance=np.append(standing.importance, promise.importance),
                availability=plus(standing.availability, promise.availability),
                slack_seconds=plus(standing.slack_seconds, slack_seconds),
                preemption_ratio=plus(standing.preemption_ratio, 0.0),
                startup_seconds=plus(standing.startup_seconds, 0.0),
                admitted_seconds=plus(standing.admitted_seconds, 0.0),
                is_spare=plus(standing.is_spare, 0),
                may_stop=plus(standing.may_stop, 0),
                may_start=plus(standing.may_start, 1),
            ),
        )


def open_nodes(snapshot: Snapshot, stale_seconds: float) -> Flags:
    """Return the nodes where a pass may start and stop containers: they report, and have no open alert."""
    receives = may_receive(snapshot, Stability(stale_seconds=stale_seconds))
    return has_capacity(snapshot) & receives & ~snapshot.nodes.has_bottleneck


def has_capacity(snapshot: Snapshot) -> Flags:
    """Return the nodes whose CPU and memory are known, and not 0: their points are ratios of those."""
    known: Flags = np.all(snapshot.nodes.capacity[:, :RESERVED] > 0, axis=1)
    return known


def queue_input(
    snapshot: Snapshot, slo: TaskPromises, stale_seconds: float, held: AbstractSet[int] = frozenset()
) -> QueueInput:
    """Return the arrays of a pass. Tasks that are held do not start."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    is_open = open_nodes(snapshot, stale_seconds)
    rows = snapshot.cached(
        "tasks with a promise",
        lambda: np.flatnonzero((slo.promise != NOWHERE) & ~np.isnan(slo.slack_seconds)),
    )
    host = tasks.node[rows]
    waits = host == NOWHERE
    # One flag more is for the tasks that wait: without nodes, there would be none to index.
    is_open_host = np.append(is_open, False)[host]
    masks, mask = _masks(snapshot, rows, is_open, held)
    demand = np.where(waits[:, np.newaxis], originals(tasks, rows), allocations(tasks, rows))
    importance = np.array([each.importance for each in slo.promises], dtype=np.int64)
    availability = np.array([each.availability for each in slo.promises])
    promise = slo.promise[rows]
    return QueueInput(
        rows=rows,
        hosts=Hosts(
            capacity=nodes.capacity[:, :RESERVED],
            free=nodes.capacity[:, :RESERVED] - nodes.allocated[:, :RESERVED],
            masks=masks,
        ),
        instances=Instances(
            host=host,
            demand=demand,
            mask=mask,
            group=_groups(snapshot, rows),
            last_host=np.where(waits, tasks.came_from[rows], NOWHERE),
        ),
        standing=Standing(
            importance=importance[promise],
            availability=availability[promise],
            slack_seconds=slo.slack_seconds[rows],
            preemption_ratio=slo.preemption_ratio[rows],
            startup_seconds=slo.startup_seconds[rows],
            admitted_seconds=slo.admitted_seconds[rows],
            is_spare=slo.is_spare[rows],
            may_stop=waits | (tasks.movable[rows] & (tasks.kind[rows] != TaskKind.DAEMON) & is_open_host),
            may_start=waits,
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
