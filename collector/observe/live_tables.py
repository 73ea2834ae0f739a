"""The live tables: nodes and tasks now, behind one lock, and the snapshot of both."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock

import numpy as np

from collector.analysis.usage import to_quantities
from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.common.extensions import extend
from collector.common.liveness import Liveness, LivenessRule
from collector.common.orchestrator import NodeView
from collector.config import CollectorConfig
from collector.history.interface import StoredUsage
from collector.history.timeline import BucketSums
from collector.observe.agent_run import NodeChanges
from collector.observe.entries import TrackedNode
from collector.observe.node_columns import ListedNodes, NodeTable
from collector.observe.parts import LivePart
from collector.observe.snapshots import SnapshotBuilder
from collector.observe.table import places
from collector.observe.task_columns import ReportedTask, TaskTable
from collector.observe.task_lists import TaskList, TaskOrder
from collector.observe.updates import GENERATION_LABELS, REGION_LABELS, Allocation, NodePlacement, Succession
from collector.snapshot.columns import strictest_by_node, sum_by_node
from collector.snapshot.constraints import Constraint
from collector.snapshot.experience import Experience
from collector.snapshot.tables import NOWHERE, Region, Services, Snapshot, highest_ratio, region_of
from wire.messages import Alert, ContainerState
from wire.resources import Quantities, Resource

_LAXEST_CLASS = 4
_GROUPS_AT_ONCE = 500
_ROWS_AT_ONCE = 5_000
_ROW_BITS = 32
_SHORT_ID = re.compile("[0-9a-f]{12}")
"""The host name inside a container is the beginning of its id."""


class LiveTables:
    """Nodes and tasks now. Every method may be called from any thread; none waits longer than a copy takes.

    Absurd numbers in reports may overflow in sums. Only their own node suffers, so numpy does not warn.
    """

    def __init__(self, config: CollectorConfig, own_host: str = "") -> None:
        placement = config.placement
        self._nodes = NodeTable(config, own_host)
        self._own_id = own_host if _SHORT_ID.fullmatch(own_host) else None
        self._tasks = TaskTable(placement.default_class, spans_nodes=config.driver.spans_nodes)
        self.liveness = LivenessRule(config.liveness.down_after_beacons)
        self._builder = SnapshotBuilder(config, self.liveness)
        self.parts: tuple[LivePart, ...] = tuple(kind(config) for kind in extend("live", "LIVE"))
        """What features keep about the cluster, in the order of their table."""
        self._snapshot_seconds = placement.snapshot_seconds
        self._last: Snapshot | None = None
        self._lock = Lock()
        self._snapshot_lock = Lock()

    # --- The registry -------------------------------------------------------------------------

    def apply(self, node: str, entry: TrackedNode, changes: NodeChanges, failures: int = 0) -> list[str]:
        """Apply the changes of a report with this many failed containers; returns the ids of new ones."""
        at = entry.last_report_at
        with self._lock, np.errstate(over="ignore", invalid="ignore"):
            self._advance(at)
            row = self._nodes.apply(node, entry, changes, failures)
            self._tasks.drop(node, changes.gone, at)
            if not changes.containers:
                return []
            capacity = self._nodes.table.columns.capacity[row]
            new = self._tasks.put(node, row, capacity, changes.containers, at)
            if self._own_id is not None and any(each.startswith(self._own_id) for each in new):
                self._nodes.put_own_node(node)
            return new

    def put_alerts(self, node: str, alerts: Mapping[Resource, Alert]) -> None:
        """Replace the open alerts of an existing node."""
        with self._lock:
            self._nodes.put_alerts(node, alerts)

    def remove(self, node: str) -> None:
        with self._lock:
            self._tasks.drop_node(node)
            row = self._nodes.drop(node)
            came_from = self._tasks.table.columns.came_from
            came_from[came_from == row] = NOWHERE

    def nodes_sharing_containers(self, node: str) -> Counter[str]:
        """The other nodes that report containers of this one, and how many they share."""
        with self._lock:
            return self._tasks.nodes_sharing_containers(node)

    def unconfirmed(self, node: str) -> set[str]:
        """Ids of containers of a node that name a service of an orchestrator, which does not list them."""
        with self._lock:
            return self._tasks.unconfirmed(node)

    def is_off(self, node: str) -> bool:
        with self._lock:
            row = self._nodes.row(node)
            return row is not None and not self._nodes.table.columns.on[row]

    def apply_beacons(self, nodes: Iterable[str], at: float) -> None:
        """Note that nodes without anything to report are up."""
        with self._lock:
            self._advance(at)
            self._nodes.apply_beacons(nodes, at)

    def restore_windows(self, usage: StoredUsage, successors: Mapping[str, str]) -> None:
        """Fill in the windows of existing nodes and containers from the history.

        `successors` are the containers that replaced others in moves, by the ids of those.

        The lock is released now and then: no row changes before reports arrive.
        """
        row = np.full(len(usage.subjects), NOWHERE, dtype=np.intp)
        for place, (node, container) in enumerate(usage.subjects):
            with self._lock:
                found = (
                    self._nodes.row(node)
                    if container is None
                    else self._tasks.last_row(node, container, successors)
                )
            row[place] = NOWHERE if found is None else found
        is_node = np.array([container is None for _, container in usage.subjects], dtype=np.bool_)
        sums = usage.sums
        known, of_node = (row != NOWHERE)[sums.subject], is_node[sums.subject]
        capacity = self._nodes.table.columns.capacity
        for part in _parts(sums, row, known & of_node, capacity):
            with self._lock:
                self._nodes.windows.restore(*part)
        for part in _parts(sums, row, known & ~of_node):
            with self._lock:
                self._tasks.windows.restore(*part)

    def _advance(self, now: float) -> None:
        """Close the buckets of the windows that ended."""
        if self._nodes.windows.is_over(now):
            valid_until = self._nodes.valid_until(now)
            self._nodes.windows.advance(now, valid_until)
            self._tasks.advance(now, valid_until)

    # --- Analysis -----------------------------------------------------------------------------

    def put_envelopes(  # noqa: PLR0913, PLR0917 - the containers, and their columns
        self,
        node: str,
        containers: Sequence[str],
        envelope: Floats,
        mean: Floats,
        variance: Floats,
        observed_seconds: Sequence[float],
    ) -> None:
        """Set the expected need of containers of a node, one row each; NaN is unknown.

        Containers that do not run are skipped.
        """
        with self._lock:
            found = [self._tasks.row(node, container) for container in containers]
            places = [place for place, row in enumerate(found) if row is not None]
            rows = [row for row in found if row is not None]
            columns = self._tasks.table.columns
            columns.envelope[rows], columns.mean[rows] = envelope[places], mean[places]
            columns.variance[rows] = variance[places]
            columns.observed_seconds[rows] = [observed_seconds[place] for place in places]

    def put_groups(self, groups: Mapping[tuple[str, str], int]) -> None:
        """Set the groups of these containers, by node and id; all others keep theirs.

        The lock is released now and then, as there may be very many.
        """
        items = list(groups.items())
        for start in range(0, len(items), _GROUPS_AT_ONCE):
            with self._lock:
                column = self._tasks.table.columns.group
                for (node, container), group in items[start : start + _GROUPS_AT_ONCE]:
                    row = self._tasks.row(node, container)
                    if row is not None:
                        column[row] = group

    def group_of(self, node: str, container: str) -> int:
        """The number of the group of a container; `NOWHERE` without one."""
        with self._lock:
            row = self._tasks.row(node, container)
            return NOWHERE if row is None else int(self._tasks.table.columns.group[row])

    def put_services(self, services: Services) -> None:
        """Replace the analysed services, which are sorted by name."""
        with self._lock:
            self._builder.analysed = services

    # --- Drivers ------------------------------------------------------------------------------

    def put_allocations(self, allocations: Iterable[Allocation]) -> None:
        """Set the resources that an orchestrator promised containers, until they end."""
        with self._lock:
            columns = self._tasks.table.columns
            for each in allocations:
                row = self._tasks.row(each.node, each.container)
                if row is None:
                    continue
                columns.requested[row], columns.allocated[row] = each.requested, each.allocated
                self._tasks.confirm(row, each)
                if each.first_started_at is not None:
                    columns.first_started_at[row] = each.first_started_at
                came_from = None if each.came_from is None else self._nodes.row(each.came_from)
                columns.came_from[row] = NOWHERE if came_from is None else came_from

    def put_constraints(self, constraints: Mapping[str, tuple[Constraint, ...]]) -> None:
        """Replace the constraints of all services, by name."""
        with self._lock:
            self._builder.constraints = constraints

    def put_experience(self, experience: Experience) -> None:
        """Replace what is known about the time that actions take."""
        with self._lock:
            self._builder.experience = experience

    def inherit_windows(self, succession: Succession) -> None:
        """Let a running container continue the windows of the one that it replaced."""
        with self._lock:
            self._tasks.inherit(succession)

    def put_status(self, status: NodeView) -> None:
        """Replace the status of a node that an orchestrator reports or the control loop sets."""
        with self._lock:
            self._nodes.put_status(status)

    # --- Readers ------------------------------------------------------------------------------

    def record(self, node: str, now: float) -> NodePlacement:
        with self._lock, np.errstate(over="ignore", invalid="ignore"):
            row = self._nodes.row(node)
            assert row is not None
            columns, allocated = self._nodes.table.columns, self._tasks.allocated(node)
            used, capacity = columns.used[row : row + 1], columns.capacity[row : row + 1]
            failures = self._nodes.failures(columns.failures[row], columns.failed_at[row], now)
            return NodePlacement(
                region=REGION_LABELS[region_of(highest_ratio(used, capacity))[0]],
                task_class=self._tasks.strictest_class(node),
                allocated=to_quantities(allocated),
                overbooking_ratio=float(highest_ratio(allocated[np.newaxis], capacity)[0]),
                generation=GENERATION_LABELS[columns.generation[row]],
                accepts=bool(columns.accepts[row]),
                on=bool(columns.on[row]),
                failures=round(float(failures)),
                labels=self._nodes.labels(node),
            )

    def nodes_by_region(self) -> list[str]:
        """Node names in the order of Energy4Cloud's registry: by region, strictest class, utilisation, name.

        Full nodes come first in the regions LEE and DEE, and last in EED. A node without tasks takes any, and
        counts to the laxest class.
        """
        with self._lock, np.errstate(over="ignore", invalid="ignore"):
            table, tasks = self._nodes.table, self._tasks.table.columns
            rows = table.order()
            names = table.names(rows)
            utilisation = highest_ratio(table.columns.used[rows], table.columns.capacity[rows])
            strictest = strictest_by_node(tasks.node, tasks.task_class, table.size)[rows]
        region = region_of(utilisation)
        strictest[strictest == 0] = _LAXEST_CLASS
        order = np.lexsort((np.where(region == Region.EED, utilisation, -utilisation), strictest, region))
        return [names[place] for place in order.tolist()]

    def find(
        self,
        *,
        services: Collection[str] | None = None,
        name: str | None = None,
        group: int | None = None,
    ) -> dict[str, list[str]]:
        """Ids by node of the containers of these services, with this name, in this group; None is any."""
        with self._lock:
            rows = self._tasks.find_rows(services, name, group)
            tasks = self._tasks.reported(rows, self._tasks.texts.changes)
        found: dict[str, list[str]] = {}
        for task in tasks:
            found.setdefault(task.node, []).append(task.state.id)
        return found

    def search_tasks(self, text: str) -> bool:
        """Search some containers for a text, before `list_tasks`; returns whether all are searched."""
        with self._lock:
            return self._tasks.texts.search(text) is not None

    def running_of(self, services: Collection[str], now: float) -> list[ContainerState]:
        """The containers of these services on nodes that are not down."""
        with self._lock:
            rows = self._tasks.find_rows(services, None, None)
            is_down = self._liveness(now) == Liveness.DOWN
            rows = rows[~is_down[self._tasks.table.columns.node[rows]]]
            return [each.state for each in self._tasks.reported(rows, self._tasks.texts.changes)]

    def _liveness(self, now: float) -> Codes:
        nodes = self._nodes.table.columns
        return self.liveness.column(now, nodes.last_report_at, nodes.beacon_seconds)

    def list_tasks(  # noqa: PLR0913 - filters
        self,
        *,
        node: str | None = None,
        service: str | None = None,
        name: str | None = None,
        group: int | None = None,
        search: str | None = None,
        order: TaskOrder | None = None,
    ) -> TaskList:
        """The containers on this node, of this service, with this name, in this group; None is any.

        They are sorted by the names of their nodes. `search` looks at their name, service, image, node and
        id, in any case.
        """
        with self._lock:
            rows = self._tasks.find_rows(None if service is None else (service,), name, group)
            if search:
                while (matching := self._tasks.texts.search(search)) is None:
                    pass
                rows = rows[matching[rows]]
            nodes, columns = self._nodes.table, self._tasks.table.columns
            if node is not None:
                row = self._nodes.row(node)
                rows = rows[columns.node[rows] == (NOWHERE if row is None else row)]
            else:
                # Numbers sort faster than places by numbers.
                place = places(nodes.order(), nodes.size)[columns.node[rows]]
                rows = np.sort(place << _ROW_BITS | rows) & ((1 << _ROW_BITS) - 1)
            return TaskList(rows, self._tasks.order_values(order, rows), self._tasks.texts.changes)

    def labelled(self, tasks: TaskList, is_labelled: Callable[[Mapping[str, str]], bool]) -> TaskList:
        """The listed containers whose labels match."""
        found = []
        for start in range(0, tasks.rows.size, _ROWS_AT_ONCE):
            some = np.arange(start, min(start + _ROWS_AT_ONCE, tasks.rows.size))
            with self._lock:
                some = some[self._tasks.texts.unchanged(tasks.rows[some], tasks.changes)]
                reported = self._tasks.reported(tasks.rows[some], tasks.changes)
            found.append(some[[is_labelled(each.state.labels) for each in reported]])
        return tasks.at(np.concatenate(found)) if found else tasks

    def reported(self, tasks: TaskList, rows: Rows) -> list[ReportedTask]:
        """The listed containers in some rows, without those that ended since."""
        with self._lock:
            return self._tasks.reported(rows, tasks.changes)

    def reservation(self, node: str, container: str) -> Quantities:
        """What is reserved for a container; empty if it does not run."""
        with self._lock:
            row = self._tasks.row(node, container)
            return Quantities() if row is None else to_quantities(self._tasks.table.columns.allocated[row])

    def running(self, containers: Iterable[str]) -> set[str]:
        """The ids among these that a node reports."""
        with self._lock:
            return {each for each in containers if self._tasks.is_running(each)}

    def node_names(self) -> tuple[str, ...]:
        with self._lock:
            return self._nodes.table.names(self._nodes.table.order())

    def list_nodes(self, now: float) -> ListedNodes:
        with self._lock:
            return self._nodes.listed(now, self.liveness)

    def service_watts(self, now: float) -> dict[str, float]:
        """Power of the services on nodes that are not down.

        If an orchestrator runs the service, only the containers that it lists count.
        """
        with self._lock:
            tasks, services = self._tasks.table.columns, self._tasks.services
            rows = np.flatnonzero((tasks.service != NOWHERE) & ~np.isnan(tasks.watts))
            rows = rows[self._liveness(now)[tasks.node[rows]] != Liveness.DOWN]
            rows = rows[~self._tasks.are_unconfirmed(rows)]
            service = tasks.service[rows]
            totals = np.bincount(service, tasks.watts[rows], services.size)
            found = np.flatnonzero(np.bincount(service))
            return dict(zip(services.names(found), totals[found].tolist(), strict=True))

    def labels(self, node: str) -> Mapping[str, str]:
        with self._lock:
            return self._nodes.labels(node)

    def snapshot(self, now: float) -> Snapshot:
        """The cluster now, or as it was at most `snapshot_seconds` ago."""
        with self._snapshot_lock:
            last = self._last
            if last is not None and 0 <= now - last.at < self._snapshot_seconds:
                return last
            with np.errstate(over="ignore", invalid="ignore"):
                with self._lock:
                    self._advance(now)
                    copy = self._builder.copy(self._nodes, self._tasks, now)
                taken = self._builder.snapshot(copy, now)
            self._last = replace(
                taken,
                parts={
                    type(part): part
                    for part in (each.snapshot_part(taken) for each in self.parts)
                    if part is not None
                },
            )
            return self._last


def _parts(
    stored: BucketSums, rows: Rows, which: Flags, unit: Floats | None = None
) -> Iterator[tuple[Rows, int, Floats, Floats]]:
    """Yield some of the stored buckets, a few rows each; `unit` turns values into shares of it, by row."""
    row, buckets, totals = rows[stored.subject[which]], stored.bucket[which], stored.totals[which]
    if unit is not None:
        totals = np.where(unit[row] > 0, totals / np.where(unit[row] > 0, unit[row], 1.0), np.nan)
    known = ~np.isnan(totals)
    weighed = np.where(known, totals, 0.0)
    seconds = np.where(known, stored.seconds[which][:, np.newaxis], 0.0)
    for bucket in np.unique(buckets).tolist():
        some = np.flatnonzero(buckets == bucket)
        found, place = np.unique(row[some], return_inverse=True)
        # Each resource by itself: `np.add.at` takes longer.
        one, other = (sum_by_node(place, each[some], found.size) for each in (weighed, seconds))
        # The last rows first, so that a bucket grows only once.
        for end in range(found.size, 0, -_ROWS_AT_ONCE):
            part = slice(max(0, end - _ROWS_AT_ONCE), end)
            yield found[part], bucket, one[part], other[part]
