"""What more load would draw: each node's own power model, asked on top of what the node does now.

The nodes tell their models as points with every heartbeat. How busy a node is comes from its last state, so
a node that is down is not guessed at.
"""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.nodes import Node, list_nodes
from collector.api.queries import DAY_SECONDS, End, Paged, Pager, Start, bounds
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.common.ratios import Ratios
from collector.core.parts import Core
from collector.history.interface import Account, GroupBy
from collector.web.routes import NO_HISTORY, NO_NODE, Route, get, post, refused
from powermodels.common.interface import Load
from powermodels.models import what_if as whatif
from powermodels.models.what_if import CurvePoint
from powermodels.models.wire_curve import ToldModel
from wire.messages import PowerCurve, PowerSource
from wire.resources import RESOURCES, Quantities, Resource, ratio

_NO_CURVE = "it has told no power curve yet; agents of this version do so with their heartbeats"
_DOWN = "it is down: nobody knows what runs on it now"
_NO_LOAD = "it has not said yet how busy its CPU is"
_LABEL = "label:"


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """A page of accounts, the most first; or day by day."""

    start: float
    end: float
    by: str
    accounts: list[Account]
    next: str | None
    """The cursor to the rest; null at the end. It goes with this `start` and `end`."""


class EnergyQuery(Paged, frozen=True, kw_only=True):
    """Whose energy is asked for, and of which time."""

    start: Start = None
    end: End = None
    by: Annotated[
        str,
        Meta(
            pattern="^(node|container|service|day|label:.+)$",
            description="What to add it up by: `node`, `container`, `service`, `day` (UTC), or `label:KEY`.",
        ),
    ] = "node"


def _place(account: Account) -> tuple[float, str, str]:
    return -account.joules, account.key or "", account.node or ""


_most_first: Pager[Account, tuple[float, str, str]] = Pager(_place, tuple[float, str, str])
_by_day: Pager[Account, tuple[str]] = Pager(lambda account: (account.key or "",), tuple[str])


async def energy(core: Core, query: EnergyQuery) -> Energy:
    """What was drawn: in the last day, unless it is said otherwise."""
    start, end = bounds(query.start, query.end, core.clock(), usual_seconds=DAY_SECONDS)
    if query.by.startswith(_LABEL):
        by, label = GroupBy.LABEL, query.by.removeprefix(_LABEL)
    else:
        by, label = GroupBy(query.by), None
    found = await core.history.energy(start, end, by, label)
    accounts, after = _by_day.page(found, query) if by is GroupBy.DAY else _most_first.page(found, query)
    return Energy(start=start, end=end, by=query.by, accounts=accounts, next=after)


class PowerCurveQuery(msgspec.Struct, frozen=True):
    """How a power curve is asked for."""

    node: Annotated[str, Meta(description="The name of the node.")]


class WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """More load, to be put in thought on one node, or on each in turn."""

    envelope: Quantities
    """What it would use; a resource that is left out is not used."""
    node: str | None = None
    """Null means every node."""


class NodePowerCurve(msgspec.Struct, frozen=True, kw_only=True):
    """What a node would draw from no CPU load to full, with all else as it last was."""

    node: str
    node_state: LivenessLabel
    """Unless it is `up`, all the rest is as it last was."""
    source: PowerSource
    error_ratio: float
    """Expected relative error of the watts: 0.25 means a quarter more or less."""
    sampled_at: float | None
    """When all else was as it is taken here, by the node's clock; null if the node has not said."""
    points: tuple[CurvePoint, ...]


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an envelope would add to a node's draw."""

    node: str
    before_watts: float
    after_watts: float
    added_watts: float
    error_watts: float
    """How far off `added_watts` may be."""
    exceeded: tuple[Resource, ...]
    """What the node would have too little of; the watts are then those of full use."""
    not_counted: tuple[Resource, ...]
    """What the envelope asks for, but the node does not know its use or capacity of."""
    source: PowerSource


