"""What is answered to those who ask where, and what to move."""

from enum import StrEnum
from typing import Any

import msgspec

from collector.common.liveness import LivenessLabel
from collector.common.ratios import Ratios
from collector.policies.actions import Action, Move, PowerOn
from wire.resources import Quantities, Resource


class Basis(StrEnum):
    """Where it is known from what a container needs."""

    TOLD = "told"
    """The question tells."""
    SERVICE = "service"
    """It was learnt of the service's other containers."""
    IMAGE = "image"
    """It was learnt of another service that runs the same image."""
    GUESS = "guess"
    """It is taken to use what it asks for."""
    NOTHING = "nothing"
    """Nobody knows."""


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is taken to need, and why."""

    basis: Basis
    says: str
    demand: Quantities
    """What it is reckoned to need: its envelope."""
    mean: Quantities
    """What it uses on average, where that is known."""
    reserve: Quantities
    """What it asks to be promised."""


class RankedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that the request fits on."""

    node: str
    score: float | None
    """Null where it is beyond all numbers: then the node comes last."""
    state: LivenessLabel
    report_age_seconds: float | None
    """Null for a node that is off."""
    predicted_ratio: Ratios
    """What is used of it once the request is there too; a resource that is not known is left out."""
    added_watts: float | None
    """What it then draws more, by its own power curve, with its idle watts if it must be switched on."""
    error_watts: float | None
    """How far off that may be."""
    watts_unknown: str | None
    """Why `added_watts` is null."""
    confidence: float | None
    """How likely it is that every resource suffices, if what runs there strays independently; null if not
    even the request's need is known."""
    reasons: tuple[str, ...]
    needs: tuple[Action, ...]
    """What must be done first."""
    gets: Quantities | None
    """What the request is promised there, where it has to be cut for that; null means what it asks for."""


class RefusedNode(msgspec.Struct, frozen=True):
    """A node that the request cannot go to."""

    node: str
    why: str


class RefusedFor(msgspec.Struct, frozen=True):
    """How many nodes were refused for one reason."""

    why: str
    nodes: int


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A place that is kept: the node counts as that much fuller."""

    id: str
    node: str
    service: str | None
    made_at: float
    expires_at: float
    """It ends earlier when a container of the service appears on the node."""
    demand: Quantities


class ReservationList(msgspec.Struct, frozen=True):
    """The places that are kept now, the oldest first."""

    reservations: list[Reservation]


class PlacementHint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a container should go, the best node first."""

    policy: str
    score_is: str
    """What the scores measure; the higher the better."""
    at: float
    """When the cluster was as it is taken here."""
    turn: int
    """Placements that were decided before."""
    assumed: Assumed
    nodes: tuple[RankedNode, ...]
    fitting: int
    """How many nodes it fits on; `nodes` has the best of them."""
    refused: tuple[RefusedNode, ...]
    """By name; the first few, or all if that was asked."""
    refused_for: tuple[RefusedFor, ...]
    reservation: Reservation | None


class PlanHint(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, in this order, and what was thought of and left."""

    policy: str
    at: float
    actions: tuple[Action, ...]
    reasons: tuple[str, ...]
    left: tuple[str, ...]
    """What was thought of and left, and why."""
    watts_before: float | None
    """What all nodes draw; null where one that counts has told no power curve."""
    watts_after: float | None


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What would help against one bottleneck."""

    node: str
    resource: Resource
    used_ratio: float | None
    wake: PowerOn | None
    """The node that must be switched on before the move; null if it is on."""
    move: Move | None
    why_not: str | None
    """Why there is no move."""


class Proposals(msgspec.Struct, frozen=True, kw_only=True):
    """A migration for each open bottleneck, the worst first; each takes those before it into account."""

    at: float
    proposals: list[Proposal]


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that can be asked."""

    name: str
    summary: str
    places: bool
    """Whether it ranks nodes for a request."""
    plans: bool
    """Whether it makes plans of what to move."""
    settings: dict[str, Any]
    """What can be chosen, as a JSON schema."""


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """Every policy there is."""

    default: str
    """What decides where a question does not say."""
    policies: list[PolicyInfo]
