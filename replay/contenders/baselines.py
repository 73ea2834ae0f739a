"""Baselines: random, round robin, first fit, and the two rules of Docker Swarm, spread and binpack.

They decide by the reservations on nodes, as the schedulers of orchestrators do.
"""

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Codes, Floats
from collector.common.text import counted
from collector.decide.policies.filters import eligible, free_of_allocated, without_room
from collector.decide.policies.interface import (
    Policy,
    PolicySettings,
    Ranking,
    Rejection,
    Request,
    rank_by_score,
)
from collector.decide.policies.scoring import each_percent
from collector.snapshot.columns import as_row
from collector.snapshot.tables import NOWHERE, Snapshot

CPU_AND_MEMORY = slice(0, 2)
"""The resources that orchestrators let a container reserve."""


def reject_unless_reservation_fits(snapshot: Snapshot, request: Request) -> Codes:
    """Reject the nodes where the reservation does not fit next to those that are there."""
    return without_room(eligible(snapshot, request), free_of_allocated(snapshot), as_row(request.reserve))


def allocated_ratio(snapshot: Snapshot, request: Request) -> Floats:
    """Return the reserved shares of each node's CPU and memory, this request included."""
    nodes, more = snapshot.nodes, as_row(request.reserve)[CPU_AND_MEMORY]
    return (nodes.allocated[:, CPU_AND_MEMORY] + more) / nodes.known_capacity[:, CPU_AND_MEMORY]


def place_randomly(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Rank nodes in an order drawn from the snapshot's seed and turn, so that a snapshot repeats it."""
    drawn = np.random.default_rng([snapshot.seed, snapshot.turn]).random(len(snapshot.nodes.names))
    return rank_by_score(
        drawn,
        reject_unless_reservation_fits(snapshot, request),
        score_is="a random number for each node, the same for the same seed and turn",
        explain=lambda row: (f"random number {drawn[row]:.3f} (turn {snapshot.turn}, seed {snapshot.seed})",),
    )


def place_in_turn(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Rank nodes by name, beginning with the one whose turn it is."""
    ranking = place_first_fit(snapshot, request, _settings)
    by_name = ranking.rows
    first = snapshot.turn % by_name.size if by_name.size else 0

    def explain(row: int) -> tuple[str, ...]:
        number = int(np.searchsorted(by_name, row)) + 1
        among = f"number {number} of {counted(by_name.size, 'node')} where the reservation fits"
        return (f"{among}; turn {snapshot.turn} begins at number {first + 1}",)

    return replace(
        ranking,
        rows=np.roll(by_name, -first),
        score_is="minus the number of turns until the node is next",
        explain=explain,
    )


def place_first_fit(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Rank nodes by name."""
    refused = reject_unless_reservation_fits(snapshot, request)
    rows = np.flatnonzero(refused == Rejection.NOT)

    def explain(row: int) -> tuple[str, ...]:
        before = int(np.searchsorted(rows, row))
        return (f"the reservation fits; {counted(before, 'node')} where it fits too come first by name",)

    return Ranking(
        rows=rows,
        scores=-np.arange(rows.size, dtype=np.float64),
        score_is="minus the number of nodes before it by name where the reservation fits",
        refused=refused,
        explain=explain,
    )


class SpreadSettings(PolicySettings, frozen=True):
    """Settings of spread."""

    failures: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Number of recent task failures from which on a node ranks lower. Swarm uses 5."""


def place_spread(snapshot: Snapshot, request: Request, settings: SpreadSettings) -> Ranking:
    """Rank nodes as SwarmKit does: by recent failures, then tasks of the service, then tasks.

    It counts tasks, and ignores what they use.
    """
    nodes = snapshot.nodes
    failures = np.where(nodes.failures >= settings.failures, nodes.failures, 0).astype(np.float64)
    service = NOWHERE if request.service is None else snapshot.services.index.get(request.service, NOWHERE)
    of_service = np.zeros(nodes.tasks.size) if service == NOWHERE else snapshot.instances(service)
    # Each part weighs more than all parts after it together, so that one number ranks by all three.
    instance_weight = nodes.tasks.max(initial=0) + 1.0
    failure_weight = (of_service.max(initial=0) + 1.0) * instance_weight

    def explain(row: int) -> tuple[str, ...]:
        tasks = f"runs {counted(int(nodes.tasks[row]), 'task')}, {int(of_service[row])} of this service"
        failed = counted(int(nodes.failures[row]), "recent task failure")
        return (tasks, failed) if failures[row] else (tasks,)

    return rank_by_score(
        -(failures * failure_weight + of_service * instance_weight + nodes.tasks),
        reject_unless_reservation_fits(snapshot, request),
        score_is=(
            f"minus the number of tasks; a task of this service counts {instance_weight:g}, "
            f"a failure counts {failure_weight:g} on nodes with {settings.failures} or more"
        ),
        explain=explain,
    )


def place_binpack(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Rank nodes by the shares of CPU and memory that are reserved, this request included."""
    reserved = allocated_ratio(snapshot, request)
    return rank_by_score(
        np.nan_to_num(reserved, nan=0.0).sum(axis=1),
        reject_unless_reservation_fits(snapshot, request),
        score_is="sum of the reserved shares of CPU and memory, this request included",
        explain=lambda row: (f"reserved with this request: {each_percent(reserved[row])}",),
    )


RANDOM = Policy(name="random", summary="any node where the reservation fits", place=place_randomly)
ROUND_ROBIN = Policy(
    name="round-robin", summary="the nodes where the reservation fits, in turn", place=place_in_turn
)
FIRST_FIT = Policy(
    name="first-fit", summary="the first node by name where the reservation fits", place=place_first_fit
)
SPREAD = Policy(
    name="spread",
    summary="Docker Swarm: fewest recent failures, then tasks of the service, then tasks",
    settings=SpreadSettings,
    place=place_spread,
)
BINPACK = Policy(
    name="binpack",
    summary="Docker Swarm: the node with the most reserved where the reservation still fits",
    place=place_binpack,
)
