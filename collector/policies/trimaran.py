"""How Kubernetes' Trimaran plugins score nodes by their real load: up to a target, or by risk."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.policies.filters import free_of_load
from collector.policies.interface import Policy, PolicySettings, Ranking, Request, ranked
from collector.policies.scoring import (
    CPU_AND_MEMORY,
    amounts,
    each_percent,
    percent,
    share,
    where_promises_fit,
)
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Snapshot

_POINTS = 100.0


class TargetSettings(PolicySettings, frozen=True):
    """What can be chosen of the load that is aimed at."""

    target_ratio: Annotated[
        float, Meta(gt=0, lt=1, description="The CPU use at which a node is best used; Trimaran has 0.4.")
    ] = 0.4


class RiskSettings(PolicySettings, frozen=True):
    """What can be chosen of how risk is weighed."""

    margin: Annotated[
        float, Meta(ge=0, le=10, description="How much a deviation weighs; Trimaran has 1.")
    ] = 1.0
    sensitivity: Annotated[
        float, Meta(gt=0, le=10, description="The root that is taken of a deviation; Trimaran has 1.")
    ] = 1.0


def target_points(cpu: Floats, target_ratio: float) -> Floats:
    """The points of TargetLoadPacking: rising up to the target, falling from there; none beyond the whole."""
    load, target = cpu * _POINTS, target_ratio * _POINTS
    rising = (_POINTS - target) * load / target + target
    falling = target * (_POINTS - load) / (_POINTS - target)
    return np.where(load > _POINTS, 0.0, np.where(load <= target, rising, falling))


def risk_points(mean: Floats, deviation: Floats, margin: float, sensitivity: float) -> Floats:
    """The points of LoadVariationRiskBalancing: fewer for a high load, and for one that varies."""
    mean, deviation = np.clip(mean, 0.0, 1.0), np.clip(deviation, 0.0, 1.0)
    risk = np.clip(mean + margin * deviation ** (1.0 / sensitivity), 0.0, 2.0) / 2.0
    points: Floats = _POINTS * (1.0 - risk)
    return points


def _load_with(snapshot: Snapshot, request: Request) -> Floats:
    wanted = amounts(request.demand)
    wanted = np.where(wanted > 0, wanted, amounts(request.reserve))
    capacity = snapshot.nodes.capacity
    return share(capacity - free_of_load(snapshot) + wanted, capacity)[:, CPU_AND_MEMORY]


def place_by_target(snapshot: Snapshot, request: Request, settings: TargetSettings) -> Ranking:
    """Nodes by how near their CPU comes to the target, the request counted."""
    refused = where_promises_fit(snapshot, request)
    load = _load_with(snapshot, request)
    # A load that nobody told is not taken for none: it gets no points.
    scores = np.nan_to_num(target_points(load[:, 0], settings.target_ratio), nan=0.0)
    rows = ranked(scores, refused)

    def explain(row: int) -> tuple[str, ...]:
        used = percent(load[row, 0])
        return (f"with this request {used} of its CPU is used; best is {settings.target_ratio:.0%}",)

    return Ranking(
        rows=rows,
        scores=scores[rows],
        score_is="points from 0 to 100 for the CPU that is used with this request, most at the target",
        refused=refused,
        explain=explain,
    )


def place_by_risk(snapshot: Snapshot, request: Request, settings: RiskSettings) -> Ranking:
    """Nodes by the worse of CPU and memory: how much is used, and how much that varied of late."""
    refused = where_promises_fit(snapshot, request)
    load = _load_with(snapshot, request)
    deviation = snapshot.nodes.deviation[:, CPU_AND_MEMORY]
    points = np.nan_to_num(risk_points(load, deviation, settings.margin, settings.sensitivity), nan=0.0)
    scores = np.minimum(points[:, 0], points[:, 1])
    rows = ranked(scores, refused)

    def explain(row: int) -> tuple[str, ...]:
        used = f"used with this request: {each_percent(load[row])}"
        return (used, f"of late, use varied by {each_percent(deviation[row])}")

    return Ranking(
        rows=rows,
        scores=scores[rows],
        score_is="points from 0 to 100, the worse of CPU and memory: 100 less half of use and deviation",
        refused=refused,
        explain=explain,
    )


TARGET_LOAD = Policy(
    name="target-load",
    summary="Trimaran's TargetLoadPacking: real CPU use brought to a target",
    settings=TargetSettings,
    place=place_by_target,
)
LOAD_VARIATION = Policy(
    name="load-variation",
    summary="Trimaran's LoadVariationRiskBalancing: low load that varies little",
    settings=RiskSettings,
    place=place_by_risk,
)
