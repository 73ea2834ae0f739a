"""The interface of a policy: requests in, rankings and plans out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import isnan
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from msgspec import Meta

from collector.common.applications import NO_APPLICATION, ApplicationTraits
from collector.common.arrays import Codes, Floats, Rows
from collector.decide.policies.actions import Action
from collector.decide.policies.scoring import stable_argsort
from collector.snapshot.columns import Four, first_known, four
from collector.snapshot.constraints import Constraint
from collector.snapshot.overbooking import class_after_cut
from collector.snapshot.pending import PendingTask
from collector.snapshot.tables import Snapshot, TaskKind
from wire.errors import UserError
from wire.resources import Quantities, Resource

_UNSET = Quantities()
STRICTEST_CLASS, LAXEST_CLASS = 1, 4
STALE_SECONDS = 120.0
_YEAR_SECONDS = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A container to place."""

    demand: Quantities = _UNSET
    """Its envelope: what it needs, measured or guessed (see `known`)."""
    mean: Quantities = _UNSET
    """Mean use; unset if unknown."""
    variance: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    reserve: Quantities = _UNSET
    """Its reservation."""
    known: bool = False
    """Whether its service is measured; otherwise `demand` is given, or guessed from the reservation."""
    service: str | None = None
    dominant: Resource | None = None
    task_class: int = STRICTEST_CLASS
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    kind: TaskKind = TaskKind.SERVICE
    constraints: tuple[Constraint, ...] = ()
    avoid: tuple[str, ...] = ()
    """Services that it must not share a node with."""
    exclude: frozenset[str] = frozenset()
    """Nodes that it must not run on."""
    spread: bool = False
    """Whether to spread its service over failure domains, or over nodes that have none."""
    application: ApplicationTraits = NO_APPLICATION
    """The application that its service belongs to; without a name if it belongs to none, or the snapshot has
    it."""
    image: str | None = None
    """None for that of its service."""

    @property
    def likely_mean(self) -> Four:
        """Its mean use; where unknown, its demand, or else its reservation, or else 0."""
        return first_known(self.mean, self.demand, self.reserve)

    @property
    def likely_envelope(self) -> Four:
        """Its demand; where unknown, its reservation, or else 0."""
        return first_known(self.demand, self.reserve)

    def pending_on(self, node: str, gets: Quantities | None = None) -> PendingTask:
        """What it adds to a node until it is measured there; `gets` is its reservation if it is cut there.

        Cut, it counts as of a stricter class: it tolerates that much less overbooking.
        """
        task_class = self.task_class
        if gets is not None:
            pairs = zip(four(gets), first_known(self.reserve, self.demand), strict=True)
            kept = min((now / first for now, first in pairs if first > 0 and not isnan(now)), default=1.0)
            task_class = class_after_cut(task_class, kept)
        return PendingTask(
            node=node,
            service=self.service,
            allocated=four(self.reserve if gets is None else gets),
            envelope=self.likely_envelope,
            mean=self.likely_mean,
            variance=self.variance,
            task_class=task_class,
            is_known=self.known or any(self.variance),
            application=self.application,
        )


class Rejection(IntEnum):
    """Why a node is not ranked, as a code and as a sentence; 0 is for the nodes that are."""

    text: str

    def __new__(cls, code: int, text: str = "") -> Self:
        member = int.__new__(cls, code)
        member._value_, member.text = code, text
        return member

    NOT = 0
    DOWN = 1, "the node is down: it no longer reports"
    OFF = 2, "the node is switched off"
    CLOSED = 3, "the node accepts no containers: it is drained, paused or opted out"
    STALE = 4, "the node's last report is too old"
    UNKNOWN_CAPACITY = 5, "the node has not reported its CPU and memory capacity"
    EXCLUDED = 6, "the request excludes the node"
    CONSTRAINT = 7, "the node's labels do not match the request's constraints"
    AVOIDED = 8, "the node runs a service that the request avoids"
    CPU = 9, "not enough free CPU"
    MEMORY = 10, "not enough free memory"
    DISK = 11, "not enough free disk bandwidth"
    NETWORK = 12, "not enough free network bandwidth"
    OVERBOOKED = 13, "the request would overbook the node beyond the limit of its class"
    BOTTLENECK = 14, "the node has a bottleneck"
    CAME_FROM = 15, "the service was just moved away from the node"
    NEEDS_ROOM = 16, "it fits only after it, or other containers, are limited, moved or stopped"
    BUSY = 17, "a resource of the node is busy, or waited for, most of the time"
    DISTANCE = 18, "the round-trip time to a node of its application exceeds the bound, or is unknown"
    RISK = 19, "the node would be short of a resource too often"


