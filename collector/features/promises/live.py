"""The ledger of a running collector. Any thread may read how promises stand."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from threading import RLock

import numpy as np

from collector.common.orchestrator import OrchestratorState
from collector.config import CollectorConfig
from collector.features.promises.ledger.standing import InstanceStandings, Standings
from collector.features.promises.snapshot import NO_PROMISE, TaskPromises, WaitingPromises, unpromised
from collector.features.promises.tracking.book import PromiseBook
from collector.features.promises.tracking.orchestrated import OrchestratedServices
from collector.features.promises.tracking.reported import ReportedContainers
from collector.observe.agent_run import NodeChanges
from collector.observe.parts import LivePart
from collector.observe.updates import Succession
from collector.snapshot.tables import Snapshot
from wire.messages import ContainerState, Report


class PromiseTracker(LivePart):
    """Enters what nodes and orchestrators report into the ledger, and computes how promises stand."""

    def __init__(self, config: CollectorConfig) -> None:
        self.book = PromiseBook(config)
        self._reported = ReportedContainers(
            self.book,
            is_orchestrated=config.driver.spans_nodes,
            max_containers=config.limits.max_containers,
        )
        self._orchestrated = OrchestratedServices(self.book, self._reported)
        self._queue: frozenset[str] = frozenset()
        self._lock = RLock()
        self._is_restoring = False

    def apply(
        self, report: Report, received_at: float, changes: NodeChanges, new: Sequence[ContainerState]
    ) -> None:
        """Apply a report that changes the containers of its node; `new` are those that just started."""
        with self._lock:
            times = self._reported.nodes[report.node].times.read(report, received_at)
            if self._is_restoring:
                self._reported.await_listing(report.node, times, new)
            else:
                self._reported.apply(report, times, changes, new)

    def note_silence(self, silent: Mapping[str, float]) -> None:
        """Count containers of silent nodes as waiting since the last report of their node.

        When a node reports again, the containers that ran all along count as running after all.
        """
        with self._lock:
            self._reported.note_silence(silent)

    def put_services(self, state: OrchestratorState, now: float) -> None:
        """Apply the state of an orchestrator: all its services, with their tasks."""
        with self._lock:
            self._orchestrated.apply(state, now)

    def add_successions(self, successions: Sequence[Succession]) -> None:
        """Let containers that replace others in moves take their slots."""
        with self._lock:
            self._reported.add_successions(successions)

    def expect_stop(self, container: str) -> None:
        """The collector stops a container: its end is neither a failure nor a completion."""
        self.book.stopped.add(container)

    def put_queue(self, containers: Collection[str]) -> None:
        """Set the containers that the collector stopped, and will start again."""
        self._queue = frozenset(containers)

    def forget(self, before: float) -> None:
        """Forget instances that ended before a time.

        Without an orchestrator, this includes containers that stopped before and were not started again.
        """
        with self._lock:
            book = self.book
            for container, entry in list(book.containers.items()):
                is_wanted = entry.is_running or entry.is_listed or container in self._queue
                if is_wanted or not entry.since < before:
                    continue
                is_vacant = entry.slot in book.ledger.vacant_slots(entry.service)
                if entry.slot is not None and is_vacant and not book.is_orchestrated(entry.service):
                    book.withdraw(entry.service, entry.slot, entry.since)
                book.drop(container)
            for service, slots in book.ledger.forget(before).items():
                book.changed |= {(service, slot) for slot in slots}
                if service in book.services and book.ledger.forget_service(service):
                    book.drop_service(service)
            book.stopped &= book.containers.keys()
            self._reported.tidy()

    def remove(self, node: str) -> None:
        """Forget a node that is removed."""
        self._reported.nodes.pop(node, None)

    def standings(self, now: float) -> Standings:
        """How all promises stand."""
        with self._lock:
            return self.book.ledger.standings(now)

    def snapshot_part(self, snapshot: Snapshot) -> TaskPromises | None:
        """How the promises of the tasks of a snapshot stand; None if there is no promise at all."""
        return self.columns(snapshot.tasks.ids, snapshot.at)

    def columns(self, containers: Sequence[str], now: float) -> TaskPromises | None:
        """How the promises of containers stand, and of instances that wait; None if there is no promise."""
        with self._lock:
            standings, tracked = self.standings(now), self.book.containers
            instances = standings.instances
            services = [standings.names[row] for row in instances.service.tolist()]
            if not services:
                return None
            keys = zip(services, instances.incarnations, strict=True)
            place = {key: row for row, key in enumerate(keys)}
            entries = (tracked.get(each) for each in containers)
            found = [
                NO_PROMISE if each is None else place.get((each.service, each.incarnation), NO_PROMISE)
                for each in entries
            ]
            # The last row is that of tasks without a promise.
            columns = instances.columns.followed_by(unpromised(standings.promises, 1))
            waiting = np.flatnonzero(~instances.is_running).tolist()
            places = self._waiting_places(instances, services, waiting)
            known = WaitingPromises(places, columns.rows([*waiting, NO_PROMISE])) if waiting else None
            return replace(columns.rows(found), waiting=known)

    def _waiting_places(
        self, instances: InstanceStandings, services: Sequence[str], waiting: Sequence[int]
    ) -> dict[str, int]:
        """The places of pending tasks and of stopped containers among the instances that wait."""
        places: dict[str, int] = {}
        by_slot: defaultdict[str, dict[str | None, int]] = defaultdict(dict)
        for place, row in enumerate(waiting):
            if instances.incarnations[row]:
                places[instances.incarnations[row]] = place
            by_slot[services[row]][instances.slots[row]] = place
        for service, of_slot in by_slot.items():
            for container in self.book.containers_of(service):
                slot = self.book.containers[container].slot
                if slot in of_slot:
                    places[container] = of_slot[slot]
        return places

    def begin_restore(self, values: Mapping[str, bytes], viewed_at: float | None) -> None:
        """Restore stored values. Until `end_restore`, reports are those that these values include."""
        with self._lock:
            self.book.restore(values)
            self._reported.restore_lost()
            self.book.viewed_at = viewed_at
            self._is_restoring = True

    def replay(self, report: Report, received_at: float, since: float) -> None:
        """Apply a stored report that the restored values do not include; `since` is the time of those."""
        with self._lock:
            self._reported.replay(report, received_at, since)

    def end_restore(self, running: Mapping[str, Sequence[ContainerState]], now: float) -> None:
        """Match the ledger with the containers that nodes reported last: some may have a promise only now."""
        with self._lock:
            self._is_restoring = False
            self._reported.reconcile(running, now)


LIVE = (PromiseTracker,)
