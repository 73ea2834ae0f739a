"""The outcome of a run, from which its results are computed."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from collector.policies.admission.record import ScoredWindow
from replay.simulation.accounting import Account
from replay.simulation.cluster import Cluster, Load
from replay.simulation.queue.figures import PromisesKept
from replay.simulation.response import ApplicationFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAtEnd:
    """A host when the run is over."""

    name: str
    on: bool
    containers: int
    used_ratio: tuple[float, ...]
    """Demand relative to capacity, per resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A completed run."""

    name: str
    account: Account
    place_seconds: list[float] = field(default_factory=list)
    rebalance_seconds: list[float] = field(default_factory=list)
    lateness_ratio: list[float] = field(default_factory=list)
    """For each ended job: its additional runtime because it got less than it demanded."""
    nodes: list[NodeAtEnd] = field(default_factory=list)
    promises: PromisesKept | None = None
    """None for a workload without promises of availability."""
    applications: dict[str, ApplicationFigures] = field(default_factory=dict)
    windows: list[ScoredWindow] = field(default_factory=list)
    """With admission: the predicted and the actual shortage in each window of each node."""


def nodes_at_end(cluster: Cluster, load: Load) -> Iterator[NodeAtEnd]:
    """Every host, with the demand on it."""
    containers = np.bincount(cluster.node[load.running], minlength=cluster.hosts.size)
    ratios = np.nan_to_num(load.by_node / cluster.hosts.capacity, nan=0.0)
    for row, name in enumerate(cluster.hosts.names):
        yield NodeAtEnd(
            name=name,
            on=bool(cluster.on[row]),
            containers=int(containers[row]),
            used_ratio=tuple(ratios[row].tolist()),
        )