class Unanswered(msgspec.Struct, frozen=True):
    """A node of which it cannot be told, and why."""

    node: str
    why: str


class WhatIfAnswers(msgspec.Struct, frozen=True):
    """What an envelope would add, the least first; and the nodes of which that is not known, by name."""

    answers: list[WhatIfAnswer]
    unknown: list[Unanswered]


async def power_curve(core: Core, query: PowerCurveQuery) -> NodePowerCurve:
    """What a node would draw from no CPU load to full."""
    node = _node(core, query.node, "node")
    curve = core.registry.power_curve(node.name)
    if curve is None:
        raise ApiError(HTTPStatus.CONFLICT, f"there is nothing to tell of {node.name}: {_NO_CURVE}", "node")
    return NodePowerCurve(
        node=node.name,
        node_state=node.state,
        source=curve.source,
        error_ratio=curve.error_ratio,
        sampled_at=node.sampled_at,
        points=whatif.power_curve(ToldModel(curve), _load(node.used_ratio)),
    )


async def what_if(core: Core, question: WhatIf) -> WhatIfAnswers:
    """What an envelope would add, per node, where that can be told."""
    if question.node is None:
        nodes = list_nodes(core.registry, core.clock())
    else:
        nodes = [_node(core, question.node, "$.node")]
    answers, unknown = [], []
    for node in nodes:
        curve = core.registry.power_curve(node.name)
        if node.state == "down":
            unknown.append(Unanswered(node.name, _DOWN))
        elif curve is None:
            unknown.append(Unanswered(node.name, _NO_CURVE))
        elif node.used_ratio.cpu_ratio is None:
            unknown.append(Unanswered(node.name, _NO_LOAD))
        else:
            answers.append(_answer(node, curve, question.envelope))
    answers.sort(key=lambda answer: (answer.added_watts, answer.node))
    return WhatIfAnswers(answers, unknown)


def _node(core: Core, name: str, field: str) -> Node:
    found = list_nodes(core.registry, core.clock(), node=name)
    if not found:
        raise ApiError(
            HTTPStatus.NOT_FOUND, f"there is no node {name}: /v1/nodes lists those there are", field
        )
    return found[0]


def _answer(node: Node, curve: PowerCurve, envelope: Quantities) -> WhatIfAnswer:
    shares = Ratios(*(ratio(envelope, node.capacity, resource) for resource in RESOURCES))
    addition = whatif.add(ToldModel(curve), _load(node.used_ratio), _load(shares))
    return WhatIfAnswer(
        node=node.name,
        before_watts=addition.before_watts,
        after_watts=addition.after_watts,
        added_watts=addition.added_watts,
        error_watts=addition.error_watts,
        exceeded=addition.exceeded,
        not_counted=tuple(
            resource
            for resource in RESOURCES
            if envelope.of(resource) and ratio(node.used, node.capacity, resource) is None
        ),
        source=curve.source,
    )


def _load(ratios: Ratios) -> Load:
    return Load(ratios.cpu_ratio or 0.0, ratios.memory_ratio, ratios.disk_ratio, ratios.network_ratio)


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/energy",
        "Joules of any period by node, container, service, label or day, idle power apart: of the last day,"
        " unless told otherwise.",
        Energy,
        energy,
        query=EnergyQuery,
        refusals=NO_HISTORY,
    ),
    get(
        "/v1/power-curve",
        "What a node would draw from no CPU load to full.",
        NodePowerCurve,
        power_curve,
        query=PowerCurveQuery,
        refusals={**NO_NODE, **refused(HTTPStatus.CONFLICT, "The node has told no power curve yet.")},
    ),
    post(
        "/v1/what-if",
        "What more load would add to the draw of one node, or of each.",
        WhatIfAnswers,
        what_if,
        body=WhatIf,
        refusals=NO_NODE,
    ),
)
