"""The scores of other schedulers: Kubernetes, its Trimaran plugins, and Nomad."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Floats
from collector.decide.policies.filters import free_of_load
from collector.decide.policies.interface import Policy, PolicySettings, Ranking, Request, rank_by_score
from collector.decide.policies.scoring import each_percent, percent
from collector.snapshot.columns import as_row
from collector.snapshot.tables import Snapshot
from replay.contenders.baselines import CPU_AND_MEMORY, allocated_ratio, reject_unless_reservation_fits

_MAX_POINTS = 100.0
_NOMAD_MAX_POINTS = 18.0
_DEFAULT_REQUESTS = np.array([0.1, 200 * 1024 * 1024.0])
"""Kubernetes counts a pod without requests as 100 millicores and 200 MB."""
_ROUNDING = 1e-9

# --- Kubernetes: whole points from 0 to 100 for what pods request ------------------------------------

Score = Callable[[Floats], Floats]
"""From the requested shares of CPU and memory of each node, this pod included, to points."""


def least_allocated(requested: Floats) -> Floats:
    """Return points for the mean of what is free of both."""
    return _mean_of_points(1.0 - requested)


def most_allocated(requested: Floats) -> Floats:
    """Return points for the mean of what is requested of both; none for a resource beyond its capacity."""
    return _mean_of_points(np.where(requested > 1.0, 0.0, requested))


def balanced_allocation(requested: Floats) -> Floats:
    """Return points for how close the shares of CPU and memory are."""
    return _whole(1.0 - np.minimum(requested, 1.0).std(axis=1))


def _mean_of_points(ratios: Floats) -> Floats:
    mean: Floats = np.floor(_whole(np.clip(ratios, 0.0, 1.0)).mean(axis=1))
    return mean


def _whole(ratios: Floats) -> Floats:
    points: Floats = np.floor(ratios * _MAX_POINTS + _ROUNDING)
    return points


def _place_by_requests(
    score: Score, score_is: str, snapshot: Snapshot, request: Request, _settings: PolicySettings
) -> Ranking:
    """Rank nodes by points; of equals the first by name, where Kubernetes picks one at random."""
    reserve = as_row(request.reserve)[CPU_AND_MEMORY]
    pod = np.where(reserve > 0, reserve, _DEFAULT_REQUESTS)
    nodes = snapshot.nodes
    requested = (nodes.allocated[:, CPU_AND_MEMORY] + pod) / nodes.known_capacity[:, CPU_AND_MEMORY]
    return rank_by_score(
        score(np.nan_to_num(requested, nan=1.0)),
        reject_unless_reservation_fits(snapshot, request),
        score_is=score_is,
        explain=lambda row: (f"requested with this pod: {each_percent(requested[row])}",),
    )


def _kubernetes_policy(name: str, score: Score, summary: str) -> Policy:
    return Policy(
        name=name, summary=f"Kubernetes: {summary}", place=partial(_place_by_requests, score, summary)
    )


LEAST_ALLOCATED = _kubernetes_policy(
    "least-allocated", least_allocated, "points for the mean of free CPU and memory"
)
MOST_ALLOCATED = _kubernetes_policy(
    "most-allocated", most_allocated, "points for the mean of requested CPU and memory"
)
BALANCED_ALLOCATION = _kubernetes_policy(
    "balanced-allocation", balanced_allocation, "points for similar shares of requested CPU and memory"
)

# --- Nomad -------------------------------------------------------------------------------------------


def nomad_points(free: Floats) -> Floats:
    """Return Nomad's points for the free shares of CPU and memory: 0 for an empty node, 18 for a full one."""
    points: Floats = np.clip(20.0 - np.power(10.0, free).sum(axis=1), 0.0, _NOMAD_MAX_POINTS)
    return points


