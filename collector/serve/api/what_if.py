"""The power that more load would add to each node: an envelope, or a part of the load of a service.

The current load comes from the last report of a node, so there is no estimate for a node that is down.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.common.errors import ApiError
from collector.common.liveness import Liveness
from collector.runtime.parts import Core
from collector.serve.api.nodes import no_such_node
from collector.serve.web.routes import Route, post, problem
from powermodels.attribution.split import UNEQUAL_USE_ERROR
from powermodels.common.interface import Load
from powermodels.models import what_if as whatif
from powermodels.models.wire_curve import PowerCurveModel
from wire.messages import MachineScope, NodeState, PowerCurve, PowerScope, PowerSource
from wire.resources import RESOURCES, Quantities, Resource, ratio

_NO_CURVE = "it has sent no power curve yet; an agent of this version sends one with each heartbeat"
_DOWN = "it is down, so its current load is unknown"
_NO_LOAD = "it has not reported its CPU usage yet"
_NOT_RUNNING = "it runs no container of the service"

Factor = Annotated[float, Meta(ge=0, le=1000)]


class WhatIfRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Additional load on one node, or on each in turn: an envelope, or a service with `times` or `share`."""

    envelope: Quantities | None = None
    """Resources that the load uses; an omitted resource counts as unused."""
    service: str | None = None
    """A service with running containers. Its load is the current usage of all of them."""
    times: Factor | None = None
    """New throughput of the service, relative to now; the node takes the difference. 2 doubles it."""
    share: Factor | None = None
    """The share of the throughput of the service that the node takes in addition to its load."""
    virtualization_ratio: Factor = 0.0
    """CPU time that virtualization adds to the load, as a share of it: 0.1 for a tenth more."""
    node: str | None = None
    """Only this node; null for every node."""


class WhatIfEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Power that the load would add on a node."""

    node: str
    before_watts: float
    after_watts: float
    added_watts: float
    """Negative if the load becomes less."""
    error_watts: float
    """Expected error of `added_watts`."""
    exceeded: tuple[Resource, ...]
    """Resources that the node would run out of; the watts are then those of full usage."""
    not_counted: tuple[Resource, ...]
    """Resources of the load that are ignored, because the node does not report their usage or capacity."""
    source: PowerSource
    scope: MachineScope = "machine"
    source_scope: PowerScope
    """What `source` covers. If that is less than the machine, the rest is estimated from its hardware."""


class NoEstimate(msgspec.Struct, frozen=True):
    """A node without an estimate, and the reason."""

    node: str
    reason: str


class WhatIfResult(msgspec.Struct, frozen=True, kw_only=True):
    """Added power of each node, the smallest first; and the nodes without an estimate."""

    load: Quantities
    """The envelope, or the current usage of the service on all nodes."""
    factor: float
    """The part of the load that a node would take; negative if the load becomes less."""
    power_weight: float
    """Power of the load's CPU time relative to the average: learned by agents with a meter, else 1."""
    estimates: list[WhatIfEstimate]
    """Estimates of nodes, the smallest addition first."""
    unknown: list[NoEstimate]
    """Nodes without an estimate, by name."""


@dataclass(frozen=True, slots=True)
class _Change:
    """The load to add: `factor` times `load`."""

    load: Quantities
    factor: float = 1.0
    virtualization_ratio: float = 0.0
    power_weight: float = 1.0
    weight_error_ratio: float = 0.0
    running: Mapping[str, Quantities] | None = None
    """Usage of the service on each node; None for an envelope."""

    def on_node(self, node: str) -> Quantities | None:
        """The load that a node takes. It loses at most its own load; None if it runs none of it."""
        factors = (self.factor * (1 + self.virtualization_ratio), *(self.factor,) * 3)
        change = [
            None if each is None else each * by for each, by in zip(self.load.values, factors, strict=True)
        ]
        if self.factor < 0:
            here = None if self.running is None else self.running.get(node)
            if here is None:
                return None
            pairs = zip(change, here.values, strict=True)
            change = [None if taken is None else max(taken, -(local or 0.0)) for taken, local in pairs]
        cores, memory_bytes, disk, network = change
        return Quantities(cores, None if memory_bytes is None else round(memory_bytes), disk, network)


