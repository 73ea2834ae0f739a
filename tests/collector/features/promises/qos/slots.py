"""A small simulator: instances of one size, hosts of some slots each, and the pass over the queue."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from collector.common.arrays import Floats
from collector.features.promises.qos.queue import Hosts, Instances, Outcome, Terms
from collector.features.promises.qos.queue_pass import QueuePass
from collector.snapshot.tables import NOWHERE

MakeTerms = Callable[[Instances, int], Terms]


@dataclass(frozen=True)
class Arrival:
    """An instance that is submitted."""

    at: int
    availability: float
    importance: int


@dataclass
class Slots:
    """Hosts with slots, stepped by the second."""

    arrivals: Sequence[Arrival]
    make_terms: MakeTerms
    hosts: int = 20
    slots: int = 10
    period_seconds: int | None = 30
    other_host_seconds: tuple[int, int] = (2, 3)
    """Shortest and longest start on a host that an instance did not run on before. In the recorded run of the
    study, it takes no longer than one on the same host: 2 or 3 s."""
    seed: int = 0
    preemptions: int = 0
    operations: int = 0
    passes: int = 0
    shortest_run_seconds: float = np.inf
    _starts: list[float] = field(default_factory=list)

    def run(self, seconds: int) -> Floats:
        """Return the availability of each instance after this time."""
        count = len(self.arrivals)
        draw = np.random.default_rng(self.seed)
        self._admitted_at = np.array([each.at for each in self.arrivals], dtype=float)
        self._promised = np.array([each.availability for each in self.arrivals])
        self._importance = np.array([each.importance for each in self.arrivals])
        self._host = np.full(count, NOWHERE)
        self._last_host = np.full(count, NOWHERE)
        self._runs_from = np.full(count, np.inf)
        self._ran = np.zeros(count)
        self._restarting = np.zeros(count)
        self._preempted = np.zeros(count, dtype=bool)
        next_pass = 0
        due = set(self._admitted_at.astype(int).tolist())
        for now in range(seconds):
            if now in due or (self.period_seconds is not None and now >= next_pass):
                self._decide(now, draw)
                next_pass = now + (self.period_seconds or 0)
        availability: Floats = self._ran_until(seconds) / (seconds - self._admitted_at)
        return availability

    def _ran_until(self, now: float) -> Floats:
        ran: Floats = self._ran + np.maximum(now - self._runs_from, 0.0) * (self._host != NOWHERE)
        return ran

    def _decide(self, now: float, draw: np.random.Generator) -> None:
        admitted = np.flatnonzero(self._admitted_at <= now)
        outcome = self._pass(now, admitted)
        self.passes += 1
        self.operations += outcome.operations
        for assignment in outcome.assignments:
            for victim in admitted[list(assignment.victims)]:
                self._stop(int(victim), now)
        for assignment in outcome.assignments:
            instance, host = int(admitted[assignment.instance]), assignment.host
            is_same = self._last_host[instance] == host
            shortest, longest = (2, 3) if is_same else self.other_host_seconds
            startup = float(draw.integers(shortest, longest + 1))
            if not is_same:
                self._starts.append(startup)
            self._host[instance] = self._last_host[instance] = host
            self._runs_from[instance] = now + startup
            if self._preempted[instance]:
                self._restarting[instance] += startup
        taken = np.bincount(self._host[self._host != NOWHERE], minlength=self.hosts)
        assert (taken <= self.slots).all()

    def _stop(self, victim: int, now: float) -> None:
        ran = max(now - self._runs_from[victim], 0.0)
        self.shortest_run_seconds = min(self.shortest_run_seconds, ran)
        self._ran[victim] += ran
        self._host[victim], self._runs_from[victim] = NOWHERE, np.inf
        self._preempted[victim] = True
        self.preemptions += 1

    def _pass(self, now: float, rows: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> Outcome:
        startup = float(np.percentile(self._starts, 95)) if self._starts else 0.0
        ran, promised = self._ran_until(now)[rows], self._promised[rows]
        age = now - self._admitted_at[rows]
        spent = self._restarting[rows]
        everything = np.ones(rows.size, dtype=np.bool_)
        instances = Instances(
            host=self._host[rows],
            demand=np.ones((rows.size, 2)),
            mask=np.zeros(rows.size, dtype=np.intp),
            group=np.full(rows.size, NOWHERE),
            last_host=self._last_host[rows],
            importance=self._importance[rows],
            availability=promised,
            slack_seconds=ran / promised - age - startup,
            preemption_ratio=np.divide(spent, ran + spent, out=np.zeros(rows.size), where=ran + spent > 0),
            startup_seconds=np.full(rows.size, startup),
            admitted_seconds=age,
            is_spare=~everything,
            may_stop=everything,
        )
        taken = np.bincount(self._host[self._host != NOWHERE], minlength=self.hosts)
        capacity = np.full((self.hosts, 2), float(self.slots))
        hosts = Hosts(
            capacity=capacity,
            free=capacity - taken[:, np.newaxis],
            masks=np.ones((1, self.hosts), dtype=np.bool_),
        )
        seed = self.seed + self.passes
        return QueuePass(hosts, instances, self.make_terms(instances, seed), seed).run()
