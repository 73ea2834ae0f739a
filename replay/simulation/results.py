"""The results of a run: as JSON, as rows of a CSV, as a table."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from collector.common.arrays import Floats
from replay.simulation.accounting import JOULES_PER_KWH, SECONDS_PER_HOUR, IntervalSums
from replay.simulation.outcome import NodeResult, Outcome
from replay.simulation.queue.figures import PromisesKept
from replay.simulation.response import ApplicationResult
from wire.resources import RESOURCES, Resource

MAX_NODES_LISTED = 20
"""Results of a larger cluster do not list its nodes."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time of decisions on the machine that ran the replay; all other results are reproducible."""

    place_p50_ms: float | None
    place_p99_ms: float | None
    rebalance_p50_ms: float | None
    rebalance_p99_ms: float | None


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of the charts."""

    hours: float
    watts: float
    nodes_on: float
    utilisation: dict[Resource, float]
    overloaded_nodes: dict[Resource, float]
    moves: int
    running: int
    waiting: int


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
    cuts: int
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


class Results(msgspec.Struct, frozen=True):
    """All policies that were compared."""

    policies: dict[str, PolicyResult]


def result_of(outcome: Outcome) -> PolicyResult:
    """The results of a run."""
    total, counts = outcome.account.total, outcome.account.counts
    lateness = outcome.lateness_ratio
    return PolicyResult(
        energy_kwh=total.joules / JOULES_PER_KWH,
        lower_bound_kwh=total.lower_bound_joules / JOULES_PER_KWH,
        node_hours=total.node_seconds / SECONDS_PER_HOUR,
        migrations=counts["migrations"],
        overloaded_node_time_ratio=_by_resource(total.overloaded_seconds / max(total.node_seconds, 1e-9)),
        short_node_time_ratio=total.short_seconds / max(total.node_seconds, 1e-9),
        utilisation_ratio=_by_resource(_ratio(total.used, total.capacity)),
        arrived=counts["arrived"],
        placed_ratio=(counts["placed"] + counts["placed_later"]) / max(counts["arrived"], 1),
        placed=counts["placed"],
        refused=counts["refused"],
        placed_later=counts["placed_later"],
        waited_p50_seconds=_percentile(outcome.account.waited_seconds, 50),
        waited_p90_seconds=_percentile(outcome.account.waited_seconds, 90),
        waiting_at_end=counts["waiting_at_end"],
        finished=counts["finished"],
        died=counts["died"],
        cuts=counts["cuts"],
        kills=counts["kills"],
        killed_placed_again=counts["killed_placed_again"],
        killed_lost=counts["kills"] - counts["killed_placed_again"],
        switched_on=counts["switched_on"],
        switched_off=counts["switched_off"],
        job_lateness_ratio=float(np.mean(lateness)) if lateness else None,
        timing=Timing(
            place_p50_ms=_percentile_ms(outcome.place_seconds, 50),
            place_p99_ms=_percentile_ms(outcome.place_seconds, 99),
            rebalance_p50_ms=_percentile_ms(outcome.rebalance_seconds, 50),
            rebalance_p99_ms=_percentile_ms(outcome.rebalance_seconds, 99),
        ),
        nodes=outcome.nodes if len(outcome.nodes) <= MAX_NODES_LISTED else {},
        **msgspec.structs.asdict(outcome.promises),
        applications=outcome.applications or UNSET,
    )


def points_of(outcome: Outcome) -> list[Point]:
    """A run over time, for the charts, without the time that does not count."""
    return [_point(moment) for moment in outcome.account.moments if moment.seconds > 0]


def _point(moment: IntervalSums) -> Point:
    return Point(
        hours=moment.at / SECONDS_PER_HOUR,
        watts=moment.joules / moment.seconds,
        nodes_on=moment.node_seconds / moment.seconds,
        utilisation=_by_resource(_ratio(moment.used, moment.capacity)),
        overloaded_nodes=_by_resource(moment.overloaded_seconds / moment.seconds),
        moves=moment.moves,
        running=moment.running,
        waiting=moment.waiting,
    )


def _ratio(part: Floats, whole: Floats) -> Floats:
    ratio: Floats = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return ratio


def _by_resource(values: Floats) -> dict[Resource, float]:
    return {resource: float(value) for resource, value in zip(RESOURCES, values, strict=True)}


def _percentile(values: Sequence[float], percentile: float) -> float | None:
    return float(np.percentile(values, percentile)) if values else None


def _percentile_ms(seconds: Sequence[float], percentile: float) -> float | None:
    found = _percentile(seconds, percentile)
    return None if found is None else found * 1000


def flat(name: str, result: msgspec.Struct) -> dict[str, object]:
    """One row of a CSV, with a column for every nested value."""
    figures = msgspec.to_builtins(result)
    figures.pop("nodes", None)
    return {"policy": name, **_flattened(figures)}


def _flattened(figures: Mapping[str, Any]) -> dict[str, object]:
    row: dict[str, object] = {}
    for key, value in figures.items():
        if isinstance(value, dict):
            row |= {f"{key}_{inner}": each for inner, each in _flattened(value).items()}
        else:
            row[key] = value
    return row


def csv_of(policies: Mapping[str, msgspec.Struct]) -> str:
    """A row per policy."""
    rows = [flat(name, result) for name, result in policies.items()]
    stream = StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
