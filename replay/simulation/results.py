"""The results of a run: as JSON, as rows of a CSV, as a table."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from collector.common.arrays import Floats
from collector.decide.policies.admission.record import ScoredWindow
from replay.simulation.accounting import JOULES_PER_KWH, SECONDS_PER_HOUR, Account
from replay.simulation.cluster import Cluster, Load
from replay.simulation.response import ApplicationResult
from wire.resources import RESOURCES, Resource


class ClassResult(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one class of promises, each by its availability at its end or at the end of the run."""

    requests: int
    met_ratio: float
    """Share of the requests whose promise was kept."""
    mean_availability: float
    min_availability: float
    gini: float
    """Inequality of their availabilities: 0 if all are equal."""


class ContentionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one class in the intervals of one level of contention: means over these intervals."""

    intervals: int
    met_ratio: float
    """Share of the active requests whose promise was kept so far."""
    min_availability: float
    gini: float


class PromisesKept(msgspec.Struct, frozen=True, kw_only=True):
    """How promises of availability were kept; unset for a workload without them."""

    slo: dict[str, ClassResult] | UnsetType = UNSET
    """Per class of promises."""
    mean_availability: float | UnsetType = UNSET
    """Of all requests."""
    contention: dict[str, dict[str, ContentionResult]] | UnsetType = UNSET
    """Per level of contention and class of promises; needs `priority` beside the policy."""
    penalty: float | UnsetType = UNSET
    """Core seconds that were missing, weighted by how badly each promise was broken."""
    preemptions: int | UnsetType = UNSET
    """How often a container was stopped for another one."""
    operations: int | UnsetType = UNSET
    """How often the policy examined a host for a waiting container."""


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
    availability: list[dict[str, Floats]] = field(default_factory=list)
    """Per interval and class of promises: the availability so far of each request that was active."""
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


MAX_NODES_LISTED = 20
"""Results of a larger cluster do not list its nodes."""
_COUNTED = (
    *("arrived", "placed", "placed_later", "refused", "waiting_at_end", "finished", "died", "migrations"),
    *("cuts", "given_back", "kills", "killed_placed_again", "switched_on", "switched_off"),
)


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time of decisions on the machine that ran the replay; all other results are reproducible."""

    place_p50_ms: float | None
    place_p99_ms: float | None
    rebalance_p50_ms: float | None
    rebalance_p99_ms: float | None


class PolicyResult(PromisesKept, frozen=True, kw_only=True):
    """One policy on one workload."""

    energy_kwh: float
    lower_bound_kwh: float
    """Energy of all served load on the most efficient hosts, at their most efficient point."""
    node_hours: float
    migrations: int
    overloaded_node_time_ratio: dict[Resource, float]
    """Share of the time that nodes were on in which demand exceeded their capacity."""
    short_node_time_ratio: float
    """Overloaded time for CPU as CloudSim counts it (SLATAH), which includes the time of incoming moves."""
    utilisation_ratio: dict[Resource, float]
    """Usage relative to the capacity of nodes that were on."""
    arrived: int
    placed_ratio: float
    """Share of arrived containers that were placed, at once or later."""
    placed: int
    refused: int
    placed_later: int
    waited_p50_seconds: float | None = None
    """Time from arrival to placement; None if no container was placed."""
    waited_p90_seconds: float | None = None
    waiting_at_end: int
    finished: int
    died: int
    """Containers killed because their node ran out of memory."""
    first_died_seconds: float | None = None
    cuts: int
    cut_cores: float = 0.0
    """What all cuts together took, also of containers that got it back; the next key is the memory."""
    cut_memory_bytes: float = 0.0
    given_back: int = 0
    kills: int
    killed_placed_again: int
    killed_lost: int = 0
    """Containers killed to make room, and not placed again by the end."""
    switched_on: int
    switched_off: int
    job_lateness_ratio: float | None
    """Mean additional runtime of jobs because they got less than they demanded."""
    timing: Timing
    nodes: dict[str, NodeResult]
    """The nodes at the end; empty for a large cluster."""
    applications: dict[str, ApplicationResult] | UnsetType = UNSET
    """Only for a scenario with applications."""


def result_of(outcome: Outcome) -> PolicyResult:
    """The results of a run."""
    total, counts = outcome.account.total, outcome.account.counts
    lateness = outcome.lateness_ratio
    others: dict[str, Any] = {name: counts[name] for name in _COUNTED}
    others |= msgspec.structs.asdict(outcome.promises)
    return PolicyResult(
        energy_kwh=total.joules / JOULES_PER_KWH,
        lower_bound_kwh=total.lower_bound_joules / JOULES_PER_KWH,
        node_hours=total.node_seconds / SECONDS_PER_HOUR,
        overloaded_node_time_ratio=_by_resource(total.overloaded_seconds / max(total.node_seconds, 1e-9)),
        short_node_time_ratio=total.short_seconds / max(total.node_seconds, 1e-9),
        utilisation_ratio=_by_resource(total.utilisation),
        placed_ratio=(counts["placed"] + counts["placed_later"]) / max(counts["arrived"], 1),
        first_died_seconds=outcome.account.first_died_seconds,
        cut_cores=float(outcome.account.cut[0]),
        cut_memory_bytes=float(outcome.account.cut[1]),
        waited_p50_seconds=_percentile(outcome.account.waited_seconds, 50),
        waited_p90_seconds=_percentile(outcome.account.waited_seconds, 90),
        killed_lost=counts["kills"] - counts["killed_placed_again"],
        job_lateness_ratio=float(np.mean(lateness)) if lateness else None,
        timing=Timing(
            place_p50_ms=_percentile_ms(outcome.place_seconds, 50),
            place_p99_ms=_percentile_ms(outcome.place_seconds, 99),
            rebalance_p50_ms=_percentile_ms(outcome.rebalance_seconds, 50),
            rebalance_p99_ms=_percentile_ms(outcome.rebalance_seconds, 99),
        ),
        nodes=outcome.nodes if len(outcome.nodes) <= MAX_NODES_LISTED else {},
        **others,
        applications=outcome.applications or UNSET,
    )


def _by_resource(values: Floats) -> dict[Resource, float]:
    return {resource: float(value) for resource, value in zip(RESOURCES, values, strict=True)}


def _percentile(values: Sequence[float], percentile: float) -> float | None:
    return float(np.percentile(values, percentile)) if values else None


def _percentile_ms(seconds: Sequence[float], percentile: float) -> float | None:
    found = _percentile(seconds, percentile)
    return None if found is None else found * 1000


def _flattened(figures: Mapping[str, Any]) -> dict[str, object]:
    row: dict[str, object] = {}
    for key, value in figures.items():
        if isinstance(value, dict):
            row |= {f"{key}_{inner}": each for inner, each in _flattened(value).items()}
        else:
            row[key] = value
    return row


def csv_of(policies: Mapping[str, msgspec.Struct]) -> str:
    """A row per policy, with a column for every nested value but those of nodes."""
    rows = []
    for name, result in policies.items():
        figures = msgspec.to_builtins(result)
        figures.pop("nodes", None)
        rows.append({"policy": name, **_flattened(figures)})
    stream = StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
