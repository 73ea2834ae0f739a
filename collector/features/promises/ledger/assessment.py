"""How all promises stand at one moment, from the columns of the ledger."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.features.promises.ledger.instance_table import InstanceColumns
from collector.features.promises.ledger.instances import InstanceRecords
from collector.features.promises.ledger.penalties import penalty
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.ledger.services import ServiceRecords
from collector.features.promises.ledger.standing import (
    MODES,
    NOWHERE,
    Accounts,
    Figures,
    InstanceStandings,
    ServiceStandings,
    Standings,
    compute_figures,
    preemption_ratio,
)
from collector.features.promises.ledger.startups import ClusterStartups

_BLOCK_INSTANCES = 8192
"""The columns of this many instances take about 2 MB."""


class Block(NamedTuple):
    """How some services and all their instances stand."""

    standings: Standings
    rows: Rows
    """The row of each instance in the ledger."""


class Assessment:
    """Computes how promises stand, for all services or some at a time."""

    def __init__(
        self,
        now: float,
        promises: tuple[Promise, ...],
        services: ServiceRecords,
        instances: InstanceRecords,
        startups: ClusterStartups,
    ) -> None:
        """`startups` are the start-up times of the whole cluster."""
        self._now, self._promises = now, promises
        self._services, self._instances = services, instances
        self._startup_seconds = startups.other_node() or 0.0
        self._restart_seconds = startups.same_node() or 0.0
        self._numbers = services.promised()
        """The services with a promise."""

    def all_services(self) -> Standings:
        """How every promise stands."""
        return self._assess(self._numbers).standings

    def blocks(self) -> Iterator[Block]:
        """How every promise stands, in blocks of services."""
        sizes = self._instances.table.sizes(self._services.limit)[self._numbers]
        block = np.cumsum(sizes) // _BLOCK_INSTANCES
        starts = np.flatnonzero(np.diff(block, prepend=NOWHERE))
        for numbers in np.split(self._numbers, starts[1:]):
            yield self._assess(numbers)

    def _assess(self, numbers: Rows) -> Block:
        services, count = self._services, numbers.size
        row_of = np.full(services.limit, NOWHERE, dtype=np.intp)
        row_of[numbers] = np.arange(count)
        modes, promise = services.modes(numbers), services.promises(numbers)
        targets = np.array([each.availability for each in self._promises], dtype=np.float64)[promise]
        is_batch = np.zeros(services.limit, dtype=np.bool_)
        is_batch[numbers] = modes == MODES.index(ServiceMode.BATCH)

        columns = self._instances.table.at(self._now, row_of != NOWHERE, is_batch)
        service = row_of[columns.service]
        concurrent_since = services.concurrent_since(numbers)[service]
        figures = compute_figures(_accounts(self._now, columns, service, concurrent_since), modes, targets)
        startup = _known_or(services.startup_seconds(numbers), self._startup_seconds)
        restart = _known_or(services.restart_seconds(numbers), self._restart_seconds)
        instances = self._instances_at(columns, figures, service=service, startup=startup, restart=restart)

        def lowest(values: Floats, default: float) -> Floats:
            found = np.full(count, default)
            np.minimum.at(found, instances.service, values)
            return found

        delivered = figures.services
        of_services = ServiceStandings(
            names=services.names(numbers),
            promise=promise,
            mode=modes,
            target=targets,
            slack_seconds=lowest(instances.slack_seconds, np.inf),
            total_seconds=figures.total_seconds,
            penalty=penalty(targets, delivered.availability, figures.total_seconds),
            preemption_ratio=-lowest(-instances.preemption_ratio, 0.0),
            startup_seconds=startup,
            running_instances=figures.running_instances,
            live_instances=figures.live_instances,
            preemptions=np.bincount(service, columns.preemptions, count).astype(np.intp),
            **{each.name: getattr(delivered, each.name) for each in fields(delivered)},
        )
        standings = Standings(
            at=self._now, promises=self._promises, services=of_services, instances=instances
        )
        return Block(standings, columns.rows[columns.is_live])

    def _instances_at(
        self, columns: InstanceColumns, figures: Figures, *, service: Rows, startup: Floats, restart: Floats
    ) -> InstanceStandings:
        """How the instances that have not ended stand. `startup` and `restart` are per service."""
        live = np.flatnonzero(columns.is_live)
        of, rows, records = service[live], columns.rows[live].tolist(), self._instances
        return InstanceStandings(
            service=of,
            slots=tuple(map(records.slot, rows)),
            incarnations=tuple(map(records.incarnation, rows)),
            nodes=tuple(map(records.nodes.name, columns.node[live].tolist())),
            is_running=columns.is_running[live],
            running_seconds=figures.counted_seconds[live],
            waiting_seconds=columns.waiting_seconds[live],
            discarded_seconds=figures.discarded_seconds[live],
            availability=figures.availability[live],
            slack_seconds=figures.slack_seconds[live] - np.maximum(startup, restart)[of],
            preemption_ratio=preemption_ratio(columns.preempted_startup_seconds, columns.ran_seconds)[live],
            preemptions=columns.preemptions[live],
            startup_seconds=startup[of],
            restart_seconds=restart[of],
            waited_seconds=columns.waited_seconds[live],
            run_seconds=columns.run_seconds[live],
            admitted=columns.admitted[live],
            is_spare=figures.is_spare[live],
        )


def _known_or(values: Floats, default: float) -> Floats:
    return np.where(np.isnan(values), default, values)


def _accounts(now: float, columns: InstanceColumns, service: Rows, concurrent_since: Floats) -> Accounts:
    # Of an instance that joined its running siblings, only its own time counts.
    lasting = np.where(
        np.isnan(concurrent_since), 0.0, np.maximum(now - np.maximum(concurrent_since, columns.admitted), 0.0)
    )
    concurrent = columns.concurrent_seconds + np.where(columns.is_live, lasting, 0.0)
    return replace(columns, service=service, concurrent_seconds=concurrent)
