"""What the agents would have told by now, and nothing else: windows, thresholds, and what was learnt."""

import numpy as np
from numpy.typing import NDArray

from collector.snapshot.power_curves import Floats, Rows
from replay.setup.scenario import Learning, Simulation
from replay.simulation.cluster import Cluster, Load
from replay.simulation.learner import Learner, Learnt
from replay.simulation.prior import Prior
from wire.resources import RESOURCES

HISTORY_LENGTH = 30
"""How many windows a policy can look back."""
_POINTS = 100.0
_WIDTH = len(RESOURCES)


class Observer:
    """The collector's knowledge in a simulation."""

    def __init__(self, cluster: Cluster, simulation: Simulation, learning: Learning, prior: Prior) -> None:
        containers, nodes = cluster.workload.size, cluster.hosts.size
        self._cluster, self._simulation, self._learning = cluster, simulation, learning
        self.learner = Learner(containers, learning.need)
        self._prior = prior
        prior.feed(self.learner, cluster.workload.ids)
        self.used: Floats = np.full((containers, _WIDTH), np.nan)
        """What was told of each container last."""
        self.node_used: Floats = np.zeros((nodes, _WIDTH))
        self.node_history: Floats = np.full((nodes, HISTORY_LENGTH, _WIDTH), np.nan)
        self._history: NDArray[np.float32] = np.full(
            (HISTORY_LENGTH, containers, _WIDTH), np.nan, dtype=np.float32
        )
        self._windows = 0
        self.lessons = 0
        """How often something was learnt of services."""
        self._heartbeat_at = -np.inf
        services = sorted(set(cluster.workload.services))
        self.service_names = tuple(services)
        number = {name: row for row, name in enumerate(services)}
        self.service = np.array([number[name] for name in cluster.workload.services], dtype=np.intp)
        self.service_known, self.service_mean, self.service_variance, self.service_envelope = (
            prior.of_services(services)
        )

    def observe(self, seconds: float, load: Load) -> None:
        """A window ends on every host."""
        cluster, exact = self._cluster, self._simulation.exact
        used = load.wanted if exact else cluster.served(load)
        capacity = cluster.hosts.capacity
        node_used = load.by_node if exact else np.fmin(load.by_node, capacity)
        self.learner.begin(load.running)
        self.learner.add(seconds, load.running, used)
        all_is_said = exact or seconds - self._heartbeat_at >= self._simulation.heartbeat_seconds
        if all_is_said:
            self._heartbeat_at = seconds
            self.used[load.running] = used
            self.node_used = node_used
            self._learn_services(load.running)
        else:
            allowed = _allowed(cluster.workload.requested[load.running], capacity[cluster.node[load.running]])
            moved = self._moved(used, self.used[load.running], allowed)
            self.used[load.running[moved]] = used[moved]
            nodes_moved = self._moved(node_used, self.node_used, capacity)
            self.node_used = np.where(nodes_moved[:, None], node_used, self.node_used)
        self._remember(load.running, used, node_used / capacity)

    def _moved(self, now: Floats, told: Floats, whole: Floats) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore", divide="ignore"):
            points = np.abs(now - told) / whole * _POINTS
        moved: NDArray[np.bool_] = np.any(
            (points >= self._simulation.threshold_points) | np.isnan(told), axis=1
        )
        return moved

    def _remember(self, running: Rows, used: Floats, node_ratios: Floats) -> None:
        self._history[self._windows % HISTORY_LENGTH] = np.nan
        self._history[self._windows % HISTORY_LENGTH, running] = used
        self._windows += 1
        # A new array each time: snapshots that policies may still hold keep theirs.
        self.node_history = np.concatenate([self.node_history[:, 1:], node_ratios[:, None]], axis=1)

    def task_history(self, rows: Rows) -> Floats:
        """What these used in the last windows, the newest last; NaN where they did not run."""
        kept = min(self._windows, HISTORY_LENGTH)
        order = np.arange(self._windows - kept, self._windows) % HISTORY_LENGTH
        return self._history[order][:, rows].transpose(1, 0, 2).astype(np.float64)

    def _learn_services(self, running: Rows) -> None:
        """What an instance of each service is like, by those that have run for long enough."""
        known = running[self.learner.samples(running) >= self._learning.fewest_samples]
        if not known.size:
            return
        service, learnt = self.service[known], self.learner.learnt(known)
        count = np.bincount(service, minlength=len(self.service_names))
        seen = count > 0
        for column, values in (
            (self.service_mean, learnt.mean),
            (self.service_variance, learnt.variance),
            (self.service_envelope, learnt.envelope),
        ):
            for place in range(_WIDTH):
                sums = np.bincount(service, weights=values[:, place], minlength=count.size)
                column[seen, place] = sums[seen] / count[seen]
        self.service_known[seen] = True
        self.lessons += 1

    def knowledge(self, rows: Rows) -> Learnt:
        """What is reckoned of each of these.

        A container of which too little is known is reckoned as its service, if that is known; else as what
        it asks for, or as much of it as containers have used in an earlier recording.
        """
        learnt = self.learner.learnt(rows)
        known = (learnt.samples >= self._learning.fewest_samples)[:, None]
        service = self.service[rows]
        by_service = self.service_known[service][:, None]
        mean, variance, envelope = (
            np.where(known, of_task, np.where(by_service, of_service[service], guessed))
            for of_task, of_service, guessed in zip(
                (learnt.mean, learnt.variance, learnt.envelope),
                (self.service_mean, self.service_variance, self.service_envelope),
                self._prior.guess(self._cluster.workload.requested[rows]),
                strict=True,
            )
        )
        return Learnt(learnt.samples, mean, variance, envelope)

    def forget(self, rows: Rows) -> None:
        """Containers have ended."""
        self.learner.end(rows)
        self.used[rows] = np.nan


def _allowed(requested: Floats, capacity: Floats) -> Floats:
    """What a container's points are of: its limit, or all of its host where it has none."""
    return np.where(np.isnan(requested) | (requested <= 0), capacity, requested)
