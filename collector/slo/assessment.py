"""How all promises stand at one moment, from the columns of the ledger."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from collector.slo.instances import InstanceRecords
from collector.slo.penalties import penalty
from collector.slo.promises import Promise, ServiceMode
from collector.slo.services import ServiceRecords
from collector.slo.standing import (
    MODES,
    NOWHERE,
    Accounts,
    Figures,
    Floats,
    InstanceStandings,
    Rows,
    ServiceStandings,
    Standings,
    compute_figures,
    preemption_ratio,
)
from collector.slo.startups import ClusterStartups
from collector.slo.table import LivesAt

_BLOCK_INSTANCES = 8192
"""The columns of so many take about 2 MB."""


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
        """`startups` are those of the whole cluster."""
        self._now, self._promises = now, promises
        self._services, self._instances = services, instances
        self._startup_seconds = startups.other_node() or 0.0
        self._restart_seconds = startups.same_node() or 0.0
        self._numbers = services.promised()
        """Of the services with a promise."""

    def whole(self) -> Standings:
        """How every promise stands."""
        return self._assess(self._numbers).standings

    def blocks(self) -> Iterator[Block]:
        """The same in blocks of services."""
        sizes = self._instances.lives.sizes(self._services.limit)[self._numbers]
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

        lives = self._instances.lives.at(self._now, row_of != NOWHERE, is_batch)
        service = row_of[lives.service]
        concurrent_since = services.concurrent_since(numbers)[service]
        figures = compute_figures(_accounts(self._now, lives, service, concurrent_since), modes, targets)
        startup = _known_or(services.startup_seconds(numbers), self._startup_seconds)
        restart = _known_or(services.restart_seconds(numbers), self._restart_seconds)
        instances = self._instances_at(lives, figures, service=service, startup=startup, restart=restart)

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
            availability=delivered.availability,
            slack_seconds=lowest(instances.slack_seconds, np.inf),
            breaks_in_seconds=delivered.breaks_in_seconds,
            deficit_seconds=delivered.deficit_seconds,
            total_seconds=figures.total_seconds,
            penalty=penalty(targets, delivered.availability, figures.total_seconds),
            preemption_ratio=-lowest(-instances.preemption_ratio, 0.0),
            startup_seconds=startup,
            trend=delivered.trend,
            running_instances=figures.running_instances,
            live_instances=figures.live_instances,
            preemptions=np.bincount(service, lives.preemptions, count).astype(np.intp),
        )
        standings = Standings(
            at=self._now, promises=self._promises, services=of_services, instances=instances
        )
        return Block(standings, lives.rows[lives.is_live])

    def _instances_at(
        self, lives: LivesAt, figures: Figures, *, service: Rows, startup: Floats, restart: Floats
    ) -> InstanceStandings:
        """The instances that have not ended. `startup` and `restart` are per service."""
        shown = np.flatnonzero(lives.is_live)
        of, rows, names = service[shown], lives.rows[shown].tolist(), self._instances
        return InstanceStandings(
            service=of,
            slots=tuple(map(names.slot, rows)),
            incarnations=tuple(map(names.incarnation, rows)),
            nodes=tuple(map(names.nodes.name, lives.node[shown].tolist())),
            is_running=lives.is_running[shown],
            running_seconds=figures.counted_seconds[shown],
            waiting_seconds=lives.waiting_seconds[shown],
            discarded_seconds=figures.discarded_seconds[shown],
            availability=figures.availability[shown],
            slack_seconds=figures.slack_seconds[shown] - np.maximum(startup, restart)[of],
            preemption_ratio=preemption_ratio(lives.preempted_startup_seconds, lives.ran_seconds)[shown],
            preemptions=lives.preemptions[shown],
            startup_seconds=startup[of],
            restart_seconds=restart[of],
            waited_seconds=lives.waited_seconds[shown],
            run_seconds=lives.run_seconds[shown],
            admitted=lives.admitted[shown],
            is_spare=figures.is_spare[shown],
        )


def _known_or(values: Floats, default: float) -> Floats:
    return np.where(np.isnan(values), default, values)


def _accounts(now: float, lives: LivesAt, service: Rows, concurrent_since: Floats) -> Accounts:
    # Of an instance that joined its running siblings, only its own time counts.
    lasting = np.where(
        np.isnan(concurrent_since), 0.0, np.maximum(now - np.maximum(concurrent_since, lives.admitted), 0.0)
    )
    return Accounts(
        service=service,
        is_live=lives.is_live,
        is_completed=lives.is_completed,
        is_running=lives.is_running,
        ran_seconds=lives.ran_seconds,
        waiting_seconds=lives.waiting_seconds,
        concurrent_seconds=lives.concurrent_seconds + np.where(lives.is_live, lasting, 0.0),
        failed_seconds=lives.failed_seconds,
        run_seconds=lives.run_seconds,
    )
