"""The lifecycles of simulated containers, as events for the collector's own ledger."""

from collections.abc import Collection, Sequence

import numpy as np

from collector.common.arrays import Codes, Floats, Rows
from collector.features.promises.ledger.events import Ending, LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.ledger.promises import gini, is_broken, penalty
from collector.features.promises.snapshot import TaskPromises
from replay.setup.workload import PromisedContainers, Workload
from replay.simulation.cluster import unix
from replay.simulation.results import ClassResult, PromisesKept

_COMPLETED_TO_FORGET = 1000


class Lifecycles:
    """Applies events to the ledger, and names incarnations: `ID~1`, `ID~2` and so on after the first stop."""

    def __init__(self, workload: Workload, promised: PromisedContainers, hosts: Sequence[str]) -> None:
        self._workload, self._promised, self._hosts = workload, promised, hosts
        self.ledger = Ledger({each.name: each for each in promised.promises})
        self._ids = list(workload.ids)
        self._incarnations = [0] * workload.size
        self.row_of: dict[str, int] = {}
        """The row of each incarnation that runs or waits."""
        self._availability: Floats = np.ones(workload.size)
        """The availability of containers that have ended."""
        self._seconds: Floats = np.zeros(workload.size)
        self._completed = 0

    def ids_of(self, rows: Rows) -> tuple[str, ...]:
        return tuple(map(self._ids.__getitem__, rows.tolist()))

    def admit(self, row: int, now: float) -> None:
        """Let a container wait for the first time."""
        promise = self._promised.promises[int(self._promised.promise[row])]
        self.ledger.set_service(self._workload.services[row], promise.name, self._promised.mode)
        self._wait(row, now)

    def start(self, row: int, host: int, now: float, startup_seconds: float | None) -> None:
        self._apply(row, now, LifecycleKind.STARTED, node=self._hosts[host], startup_seconds=startup_seconds)

    def preempt(self, row: int, now: float) -> None:
        """Stop a container; its next incarnation waits."""
        self._apply(row, now, LifecycleKind.ENDED, ending=Ending.PREEMPTED)
        del self.row_of[self._ids[row]]
        self._incarnations[row] += 1
        self._ids[row] = f"{self._workload.ids[row]}~{self._incarnations[row]}"
        self._wait(row, now)

    def complete(self, rows: Rows, now: float) -> None:
        """End containers for good."""
        self._observe(now, set(rows.tolist()))
        for row in rows.tolist():
            self._apply(row, now, LifecycleKind.ENDED, ending=Ending.COMPLETED)
            self._apply(row, now, LifecycleKind.WITHDRAWN)
            del self.row_of[self._ids[row]]
        self._completed += rows.size
        if self._completed > len(self.row_of) + _COMPLETED_TO_FORGET:
            self.ledger.forget(unix(now) + 1.0)
            self._completed = 0

    def figures(self, now: float, *, preemptions: int, operations: int) -> PromisesKept:
        """How the run kept its promises. A request that arrived at its very end is left out."""
        promise, availability, seconds, cores = self._requests(now)
        counted = seconds > 0
        target = np.array([each.availability for each in self._promised.promises])[promise]
        broken = is_broken(target, availability)
        classes = {}
        for code, each in enumerate(self._promised.promises):
            chosen = counted & (promise == code)
            if chosen.any():
                classes[each.name] = ClassResult(
                    requests=int(chosen.sum()),
                    met_ratio=1.0 - float(broken[chosen].mean()),
                    mean_availability=float(availability[chosen].mean()),
                    min_availability=float(availability[chosen].min()),
                    gini=gini(availability[chosen]),
                )
        cost = penalty(target, availability, seconds, cores)
        return PromisesKept(
            slo=classes, penalty=float(cost[counted].sum()), preemptions=preemptions, operations=operations
        )

    def _requests(self, now: float) -> tuple[Codes, Floats, Floats, Floats]:
        """The promise, availability, time and cores of each container or service at the end of the run."""
        cores = np.nan_to_num(self._workload.requested[:, 0], nan=0.0)
        if not self._promised.by_service:
            self._observe(now, set(self.row_of.values()))
            return self._promised.promise, self._availability, self._seconds, cores
        services = self.ledger.standings(unix(now)).services
        cores_of = dict(zip(self._workload.services, cores.tolist(), strict=True))
        code = {each.name: place for place, each in enumerate(self._promised.promises)}
        return (
            np.array([code[each.slo_class] for each in services]),
            np.array([each.availability_ratio for each in services]),
            np.array([each.total_seconds for each in services]),
            np.array([cores_of[each.service] for each in services]),
        )

    def _wait(self, row: int, now: float) -> None:
        self.row_of[self._ids[row]] = row
        self._apply(row, now, LifecycleKind.WAITING)

    def _observe(self, now: float, rows: Collection[int]) -> None:
        """Store the availability of these containers."""
        instances = self.ledger.standings(unix(now)).instances
        total = instances.running_seconds + instances.discarded_seconds + instances.waiting_seconds
        for place, incarnation in enumerate(instances.incarnations):
            if (row := self.row_of.get(incarnation)) in rows:
                self._availability[row] = instances.availability[place]
                self._seconds[row] = total[place]

    def task_promises(self, rows: Rows, now: float) -> TaskPromises:
        """The columns of these containers in a snapshot."""
        instances = self.ledger.standings(unix(now)).instances
        place = {each: place for place, each in enumerate(instances.incarnations)}
        return instances.columns.rows([place[each] for each in self.ids_of(rows)])

    def _apply(  # noqa: PLR0913 - the fields of an event
        self,
        row: int,
        now: float,
        kind: LifecycleKind,
        *,
        node: str = "",
        startup_seconds: float | None = None,
        ending: Ending | None = None,
    ) -> None:
        self.ledger.apply(
            LifecycleEvent(
                at=unix(now),
                kind=kind,
                service=self._workload.services[row],
                incarnation=self._ids[row],
                slot=self._workload.ids[row],
                node=node,
                startup_seconds=startup_seconds,
                ending=ending,
            )
        )