def _no_actions(_row: int) -> tuple[Action, ...]:
    return ()


class AdmissionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of admission on a node, for the container."""

    admitted: bool
    """Whether the probability is within the limit, or nothing else runs on the node."""
    probability: float
    """Probability that any resource of the node is short in a window of five minutes, with the container."""
    limit: float
    """`placement.risk_max`."""
    reason: str
    """The verdict as a sentence, with the shortages that were predicted and observed recently."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking:
    """The nodes for a request, the best first."""

    rows: Rows
    scores: Floats
    """One per ranked node, the higher the better."""
    score_is: str
    """What the scores measure."""
    refused: Codes
    """One `Rejection` per node of the snapshot."""
    explain: Callable[[int], tuple[str, ...]]
    """The reasons for the rank of a node, given by its row, with the figures behind them."""
    needs: Callable[[int], tuple[Action, ...]] = field(default=_no_actions)
    """The actions that must come first for the request to fit on a ranked node."""
    gets: Callable[[int], Quantities | None] = field(default=lambda _row: None)
    """The reservation on a ranked node if the request itself is cut there; None if it is not cut."""
    verdict: Callable[[int], AdmissionVerdict] | None = None
    """The verdict of admission on a node, given by its row; None if there was none."""

    @property
    def best(self) -> int | None:
        return int(self.rows[0]) if self.rows.size else None

    def uncut(self) -> "Ranking":
        """The same without the first nodes, as far as the request is cut there: the best is not."""
        count = next((at for at, row in enumerate(self.rows.tolist()) if not self.gets(row)), self.rows.size)
        if not count:
            return self
        refused = self.refused.copy()
        refused[self.rows[:count]] = Rejection.NEEDS_ROOM
        return replace(self, rows=self.rows[count:], scores=self.scores[count:], refused=refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Actions in their order, and the reasons why others are not part of it."""

    actions: tuple[Action, ...] = ()
    reasons: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Why other actions are not part of the plan."""
    gets: Quantities | None = None
    """The reservation with which the requested container fits, if it is cut itself."""
    watts_before: float | None = None
    watts_after: float | None = None
    kept: Mapping[str, str] = field(default_factory=dict)
    """Why nodes that were examined are not emptied, or not switched off, by their names."""
    operations: int = 0
    """Number of times that a node was examined for a container; 0 if the policy does not count."""


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """F = absent_images / containers + (nodes_in_use - 1) / (candidates - 1): the lower, the better."""

    value: float
    """F itself."""
    absent_images: int
    """Containers on nodes without their image."""
    containers: int
    nodes_in_use: int
    """Nodes that the application uses, with those of its running containers."""
    candidates: int
    """Nodes that could be used."""


class ApplicationPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """A node for each container of an application; or none for any, and what is missing."""

    nodes: tuple[str, ...] = ()
    """A node per request, in their order; empty if nothing is placed."""
    reasons: tuple[str, ...] = ()
    needs: tuple[Action, ...] = ()
    """Actions that must come first: nodes to switch on."""
    objective: Objective | None = None
    """What the placement minimizes; null if nothing is placed."""
    round_trip_seconds: float | None = None
    """Longest round-trip time between two nodes of containers that talk; null if it is unknown."""
    why_not: str | None = None
    """Why nothing is placed."""
    needed: tuple[str, ...] = ()
    """What would be needed, if nothing is placed."""


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the settings of every policy."""


class Stability(PolicySettings, frozen=True):
    """Limits that keep plans stable, for every policy that moves containers."""

    moves: Annotated[int, Meta(ge=0, le=1_000_000)] = 20
    """Maximum number of moves in a plan."""
    cool_down_seconds: Annotated[float, Meta(ge=0, le=_YEAR_SECONDS)] = 600.0
    """Minimum time that a container stays on a node."""
    no_return_seconds: Annotated[float, Meta(ge=0, le=_YEAR_SECONDS)] = 3600.0
    """Minimum time before a container may return to the node that it came from."""
    payback_seconds: Annotated[float, Meta(gt=0, le=_YEAR_SECONDS)] = 3600.0
    """Time within which the gain of a move, or of switching a node off, must pay for what it costs."""
    caution: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    """Factor by which the gain must exceed that. Decisions that bring less than they promise raise it."""
    stale_seconds: Annotated[float, Meta(gt=0, le=_YEAR_SECONDS)] = STALE_SECONDS
    """Maximum age of a node's last report for moves to or from it."""
    overbooks: bool = False
    """Whether only the usage of containers counts, and not their reservations. `false` reserves no more than
    the containers' classes allow."""


class FillLimits(Stability, frozen=True):
    """Limits of policies that also fill and relieve nodes by fixed shares of their capacity."""

    fill_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """Maximum share of any resource of a node after a placement or move. DRAPS fills a node up to
    `relieve_ratio` if an overloaded one cannot be relieved otherwise."""
    relieve_ratio: Annotated[float, Meta(gt=0, le=2)] = 0.9
    """Share of any resource above which containers are moved off a node."""

    def __post_init__(self) -> None:
        if self.fill_ratio >= self.relieve_ratio:
            raise UserError(
                f"fill_ratio ({self.fill_ratio:g}) must be below relieve_ratio ({self.relieve_ratio:g}): "
                "otherwise containers would be moved off a node that was just filled"
            )


@dataclass(frozen=True, slots=True)
class Knob:
    """The one setting that trades energy against time short and moves, and the range worth comparing."""

    setting: str
    lowest: float
    highest: float


Victims = Mapping[str, Sequence[str]]
"""Tasks that would be stopped for another one, by node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy. Pure: the same snapshot and request give the same result."""

    name: str
    summary: str
    for_whom: str = ""
    """For which clusters; empty for a policy that is only there to compare with."""
    settings: type[PolicySettings] = PolicySettings
    knob: Knob | None = None
    keeps_promises: bool = False
    """Whether its own rules protect promises of availability: which containers it stops, and how often."""
    has_margins: bool = False
    """Whether it limits the time that a node is short by margins of its own: admission then refuses a node
    only where shortages were more frequent than predicted."""
    timer_seconds: float = 300.0
    """Time between two runs, unless the operator sets another."""
    place: Callable[[Snapshot, Request, Any], Ranking] | None = None
    rebalance: Callable[[Snapshot, Any], Plan] | None = None
    place_all: Callable[[Snapshot, Sequence[Request], Any], ApplicationPlacement] | None = None
    """Places an application as a whole; None if it places one container after the other."""
    preempt: Callable[[Snapshot, str, Request, Victims, Any], frozenset[str]] | None = None
    """The nodes whose victims may be stopped for a waiting task, given by its id; None if it stops none."""


def rank_by_score(
    scores: Floats,
    refused: Codes,
    *,
    score_is: str,
    explain: Callable[[int], tuple[str, ...]],
    needs: Callable[[int], tuple[Action, ...]] = _no_actions,
) -> Ranking:
    """Rank the nodes that are not refused by descending score; of equals, the first by name."""
    rows = np.flatnonzero(refused == Rejection.NOT)
    rows = rows[stable_argsort(-scores[rows])]
    return Ranking(
        rows=rows, scores=scores[rows], score_is=score_is, refused=refused, explain=explain, needs=needs
    )
