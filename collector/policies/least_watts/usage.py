"""The expected use of containers, and its sum on each node."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.common.text import counted
from collector.policies.outlook import CPU, MEMORY
from collector.snapshot.columns import sum_by_node
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Flags, Snapshot, Tasks
from wire.resources import RESOURCES

WINDOW_SECONDS = 300.0
_USABLE = np.array([1.0, 0.95, 1.0, 1.0])
"""Share of a node's capacity that containers may use. With less than a twentieth of its memory free, a kernel
spends its time on reclaiming pages."""
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
class Shares:
    """The share of their reservations that containers use, per resource."""

    used: Floats
    requested: Floats
    containers: Floats
    """Number of containers that both sums are of."""

    def with_more(self, used: Floats, requested: Floats) -> "Shares":
        """The same with more containers, one per row, whose use is known."""
        return Shares(
            self.used + np.where(requested > 0, used, 0.0).sum(axis=0),
            self.requested + requested.sum(axis=0),
            self.containers + np.count_nonzero(requested > 0, axis=0),
        )

    @property
    def ratios(self) -> Floats:
        """What an unobserved container is expected to use of its reservation."""
        observed = np.divide(
            self.used, self.requested, out=np.zeros_like(self.used), where=self.requested > 0
        )
        weighted = self.containers * observed + _PUBLISHED_CONTAINERS * _PUBLISHED_SHARES
        ratios: Floats = weighted / (self.containers + _PUBLISHED_CONTAINERS)
        ratios[MEMORY] = _PUBLISHED_SHARES[MEMORY]
        return ratios

    def reason(self) -> str:
        """What an unobserved container counts for, and where that comes from, for people."""
        counts = f"an unobserved container counts with {self.ratios[CPU]:.0%} of its CPU reservation"
        if not self.containers[CPU]:
            return f"{counts}: assumed until containers with a reservation are observed"
        return f"{counts}: learned from {counted(int(self.containers[CPU]), 'container')}"


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
    shares: "Shares"
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
    # Sums over the windows: einsum takes a tenth of the time of a reduction along an axis in the middle.
    count = np.einsum("twr->tr", (~missing).view(np.uint8), dtype=np.intp)
    recent = np.einsum("twr->tr", np.where(missing, 0.0, windows)) / np.maximum(count, 1)
    shares = _shares(tasks, recent, count)
    unobserved = _is_unobserved(tasks)[:, None]
    estimate = np.where(unobserved, np.nan_to_num(tasks.requested, nan=0.0) * shares.ratios, tasks.mean)
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
        shares=shares,
        constrains=constrains,
    )


def _known_windows(tasks: Tasks) -> Floats:
    """The windows from the first one that any task has."""
    windows = tasks.windows.amounts.astype(np.float64)
    if windows.shape[0] != len(tasks.ids) or not windows.size:
        return np.empty((len(tasks.ids), 0, len(RESOURCES)))
    unknown: Flags = np.all(np.isnan(windows).reshape(len(windows), -1), axis=0)
    known = ~np.all(unknown.reshape(windows.shape[1:]), axis=1)
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


def _shares(tasks: Tasks, recent: Floats, count: NDArray[np.intp]) -> Shares:
    none = np.zeros(len(RESOURCES))
    observed = count > 0
    requested = np.where(observed, np.nan_to_num(tasks.requested, nan=0.0), 0.0)
    return Shares(none, none, none).with_more(np.where(observed, recent, 0.0), requested)


def _constrains(snapshot: Snapshot) -> Flags:
    used = np.concatenate((snapshot.nodes.used, snapshot.tasks.used))
    reported: Flags = np.any(np.isfinite(used), axis=0)
    return reported


def usable(snapshot: Snapshot, usage: Usage) -> Floats:
    """What containers may use of each node; NaN where a resource is unknown, and so does not limit."""
    capacity = snapshot.nodes.capacity
    limited = (capacity > 0) & usage.constrains
    return np.where(limited, capacity * _USABLE, np.nan)


def node_sums(snapshot: Snapshot, usage: Usage) -> tuple[Floats, Floats]:
    """Expected use and variance of each node."""
    count = len(snapshot.nodes.names)
    return (
        sum_by_node(snapshot.tasks.node, usage.expected, count),
        sum_by_node(snapshot.tasks.node, usage.variance, count),
    )
