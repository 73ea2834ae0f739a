"""What a policy is given, and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from collector.policies.actions import Action
from collector.policies.sorting import rising
from collector.snapshot.power_curves import Floats, Rows
from collector.snapshot.tables import Codes, Snapshot, TaskKind
from wire.errors import UserError
from wire.resources import Quantities, Resource

_NONE_TOLD = Quantities()
STRICTEST_CLASS, LAXEST_CLASS = 1, 4
STALE_SECONDS = 120.0
_LONGEST = 366 * 86_400.0


class Operator(StrEnum):
    """How a label is compared."""

    IS = "=="
    IS_NOT = "!="


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a node's label must be, or must not be. The label `node` is the node's own name."""

    label: str
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A container that wants a place."""

    demand: Quantities = _NONE_TOLD
    """What it is reckoned to use: its envelope. Absent where nobody knows: see `known`."""
    mean: Quantities = _NONE_TOLD
    """What it uses on average, where that is known; else as `demand`."""
    variance: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    reserve: Quantities = _NONE_TOLD
    """What it asks to be promised."""
    known: bool = False
    """Whether `demand` was learnt from samples of the service, not guessed from what it asks for."""
    service: str | None = None
    dominant: Resource | None = None
    task_class: int = STRICTEST_CLASS
    kind: TaskKind = TaskKind.SERVICE
    constraints: tuple[Constraint, ...] = ()
    avoid: tuple[str, ...] = ()
    """Services that it must not share a node with."""
    exclude: frozenset[str] = frozenset()
    """Nodes that are out of the question."""
    spread: bool = False
    """Whether its service should be kept apart: over failure domains where they are told, else over nodes."""


class Rejection(IntEnum):
    """Why a node is not among those ranked; 0 is for the ones that are."""

    NOT = 0
    DOWN = 1
    OFF = 2
    CLOSED = 3
    STALE = 4
    UNKNOWN_CAPACITY = 5
    EXCLUDED = 6
    CONSTRAINT = 7
    AVOIDED = 8
    CPU = 9
    MEMORY = 10
    DISK = 11
    NETWORK = 12
    CLASS = 13
    OVERBOOKED = 14
    GENERATION = 15
    BOTTLENECK = 16
    CAME_FROM = 17
    POLICY = 18


def _nothing_first(_row: int) -> tuple[Action, ...]:
    return ()


def _all_it_asks(_row: int) -> Quantities | None:
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking:
    """Nodes for a request, the best first."""

    rows: Rows
    scores: Floats
    """One per ranked node, the higher the better; what it measures is said in `score_is`."""
    score_is: str
    refused: Codes
    """One `Rejection` per node of the snapshot."""
    explain: Callable[[int], tuple[str, ...]]
    """Why a ranked node (by its row) stands where it does: sentences that can be checked against the data."""
    needs: Callable[[int], tuple[Action, ...]] = field(default=_nothing_first)
    """What must be done before the request fits on a ranked node."""
    gets: Callable[[int], Quantities | None] = field(default=_all_it_asks)
    """What the request is promised on a ranked node, where it has to be cut itself for that."""

    @property
    def best(self) -> int | None:
        """The row of the first."""
        return int(self.rows[0]) if self.rows.size else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do, in this order; and what was thought of and left, with the reason."""

    actions: tuple[Action, ...] = ()
    reasons: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    watts_before: float | None = None
    watts_after: float | None = None


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What can be chosen of a policy; each has its own."""


class Stability(PolicySettings, frozen=True):
    """What keeps plans calm; every policy that moves has it."""

    moves: Annotated[int, Meta(ge=0, le=1_000_000, description="A plan has no more moves.")] = 20
    cool_down_seconds: Annotated[
        float, Meta(ge=0, le=_LONGEST, description="A container stays at least so long where it is.")
    ] = 600.0
    no_return_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=_LONGEST,
            description="A container is not sent back within this time to where it came from.",
        ),
    ] = 3600.0
    payback_seconds: Annotated[
        float, Meta(gt=0, le=_LONGEST, description="A move must earn its cost within this time.")
    ] = 3600.0
    stale_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=_LONGEST,
            description="A node that was not heard of for longer is neither given anything nor emptied.",
        ),
    ] = STALE_SECONDS
    fill_ratio: Annotated[
        float,
        Meta(gt=0, le=1, description="Neither a placement nor a move takes more of any resource of a node."),
    ] = 0.8
    relieve_ratio: Annotated[
        float,
        Meta(gt=0, le=2, description="A node with less taken of every resource is not relieved of anything."),
    ] = 0.9

    def __post_init__(self) -> None:
        if self.fill_ratio >= self.relieve_ratio:
            raise UserError(
                f"fill_ratio ({self.fill_ratio:g}) must be below relieve_ratio ({self.relieve_ratio:g}): "
                "else a node just filled would be relieved at once, and containers go round in circles"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One way to decide. Pure: the same snapshot and request give the same answer."""

    name: str
    summary: str
    settings: type[PolicySettings] = PolicySettings
    place: Callable[[Snapshot, Request, Any], Ranking] | None = None
    rebalance: Callable[[Snapshot, Any], Plan] | None = None


def ranked(scores: Floats, refused: Codes) -> Rows:
    """The rows that are not refused by descending score; of equals, the first by name."""
    rows = np.flatnonzero(refused == Rejection.NOT)
    return rows[rising(-scores[rows])]