def _place_nomad(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    free = 1.0 - allocated_ratio(snapshot, request)
    return rank_by_score(
        nomad_points(np.nan_to_num(free, nan=1.0)),
        reject_unless_reservation_fits(snapshot, request),
        score_is="20 - (10^free CPU + 10^free memory), 0 to 18",
        explain=lambda row: (f"free with this request: {each_percent(free[row])}",),
    )


NOMAD = Policy(
    name="nomad", summary="Nomad's binpack: full nodes first, on a steep scale", place=_place_nomad
)

# --- Trimaran: points from 0 to 100 for the measured load ---------------------------------------------


class TargetSettings(PolicySettings, frozen=True):
    """Settings of TargetLoadPacking."""

    target_ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.4
    """CPU use that nodes are filled to. Trimaran uses 0.4."""


class RiskSettings(PolicySettings, frozen=True):
    """Settings of LoadVariationRiskBalancing."""

    margin: Annotated[float, Meta(ge=0, le=10)] = 1.0
    """Weight of the deviation. Trimaran uses 1."""
    sensitivity: Annotated[float, Meta(gt=0, le=10)] = 1.0
    """Degree of the root of the deviation. Trimaran uses 1."""


def target_points(cpu: Floats, target_ratio: float) -> Floats:
    """Return the points of TargetLoadPacking: most at the target, none above the whole capacity."""
    load, target = cpu * _MAX_POINTS, target_ratio * _MAX_POINTS
    rising = (_MAX_POINTS - target) * load / target + target
    falling = target * (_MAX_POINTS - load) / (_MAX_POINTS - target)
    return np.where(load > _MAX_POINTS, 0.0, np.where(load <= target, rising, falling))


def risk_points(mean: Floats, deviation: Floats, margin: float, sensitivity: float) -> Floats:
    """Return the points of LoadVariationRiskBalancing: fewer for a high load, and for one that varies."""
    mean, deviation = np.clip(mean, 0.0, 1.0), np.clip(deviation, 0.0, 1.0)
    risk = np.clip(mean + margin * deviation ** (1.0 / sensitivity), 0.0, 2.0) / 2.0
    points: Floats = _MAX_POINTS * (1.0 - risk)
    return points


def _load_with(snapshot: Snapshot, request: Request) -> Floats:
    demand = as_row(request.demand)
    demand = np.where(demand > 0, demand, as_row(request.reserve))
    nodes = snapshot.nodes
    load = nodes.capacity - free_of_load(snapshot)
    return ((load + demand) / nodes.known_capacity)[:, CPU_AND_MEMORY]


def place_by_target(snapshot: Snapshot, request: Request, settings: TargetSettings) -> Ranking:
    """Rank nodes by how close their CPU use comes to the target, this request included."""
    load = _load_with(snapshot, request)
    target = settings.target_ratio
    return rank_by_score(
        # An unknown load is not an idle one: it gets no points.
        np.nan_to_num(target_points(load[:, 0], target), nan=0.0),
        reject_unless_reservation_fits(snapshot, request),
        score_is="points from 0 to 100 for CPU use with this request, most at the target",
        explain=lambda row: (f"CPU use with this request: {percent(load[row, 0])}, target {target:.0%}",),
    )


def _deviation(history: Floats) -> Floats:
    """Return the standard deviation of the past ratios of each node; 0 where none is known."""
    known = ~np.isnan(history)
    past, count = np.where(known, history, 0.0), np.maximum(known.sum(axis=1), 1)
    past = (past - (past.sum(axis=1) / count)[:, np.newaxis]) * known
    deviation: Floats = np.sqrt(np.einsum("ijk,ijk->ik", past, past) / count)
    return deviation


def place_by_risk(snapshot: Snapshot, request: Request, settings: RiskSettings) -> Ranking:
    """Rank nodes by the worse of CPU and memory: how much is used, and how much that varies."""
    load = _load_with(snapshot, request)
    deviation = snapshot.cached("deviation", lambda: _deviation(snapshot.nodes.history))[:, CPU_AND_MEMORY]
    points = np.nan_to_num(risk_points(load, deviation, settings.margin, settings.sensitivity), nan=0.0)
    return rank_by_score(
        np.minimum(points[:, 0], points[:, 1]),
        reject_unless_reservation_fits(snapshot, request),
        score_is="points from 0 to 100, the worse of CPU and memory: 100 less half of use and deviation",
        explain=lambda row: (
            f"use with this request: {each_percent(load[row])}",
            f"deviation of recent use: {each_percent(deviation[row])}",
        ),
    )


TARGET_LOAD = Policy(
    name="target-load",
    summary="Trimaran's TargetLoadPacking: fill nodes to a target of measured CPU use",
    settings=TargetSettings,
    place=place_by_target,
)
LOAD_VARIATION = Policy(
    name="load-variation",
    summary="Trimaran's LoadVariationRiskBalancing: prefer a low load that varies little",
    settings=RiskSettings,
    place=place_by_risk,
)
