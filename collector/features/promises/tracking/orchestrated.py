"""Instances of services that an orchestrator runs: only it knows which tasks run, wait or are to run."""

from collections.abc import Iterable, Sequence
from math import isnan

from collector.common.labels import DAEMON, KIND_LABEL
from collector.common.orchestrator import Mode, OrchestratorState, ServiceView, TaskView
from collector.features.promises.labels import PromiseTraits
from collector.features.promises.ledger.events import LifecycleKind
from collector.features.promises.ledger.promises import ServiceMode
from collector.features.promises.settings import SLO_LABEL
from collector.features.promises.tracking.book import PromiseBook, TrackedContainer, TrackedService
from collector.features.promises.tracking.reported import ReportedContainers


class OrchestratedServices:
    """Applies the state of an orchestrator to a book. Not thread-safe."""

    def __init__(self, book: PromiseBook, reported: ReportedContainers) -> None:
        self._book, self._reported = book, reported

    def apply(self, state: OrchestratorState, now: float) -> None:
        """Apply the state of all services; single containers are reported by their nodes."""
        tasks: dict[str, list[TaskView]] = {}
        for task in (*state.tasks, *state.pending):
            if task.id:
                tasks.setdefault(task.service, []).append(task)
        listed = set()
        self._book.unknown_classes = {}
        for service in state.services:
            if service.mode is Mode.STANDALONE and service.name not in tasks:
                continue
            listed.add(service.name)
            if (name := service.labels.get(SLO_LABEL)) and name not in self._book.promises:
                self._book.unknown_classes[service.name] = name
            self._put(service, tasks.get(service.name, ()), now)
        for name, known in list(self._book.services.items()):
            if known.is_orchestrated and name not in listed:
                self._remove(name, now)
        self._book.viewed_at = now

    def _put(self, service: ServiceView, tasks: Sequence[TaskView], now: float) -> None:
        book, name, is_global = self._book, service.name, service.mode is Mode.GLOBAL
        labels = {KIND_LABEL: DAEMON, **service.labels} if is_global else service.labels
        traits, known = book.traits(labels), book.services.get(name)
        if not traits.promise_class:
            self._leave_out(name, tasks, traits, now)
            return
        is_new = known is None
        known_pending = frozenset() if known is None else known.pending
        book.set_service(name, TrackedService(traits, is_orchestrated=True, pending=known_pending))
        running: dict[str, str] = {}
        for task in tasks:
            # A pod may have several containers: the first stands for it.
            if task.container and running.setdefault(task.id, task.container) == task.container:
                self._list(name, task, now, is_new=is_new)
        pending = {task.id: task for task in tasks if not task.container}
        for task_id in known_pending - pending.keys() - running.keys():
            book.enter(TrackedContainer("", name, task_id), LifecycleKind.ENDED, now)
        for task_id in pending.keys() - known_pending:
            task = pending[task_id]
            book.enter(_entry(name, task), LifecycleKind.WAITING, self._created(task, now, is_new=is_new))
        book.set_service(name, TrackedService(traits, is_orchestrated=True, pending=frozenset(pending)))
        for container in set(book.containers_of(name)).difference(running.values()):
            self._unlist(container, now)
        if traits.mode is not ServiceMode.BATCH:
            wanted = len(pending) + len(running) if is_global else service.replicas
            self._withdraw(name, wanted, now)

    def _leave_out(self, service: str, tasks: Iterable[TaskView], traits: PromiseTraits, now: float) -> None:
        """Stop tracking a service without a promise."""
        if service in self._book.services:
            self._remove(service, now)
            self._book.ledger.set_service(service, *traits)
        for task in tasks:
            if (node := self._reported.nodes.get(task.node)) is not None:
                node.unlisted.pop(task.container, None)

    def _created(self, task: TaskView, now: float, *, is_new: bool) -> float:
        """When a task began to count: at its creation, but a promise that is new counts from now on."""
        since = now if self._book.viewed_at is None else self._book.viewed_at
        created_at = now if task.created_at is None else task.created_at
        return now if is_new and created_at < since else min(max(created_at, since), now)

    def _list(self, service: str, task: TaskView, now: float, *, is_new: bool) -> None:
        book, container = self._book, task.container
        known = book.containers.get(container)
        if known is not None and known.is_listed and (known.incarnation, known.node) == (task.id, task.node):
            self._catch_up(known, task, now)
            return
        node = self._reported.nodes.get(task.node)
        reported = None if node is None else node.unlisted.pop(container, None)
        if known is not None and known.is_running and known.node == task.node:
            reported = known.since, None
        entry = _entry(service, task)
        entry.is_listed, entry.is_reported = True, node is not None
        book.add(container, entry)
        created_at = self._created(task, now, is_new=is_new)
        book.enter(entry, LifecycleKind.WAITING, created_at)
        if reported is not None:
            started_at, startup_seconds = reported
            book.run(container, max(started_at, created_at), startup_seconds)
        elif task.running_since is not None:
            # Its node reported it before its labels were known, or has not reported it yet.
            book.run(container, min(max(task.running_since, created_at), now))

    def _catch_up(self, known: TrackedContainer, task: TaskView, now: float) -> None:
        """Start a container that was listed before it ran, and that its node reported without its labels."""
        if known.is_running or known.is_lost or task.running_since is None:
            return
        if isnan(known.since) or task.running_since > known.since:
            self._book.run(task.container, min(task.running_since, now))

    def _unlist(self, container: str, now: float) -> None:
        """The orchestrator no longer lists a container; if its node reports it, it runs until its end."""
        entry = self._book.containers[container]
        entry.is_listed = False
        if entry.is_running and not entry.is_reported:
            self._book.end(container, now)
        if not entry.is_running:
            self._book.drop(container)

    def _withdraw(self, service: str, wanted: int, now: float) -> None:
        """A service that was scaled down loses its newest slots that are vacant."""
        ledger = self._book.ledger
        excess = max(len(ledger.live_slots(service)) - wanted, 0)
        for slot in ledger.vacant_slots(service)[:excess]:
            self._book.withdraw(service, slot, now)

    def _remove(self, service: str, now: float) -> None:
        for slot in self._book.ledger.live_slots(service):
            self._book.withdraw(service, slot, now)
        self._book.drop_service(service)


def _entry(service: str, task: TaskView) -> TrackedContainer:
    return TrackedContainer(task.node, service, task.id, task.slot)
