"""The answers to questions about placement and plans."""

from enum import StrEnum
from typing import Any

import msgspec

from collector.common.liveness import LivenessLabel
from collector.common.ratios import Ratios
from collector.decide.policies.actions import Action
from collector.decide.policies.interface import AdmissionVerdict
from wire.resources import Quantities


class Basis(StrEnum):
    """The source of what a container needs."""

    REQUEST = "request"
    """Given in the question."""
    SERVICE = "service"
    """Measured on other containers of the service."""
    IMAGE = "image"
    """Measured on another service with the same image."""
    GUESS = "guess"
    """Assumed to be its reservation."""
    NOTHING = "nothing"
    """Unknown."""


class Assumed(msgspec.Struct, frozen=True, kw_only=True):
    """What the container is assumed to need, and why."""

    basis: Basis
    """Where the expected use comes from."""
    explanation: str
    demand: Quantities
    """Its envelope: the usage that it is expected to need."""
    mean: Quantities
    """Its mean usage; absent if unknown."""
    reserve: Quantities
    """Its reservation."""


class RankedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node where the container fits."""

    node: str
    score: float | None
    """Null if it is not finite: the node then comes last."""
    state: LivenessLabel
    """Whether reports of the node arrive on time."""
    report_age_seconds: float | None
    """Null for a node that is off."""
    predicted_ratio: Ratios
    """Predicted usage of each resource with the container; unknown resources are left out."""
    added_watts: float | None
    """Power that the expected use of the container adds, by the node's power curve; with idle power if the
    node is off. A container that was never observed counts with the share of its reservation that others
    use."""
    error_watts: float | None
    """Error of `added_watts`."""
    watts_unknown: str | None
    """Why `added_watts` is null."""
    confidence: float | None
    """Probability that every resource suffices, if the containers vary independently; null if the need
    is unknown."""
    reasons: tuple[str, ...]
    needs: tuple[Action, ...]
    """Actions that must come first."""
    gets: Quantities | None
    """The reservation on this node if the container is cut there; null if it is not cut."""
    admission: AdmissionVerdict | None = None
    """Null if `placement.risk_max` is 1."""


class RefusedNode(msgspec.Struct, frozen=True):
    """A node where the container cannot run."""

    node: str
    why: str
    admission: AdmissionVerdict | None = None
    """Null if it is refused for another reason."""


class RefusedFor(msgspec.Struct, frozen=True):
    """Number of nodes refused for one reason."""

    why: str
    nodes: int


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation: it counts against the free capacity of the node."""

    id: str
    """Id of the reservation, to release it."""
    node: str
    service: str | None
    made_at: float
    """Unix time at which it was made."""
    expires_at: float
    """It ends earlier when an agent reports a new container of the service on the node."""
    demand: Quantities


class ReservationList(msgspec.Struct, frozen=True):
    """The current reservations."""

    reservations: list[Reservation]
    """The oldest first."""


class PlacementHint(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes where a container should run, the best first."""

    policy: str
    score_is: str
    """What the scores measure: the higher, the better."""
    at: float
    """Time of the snapshot."""
    turn: int
    """Number of earlier placements."""
    assumed: Assumed
    """What the container is expected to use, and how that is known."""
    nodes: tuple[RankedNode, ...]
    """The best nodes, the best first."""
    fitting: int
    """Number of ranked nodes where its expected use fits; `nodes` has the best ranked nodes."""
    short: int
    """Number of ranked nodes whose expected use would exceed their capacity: they have the reservation free,
    but not the resources."""
    refused: tuple[RefusedNode, ...]
    """By name; the first few, or all if requested."""
    refused_for: tuple[RefusedFor, ...]
    """How many nodes were left out, by reason."""
    notes: tuple[str, ...]
    """What could not be taken into account."""
    reservation: Reservation | None


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why the plan leaves a node or container as it is."""

    kind: str
    """What stands against it, such as `cool_down`, or `guard`."""
    why: str
    """The reason, with the figures that the policy decided by."""
    change: str | None = None
    """What would change it; null if nothing that is known would."""
    containers: tuple[str, ...] = ()
    """Names of the containers that it is about."""


class WhyNot(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node is not emptied, or a container not moved."""

    subject: str
    """Name of the node or container."""
    node: str
    """The node itself, or that of the container."""
    planned: tuple[Action, ...] = ()
    """The actions of the plan that concern it; if there are any, `obstacles` are those that guards name."""
    obstacles: tuple[Obstacle, ...] = ()
    """What stands against it, one by one."""


class PlanHint(msgspec.Struct, frozen=True, kw_only=True):
    """A plan: actions in their order."""

    policy: str
    at: float
    actions: tuple[Action, ...]
    reasons: tuple[str, ...]
    left: tuple[str, ...]
    """Why other actions are not part of the plan."""
    timer_policy: str
    """Policy that the collector itself runs on a timer; empty if none."""
    alert_policy: str
    """Policy that the collector itself runs on alerts; empty if none."""
    watts_before: float | None
    """Power of all nodes that are up, as reported; null if that of a node is unknown."""
    watts_after: float | None
    why: WhyNot | None = None
    """Why the node or container that the question names is not part of the plan; null if it names none."""


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A policy."""

    name: str
    """Name, as in settings and requests."""
    summary: str
    """What it does, in a sentence."""
    for_whom: str
    """For which clusters, in a sentence."""
    places: bool
    """Whether it ranks nodes for a request."""
    plans: bool
    """Whether it makes plans."""
    settings: dict[str, Any]
    """Its settings, as a JSON schema."""


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """All policies."""

    default: str
    """The policy of requests that do not name one."""
    policies: list[PolicyInfo]
    """Each policy, with its settings."""
