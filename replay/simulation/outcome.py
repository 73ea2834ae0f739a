"""The outcome of a run, from which its results are computed."""

from dataclasses import dataclass, field

import msgspec
import numpy as np

from collector.decide.policies.admission.record import ScoredWindow
from replay.simulation.accounting import Account
from replay.simulation.cluster import Cluster, Load
from replay.simulation.queue.figures import PromisesKept
from replay.simulation.response import ApplicationResult
from wire.resources import RESOURCES, Resource


class NodeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A host at the end of the run."""

    on: bool
    containers: int
    used_ratio: dict[Resource, float]
    """Demand relative to capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A completed run."""

    name: str
    account: Account
    place_seconds: list[float] = field(default_factory=list)
    rebalance_seconds: list[float] = field(default_factory=list)
    lateness_ratio: list[float] = field(default_factory=list)
    """For each ended job: its additional runtime because it got less than it demanded."""
    nodes: dict[str, NodeResult] = field(default_factory=dict)
    promises: PromisesKept = field(default_factory=PromisesKept)
    applications: dict[str, ApplicationResult] = field(default_factory=dict)
    windows: list[ScoredWindow] = field(default_factory=list)
    """With admission: the predicted and the actual shortage in each window of each node."""


def nodes_at_end(cluster: Cluster, load: Load) -> dict[str, NodeResult]:
    """Every host by name, with the demand on it."""
    containers = np.bincount(cluster.node[load.running], minlength=cluster.hosts.size)
    ratios = np.nan_to_num(load.by_node / cluster.hosts.capacity, nan=0.0)
    return {
        name: NodeResult(
            on=bool(cluster.on[row]),
            containers=int(containers[row]),
            used_ratio=dict(zip(RESOURCES, ratios[row].tolist(), strict=True)),
        )
        for row, name in enumerate(cluster.hosts.names)
    }
