"""The expected use of containers, and its sum on each node."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.policies.outlook import MEMORY
from collector.snapshot.columns import sum_by_node
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Flags, Snapshot, Tasks
from wire.resources import RESOURCES

WINDOW_SECONDS = 300.0
_PUBLISHED_SHARES = np.array([0.25, 1.0, 0.25, 0.25])
"""Share of its reservation that a container uses, before any is observed. A production cluster used 20 % of
its CPUs while 80 % were reserved (Delimitrou and Kozyrakis, "Quasar", ASPLOS 2014). Memory counts in full: a
node without memory kills containers."""
_PUBLISHED_CONTAINERS = 3.0
"""Weight of the published shares. They lie between 10 % and 50 %, a deviation of 0.6 times their mean; the
shares of single containers deviate by about their mean. So three containers are as certain."""
_LONG_TERM_WINDOWS = 1.0
"""Weight of a container's long-term mean, or of an estimate from its reservation, beside its windows."""


@dataclass(frozen=True, eq=False)
class Usage:
    """Expected use, per container and per node."""

    expected: Floats
    """Per task and resource."""
    variance: Floats
    """Per task and resource. 0 for a task that was never observed: an estimate that turns out to be wrong is
    corrected after a window or two, which no margin has to cover."""
    windows: Floats
    """Per task, window and resource. A missing window has the expected use."""
    is_observed: Flags
    """Tasks with at least one window."""
    shares: Floats
    """Share of its reservation that an unobserved container is expected to use, per resource."""
    shares_from: int
    """Number of containers that the shares are learned from."""
    constrains: Flags
    """Resources whose use is reported by any node or task: others limit nothing."""

    @property
    def length(self) -> int:
        """The number of windows."""
        return int(self.windows.shape[1])


def learn_usage(snapshot: Snapshot) -> Usage:
    """The expected use of each container: the mean of its windows, or what containers like it use."""
    tasks = snapshot.tasks
    windows = _known_windows(tasks)
    missing = np.isnan(windows)
    count = (~missing).sum(axis=1)
    recent = np.where(missing, 0.0, windows).sum(axis=1) / np.maximum(count, 1)
    shares, shares_from = _shares(tasks, recent, count)
    unobserved = _is_unobserved(tasks)[:, None]
    estimate = np.where(unobserved, np.nan_to_num(tasks.requested, nan=0.0) * shares, tasks.mean)
    weight = count / (count + _LONG_TERM_WINDOWS)
    expected = weight * recent + (1.0 - weight) * np.nan_to_num(estimate, nan=0.0)
    used = np.nan_to_num(tasks.used[:, MEMORY], nan=0.0)
    envelope = np.where(unobserved[:, 0], estimate[:, MEMORY], tasks.envelope[:, MEMORY])
    expected[:, MEMORY] = np.fmax(np.nan_to_num(envelope, nan=0.0), used)
    constrains = _constrains(snapshot)
    expected[:, ~constrains] = 0.0
    return Usage(
        expected=expected,
        variance=_variance(tasks, expected, count),
        windows=np.where(missing, expected[:, None, :], windows),
        is_observed=count[:, 0] > 0,
        shares=np.where(constrains, shares, 0.0),
        shares_from=shares_from,
        constrains=constrains,
    )


def _known_windows(tasks: Tasks) -> Floats:
    """The windows from the first one that any task has."""
    windows = tasks.windows.astype(np.float64)
    if windows.shape[0] != len(tasks.ids) or not windows.size:
        return np.empty((len(tasks.ids), 0, len(RESOURCES)))
    known = ~np.isnan(windows).all(axis=(0, 2))
    return windows[:, int(np.argmax(known)) if known.any() else windows.shape[1] :]


def _variance(tasks: Tasks, expected: Floats, count: NDArray[np.intp]) -> Floats:
    """The variance of each task; the square of its mean counts for one window, as of an exponential law."""
    observed = (tasks.observed_seconds / WINDOW_SECONDS)[:, None]
    blended = (observed * tasks.variance + np.square(expected)) / (observed + 1.0)
    variance: Floats = np.where(
        observed > 0, blended, np.where(count > 0, np.square(expected), tasks.variance)
    )
    return variance


def _is_unobserved(tasks: Tasks) -> Flags:
    """The tasks of which only the reservation is known."""
    unobserved: Flags = (tasks.observed_seconds == 0) & (tasks.variance[:, 0] == 0)
    return unobserved


def _shares(tasks: Tasks, recent: Floats, count: NDArray[np.intp]) -> tuple[Floats, int]:
    requested = np.nan_to_num(tasks.requested, nan=0.0)
    shares, most = _PUBLISHED_SHARES.copy(), 0
    for place in range(len(RESOURCES)):
        of = (count[:, place] > 0) & (requested[:, place] > 0)
        containers = int(np.count_nonzero(of))
        if place == MEMORY or not containers:
            continue
        mean = recent[of, place].sum() / requested[of, place].sum()
        weighted = containers * mean + _PUBLISHED_CONTAINERS * shares[place]
        shares[place] = weighted / (containers + _PUBLISHED_CONTAINERS)
        most = max(most, containers)
    return shares, most


def _constrains(snapshot: Snapshot) -> Flags:
    used = np.concatenate((snapshot.nodes.used, snapshot.tasks.used))
    reported: Flags = np.any(np.isfinite(used), axis=0)
    return reported


def node_sums(snapshot: Snapshot, usage: Usage) -> tuple[Floats, Floats]:
    """Expected use and variance of each node."""
    count = len(snapshot.nodes.names)
    return (
        sum_by_node(snapshot.tasks.node, usage.expected, count),
        sum_by_node(snapshot.tasks.node, usage.variance, count),
    )


def node_windows(snapshot: Snapshot, usage: Usage) -> Floats:
    """The sums of the windows of the tasks that each node runs now, wherever they ran then."""
    count = len(snapshot.nodes.names)
    flat = usage.windows.reshape(len(snapshot.tasks.ids), usage.length * len(RESOURCES))
    sums = sum_by_node(snapshot.tasks.node, flat, count)
    return sums.reshape(count, usage.length, len(RESOURCES))