async def what_if(core: Core, question: WhatIfRequest) -> WhatIfResult:
    """Estimate the power that more load would add on one node, or on each node.

    The load is an envelope, or a multiple or share of the current load of a service.
    """
    change = _change(core, question)
    nodes = list(core.registry.nodes(core.clock(), node=question.node))
    if question.node is not None and not nodes:
        raise no_such_node(question.node, "$.node")
    estimates, unknown = [], []
    for node in nodes:
        curve, envelope = node.run.power_curve, change.on_node(node.name)
        state = None if node.run.state is None else node.run.state.value
        if node.liveness is Liveness.DOWN:
            unknown.append(NoEstimate(node.name, _DOWN))
        elif curve is None:
            unknown.append(NoEstimate(node.name, _NO_CURVE))
        elif state is None or ratio(state.used, state.capacity, Resource.CPU) is None:
            unknown.append(NoEstimate(node.name, _NO_LOAD))
        elif envelope is None:
            unknown.append(NoEstimate(node.name, _NOT_RUNNING))
        else:
            estimates.append(_estimate(node.name, state, curve, change, envelope))
    estimates.sort(key=lambda each: (each.added_watts, each.node))
    return WhatIfResult(
        load=change.load,
        factor=change.factor,
        power_weight=change.power_weight,
        estimates=estimates,
        unknown=unknown,
    )


def _change(core: Core, question: WhatIfRequest) -> _Change:
    if question.service is None:
        if question.envelope is None or question.times is not None or question.share is not None:
            raise _bad_request("give either an envelope, or a service with times or share", "$.envelope")
        return _Change(question.envelope, virtualization_ratio=question.virtualization_ratio)
    if question.envelope is not None or (question.times is None) == (question.share is None):
        raise _bad_request("give a service with either times or share, and no envelope", "$.service")
    factor = question.share if question.times is None else question.times - 1
    assert factor is not None
    used, weight = _service_usage(core, question.service)
    if not used:
        detail = (
            f"service {question.service!r} has no running containers: 'wattpack services' (GET /v1/services)"
            " lists those that have; for a new one, give an envelope"
        )
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "$.service")
    return _Change(
        load=_total(used.values()),
        factor=factor,
        virtualization_ratio=question.virtualization_ratio,
        power_weight=weight,
        # Without a learned weight, the error of taking all CPU time as equal remains.
        weight_error_ratio=UNEQUAL_USE_ERROR if weight == 1.0 else 0.0,
        running=used,
    )


def _service_usage(core: Core, service: str) -> tuple[dict[str, Quantities], float]:
    """The usage of a service on each node, and the power weight of its CPU time."""
    used: dict[str, Quantities] = {}
    cores, weighted_cores = 0.0, 0.0
    for node, ids in core.registry.tables.find(services=(service,)).items():
        for entry in core.registry.nodes(core.clock(), node=node):
            containers = [entry.run.containers[each].value for each in ids]
            used[node] = _total(each.used for each in containers)
            for each in containers:
                cores += each.used.cpu_cores or 0.0
                weight = 1.0 if each.power is None else each.power.power_weight
                weighted_cores += weight * (each.used.cpu_cores or 0.0)
    return used, weighted_cores / cores if cores > 0 else 1.0


def _total(parts: Iterable[Quantities]) -> Quantities:
    """The sum per resource, of those that are known."""
    known = [
        [value for value in column if value is not None]
        for column in zip(*(each.values for each in parts), strict=True)
    ]
    cores, memory_bytes, disk, network = (sum(column) if column else None for column in known)
    return Quantities(cores, None if memory_bytes is None else round(memory_bytes), disk, network)


def _estimate(
    node: str, state: NodeState, curve: PowerCurve, change: _Change, envelope: Quantities
) -> WhatIfEstimate:
    addition = whatif.add(
        PowerCurveModel(curve),
        Load.of(state.used, state.capacity),
        Load.of(envelope, state.capacity),
        power_weight=change.power_weight,
        weight_error_ratio=change.weight_error_ratio,
    )
    return WhatIfEstimate(
        node=node,
        before_watts=addition.before_watts,
        after_watts=addition.after_watts,
        added_watts=addition.added_watts,
        error_watts=addition.error_watts,
        exceeded=addition.exceeded,
        not_counted=tuple(
            resource
            for resource in RESOURCES
            if envelope.of(resource) and ratio(state.used, state.capacity, resource) is None
        ),
        source=curve.source,
        source_scope=curve.source_scope,
    )


def _bad_request(detail: str, field: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, detail, field)


ROUTES: tuple[Route, ...] = (
    post(
        "/v1/what-if",
        what_if,
        problems=problem(HTTPStatus.NOT_FOUND, "No such node, or no such service runs."),
    ),
)
