"""The board itself: one lock, its writers, and the snapshot."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Lock

import numpy as np

from collector.config import CollectorConfig
from collector.live.changes import Allocation, Change, Host, HostRecord
from collector.live.lists import CLASSES, Lists
from collector.live.node_columns import NodeTable
from collector.live.snapshots import SnapshotBuilder
from collector.live.task_columns import TaskTable, quantities
from collector.snapshot.assembly import ServiceFacts
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Generation, Region, Snapshot

_GROUPS_AT_ONCE = 500


class LiveTables:
    """Nodes and tasks now. Every method may be called from any thread; none waits for more than a copy.

    Strangers may claim numbers whose sums are beyond all numbers; that harms none but them, so nothing warns.
    """

    def __init__(self, config: CollectorConfig) -> None:
        placement = config.placement
        self._nodes = NodeTable(config)
        self._tasks = TaskTable(placement.default_class)
        self._lists = Lists()
        self._picturing = SnapshotBuilder(config)
        self._snapshot_seconds = placement.snapshot_seconds
        self._last: Snapshot | None = None
        self._writing = Lock()
        self._picture_taking = Lock()

    # --- The registry -------------------------------------------------------------------------

    def take(self, change: Change) -> list[str]:
        """Take in what a report changed; gives the ids of the containers that were not there before."""
        with self._writing, np.errstate(over="ignore", invalid="ignore"):
            row = self._nodes.take(change)
            if change.gone:
                self._tasks.drop(change.node, change.gone)
                for container in change.gone:
                    self._lists.drop_task(change.node, container)
            new: list[str] = []
            if change.containers:
                capacity = self._nodes.table.columns.capacity[row].tolist()
                rows, new = self._tasks.put(change.node, row, capacity, change.containers, change.heard_at)
                self._list(change.node, [state.id for state in change.containers], rows)
            # A beacon moves nobody.
            if change.tells_use or change.containers or change.gone or change.node not in self._lists:
                self._lists.put_host(change.node, self._nodes.use_ratio(row) if change.tells_use else None)
            return new

    def forget(self, node: str) -> None:
        """Let a node go, with all that ran on it."""
        with self._writing:
            self._lists.drop_host(node)
            self._tasks.drop_node(node)
            row = self._nodes.drop(node)
            came_from = self._tasks.table.columns.came_from
            came_from[came_from == row] = NOWHERE

    def rivals(self, node: str) -> Counter[str]:
        """The nodes that tell of the same containers as this one, and of how many."""
        with self._writing:
            return self._tasks.rivals(node)

    def is_off(self, node: str) -> bool:
        """Whether a node is known to be switched off."""
        with self._writing:
            row = self._nodes.row(node)
            return row is not None and not self._nodes.table.columns.on[row]

    # --- Those that learn ---------------------------------------------------------------------

    def put_envelopes(  # noqa: PLR0913, PLR0917 - whose, and the columns
        self,
        node: str,
        containers: Sequence[str],
        envelope: Floats,
        mean: Floats,
        variance: Floats,
        samples: Sequence[int],
    ) -> None:
        """What containers of a node are reckoned to need, a row each; NaN where it is not known.

        Those that do not run are passed over.
        """
        with self._writing:
            found = [self._tasks.row(node, container) for container in containers]
            places = [place for place, row in enumerate(found) if row is not None]
            rows = [row for row in found if row is not None]
            columns = self._tasks.table.columns
            columns.envelope[rows], columns.mean[rows] = envelope[places], mean[places]
            columns.variance[rows] = variance[places]
            columns.samples[rows] = [samples[place] for place in places]

    def put_groups(self, groups: Mapping[tuple[str, str], int]) -> None:
        """The class that each container's envelope falls into, by node and id; one not named keeps its own.

        They may be very many, so that others get their turn in between.
        """
        named = list(groups.items())
        for start in range(0, len(named), _GROUPS_AT_ONCE):
            with self._writing:
                column = self._tasks.table.columns.group
                for (node, container), group in named[start : start + _GROUPS_AT_ONCE]:
                    row = self._tasks.row(node, container)
                    if row is not None:
                        column[row] = group

    def put_services(self, services: Sequence[ServiceFacts]) -> None:
        """All that is known of services, in place of what was."""
        with self._writing:
            self._picturing.put_services(services)

    # --- Drivers ------------------------------------------------------------------------------

    def put_allocations(self, allocations: Iterable[Allocation]) -> None:
        """What an orchestrator promised containers; it holds until they are gone."""
        with self._writing:
            columns = self._tasks.table.columns
            for each in allocations:
                row = self._tasks.row(each.node, each.container)
                if row is None:
                    continue
                columns.requested[row], columns.allocated[row] = each.requested, each.allocated
                columns.is_promised[row] = True
                self._tasks.hold(row, stays=each.stays, everywhere=each.everywhere)
                self._list(each.node, [each.container], [row])
                came_from = None if each.came_from is None else self._nodes.row(each.came_from)
                columns.came_from[row] = NOWHERE if came_from is None else came_from

    def put_host(self, host: Host) -> None:
        """What an orchestrator, or whoever switches nodes, knows of one, in place of what was."""
        with self._writing:
            self._nodes.put_host(host)

    # --- Readers ------------------------------------------------------------------------------

    def record(self, node: str, now: float) -> HostRecord:
        """What decisions go by about a node that is there."""
        with self._writing, np.errstate(over="ignore", invalid="ignore"):
            row = self._nodes.row(node)
            assert row is not None
            columns, allocated = self._nodes.table.columns, self._tasks.allocated(node)
            return HostRecord(
                region=self._lists.region(node),
                task_class=self._lists.task_class(node),
                allocated=quantities(allocated),
                overbooking=self._nodes.overbooking(row, allocated),
                generation=Generation(columns.generation[row]),
                accepts=bool(columns.accepts[row]),
                on=bool(columns.on[row]),
                failures=round(self._nodes.left_failures(row, now)),
                labels=self._nodes.labels(node),
            )

    def hosts(self, regions: Iterable[Region], classes: Sequence[int] = CLASSES) -> list[str]:
        """Nodes in the order of Energy4Cloud's registry: by region, then class, then use."""
        with self._writing:
            return list(self._lists.hosts(regions, classes))

    def least_used(self, node: str, task_class: int) -> list[str]:
        """Ids of a node's containers of one class, the least used first, new ones last."""
        with self._writing:
            return list(self._lists.tasks(node, task_class))

    def find(
        self,
        *,
        services: Collection[str] | None = None,
        name: str | None = None,
        group: int | None = None,
    ) -> dict[str, list[str]]:
        """Ids by node of the containers of these services, of a name and of a class, as far as asked for."""
        with self._writing:
            return self._tasks.find(services, name, group)

    def labels(self, node: str) -> Mapping[str, str]:
        """The labels of a node that is there."""
        with self._writing:
            return self._nodes.labels(node)

    def snapshot(self, now: float) -> Snapshot:
        """The cluster as it is, or as it was at most `snapshot_seconds` ago; nobody changes it any more."""
        with self._picture_taking:
            last = self._last
            if last is not None and 0 <= now - last.at < self._snapshot_seconds:
                return last
            with np.errstate(over="ignore", invalid="ignore"):
                with self._writing:
                    taken = self._picturing.copy(self._nodes, self._tasks, now)
                self._last = self._picturing.snapshot(taken, now)
            return self._last

    def _list(self, node: str, containers: Sequence[str], rows: Sequence[int]) -> None:
        uses = self._tasks.use_ratios(rows)
        classes = self._tasks.table.columns.task_class[rows].tolist()
        for container, task_class, use in zip(containers, classes, uses, strict=True):
            self._lists.put_task(node, container, task_class, use)
