"""The exchange with agents of the mesh; round-trip times between nodes, and clusters of near nodes."""

import asyncio
import ipaddress
from http import HTTPStatus
from math import isnan
from typing import Annotated

import msgspec
import numpy as np
from aiohttp import hdrs, web
from msgspec import Meta

from collector.common.arrays import Floats, Rows
from collector.common.errors import ApiError
from collector.features.network.mesh.coordinates import Components
from collector.features.network.mesh.delays import DelayKind
from collector.features.network.mesh.mesh import Mesh
from collector.runtime.parts import Core
from collector.serve.api.nodes import no_such_node
from collector.serve.web.backpressure import BACKPRESSURE
from collector.serve.web.bodies import COUNT_BYTES
from collector.serve.web.routes import (
    BAD_BODY,
    FORBIDDEN,
    NO_NODE,
    NoQuery,
    ResponseSpec,
    Route,
    get,
    json_response,
    parse_query,
    problem,
    read_json,
)
from collector.serve.web.scopes import CALLER, Caller, Scope
from wire.mesh import MeshAssignment, MeshMember, MeshReport

_MAX_NODES = 500
_MIN_GAP = 2.0
"""Minimum ratio of the distance between two clusters and the distance of neighbours within one."""
_SHORTEST_SECONDS = 1e-4
"""Shorter times count as this time."""
_UNKNOWN_FACTOR = 10.0
_RETRY_SECONDS = 30
_BROADCAST = ipaddress.ip_address("255.255.255.255")

_decoder = msgspec.json.Decoder(MeshReport)


async def exchange(core: Core, request: web.Request) -> web.Response:
    """Store the results of a node; respond with its peers, at once or when they change."""
    mesh, caller = core.registry.part(Mesh), request[CALLER]
    parse_query(request, NoQuery)
    with request.app[BACKPRESSURE].request(caller) as request[COUNT_BYTES]:
        report = await read_json(request, _decoder)
    _check(report, caller, mesh)
    member = MeshMember(report.node, report.session, report.port, _host(report, request))
    if not mesh.put(member, report.results, core.clock()):
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"node {report.node} changes its address or session too often: does another agent use this name?",
            headers={hdrs.RETRY_AFTER: str(_RETRY_SECONDS)},
        )
    assignment = await mesh.changed_assignment(report.node, report.version, report.wait_seconds)
    if assignment.version == report.version:
        assignment = msgspec.structs.replace(assignment, peers=None)
    # The node waited for the response, so it is still there.
    mesh.keep(member, core.clock())
    return json_response(assignment)


def _check(report: MeshReport, caller: Caller, mesh: Mesh) -> None:
    if not mesh.is_enabled:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "the mesh is off: set mesh.enabled in collector.toml",
            headers={hdrs.RETRY_AFTER: str(_RETRY_SECONDS)},
        )
    if not caller.may_report_for(report.node):
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"this token or certificate is not valid for node {report.node}. Create a token with:"
            f" wattpack token add node {report.node}",
            "$.node",
        )


def _host(report: MeshReport, request: web.Request) -> str:
    """The IP address under which peers reach a node."""
    host = report.host or request.remote or ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        address = _BROADCAST
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_multicast or address.is_unspecified or address == _BROADCAST:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"{host!r} is not the IP address of a host: set mesh.advertise in agent.toml",
            "$.host",
        )
    return str(address)


class NetworkNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node and its cluster of near nodes."""

    name: str
    """Name of the node."""
    cluster: int
    """Number of its cluster of near nodes, from 0."""
    address: str | None
    """IP address and UDP port for probes; null if its agent does not take part in the mesh."""
    peers: int
    """Number of nodes that it probes."""


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """The network between nodes."""

    at: float
    """Unix time."""
    enabled: bool
    """Whether round-trip times are measured (`mesh.enabled`). If not, the lists are empty."""
    total: int
    """Number of nodes of the cluster; more than are listed if it exceeds `limit`."""
    nodes: list[NetworkNode] = []
    """The nodes, by cluster and name."""
    p50_seconds: list[list[float | None]] = []
    """Median round-trip times: a row and a column per node, in the order of `nodes`; null if unknown."""
    kinds: list[list[DelayKind]] = []
    """Whether each time is measured, estimated or unknown, in the same order as `p50_seconds`."""
    error_ratio: float | None = None
    """90th percentile of the relative error of estimates; null without estimates."""


class RoundTrip(msgspec.Struct, frozen=True, kw_only=True):
    """The round-trip time to another node, over the last five minutes."""

    peer: str
    """Name of the other node."""
    kind: DelayKind
    """Whether the time is measured, estimated from network coordinates, or unknown."""
    p50_seconds: float | None
    """Median, of both directions the larger one; null if unknown."""
    p95_seconds: float | None
    """95th percentile, of both directions the larger one; null if not measured."""
    lost_ratio: float | None
    """Share of probes without a response, of both directions the larger one; null if not measured."""


class NodeNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The round-trip times of one node."""

    at: float
    node: str
    round_trips: list[RoundTrip]
    """The round-trip times to all other nodes, the nearest first; unknown ones last. Empty if none are
    measured (`mesh.enabled`)."""


class NetworkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Number of nodes to list."""

    limit: Annotated[int, Meta(ge=1, le=_MAX_NODES)] = 100
    """Maximum number of nodes; the first by name are shown."""


class NodeNetworkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for the round-trip times of one node."""

    name: Annotated[str, Meta(description="Name of the node.")]


async def network(core: Core, query: NetworkQuery) -> Network:
    """Get the round-trip times between nodes, and clusters of near nodes."""
    mesh, now = core.registry.part(Mesh), core.clock()
    names = core.registry.tables.node_names()
    return await asyncio.to_thread(_network, mesh, names, query.limit, now)


def _network(mesh: Mesh, names: tuple[str, ...], limit: int, now: float) -> Network:
    delays = mesh.delays(names[:limit])
    if delays is None:
        return Network(at=now, enabled=False, total=len(names))
    clusters = near_clusters(delays.among(np.arange(delays.count))).tolist()
    order = sorted(range(delays.count), key=lambda row: (clusters[row], names[row]))
    rows = np.array(order, dtype=np.intp)
    members = {member.node: member for member in mesh.plan.members}
    kinds = [delays.kinds_from(row) for row in order]
    return Network(
        at=now,
        enabled=True,
        total=len(names),
        nodes=[
            NetworkNode(
                name=names[row],
                cluster=clusters[row],
                address=_address(members.get(names[row])),
                peers=len(mesh.peers_of(names[row])),
            )
            for row in order
        ],
        p50_seconds=[[_known_or_none(value) for value in row] for row in delays.among(rows).tolist()],
        kinds=[[of_row[column] for column in order] for of_row in kinds],
        error_ratio=mesh.plan.error_ratio,
    )


async def node_network(core: Core, query: NodeNetworkQuery) -> NodeNetwork:
    """Get the round-trip times of one node, the nearest first."""
    mesh, names = core.registry.part(Mesh), core.registry.tables.node_names()
    if query.name not in names:
        raise no_such_node(query.name)
    delays, row = await asyncio.to_thread(mesh.delays, names), names.index(query.name)
    found = []
    if delays is not None:
        times = zip(names, delays.kinds_from(row), delays.from_node(row).tolist(), strict=True)
        found = [_round_trip(mesh, query.name, *each) for each in times if each[0] != query.name]
    found.sort(key=lambda each: (each.p50_seconds is None, each.p50_seconds or 0.0, each.peer))
    return NodeNetwork(at=core.clock(), node=query.name, round_trips=found)


def _round_trip(mesh: Mesh, node: str, peer: str, kind: DelayKind, seconds: float) -> RoundTrip:
    probes = mesh.probes(node, peer) if kind == "measured" else []
    return RoundTrip(
        peer=peer,
        kind=kind,
        p50_seconds=_known_or_none(seconds),
        p95_seconds=max((each.p95_seconds or seconds for each in probes), default=None),
        lost_ratio=max((each.lost / max(1, each.lost + each.answered) for each in probes), default=None),
    )


def _known_or_none(seconds: float) -> float | None:
    return None if isnan(seconds) else seconds


def _address(member: MeshMember | None) -> str | None:
    if member is None:
        return None
    return f"[{member.host}]:{member.port}" if ":" in member.host else f"{member.host}:{member.port}"


def near_clusters(seconds: Floats) -> Rows:
    """The number of the cluster of each node, from 0, in the order of their first nodes.

    `seconds` are the round-trip times of all pairs; NaN is unknown, and counts as far. Links of a minimum
    spanning tree are sorted by time and cut at the largest relative gap: the shorter links connect clusters.
    """
    count = len(seconds)
    longest = max(float(np.nanmax(seconds, initial=0.0)), _SHORTEST_SECONDS)
    table = np.where(np.isnan(seconds), _UNKNOWN_FACTOR * longest, np.maximum(seconds, _SHORTEST_SECONDS))
    links = sorted(_spanning_tree(table))
    lengths = np.array([length for length, *_ in links])
    growth = lengths[1:] / lengths[:-1]
    kept = len(links)
    if len(growth) and growth.max() >= _MIN_GAP:
        kept = int(growth.argmax()) + 1
    elif count == 2 and np.isnan(seconds[0, 1]):  # noqa: PLR2004 - a single pair has no gap
        kept = 0
    components = Components(count)
    components.join((one, other) for _, one, other in links[:kept])
    return components.labels()


def _spanning_tree(table: Floats) -> list[tuple[float, int, int]]:
    """The links of a tree with the shortest total length (Prim): the length and the two nodes of each."""
    distance, nearest = np.full(len(table), np.inf), np.zeros(len(table), dtype=np.intp)
    outside = np.ones(len(table), dtype=np.bool_)
    added, links = 0, []
    for _ in range(len(table) - 1):
        outside[added] = False
        closer = outside & (table[added] < distance)
        distance[closer], nearest[closer] = table[added][closer], added
        added = int(np.where(outside, distance, np.inf).argmin())
        links.append((float(distance[added]), int(nearest[added]), added))
    return links


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/mesh",
        summary="Send the results of a node's probes; get its peers and their keys. Agents use this route.",
        serve=exchange,
        body=MeshReport,
        scope=Scope.NODE,
        is_stream=True,
        responses={
            HTTPStatus.OK: ResponseSpec("The peers of the node.", MeshAssignment),
            **BAD_BODY,
            **FORBIDDEN,
            **problem(HTTPStatus.CONFLICT, "The mesh is off."),
            **problem(HTTPStatus.TOO_MANY_REQUESTS, "The node changes too often; retry after Retry-After."),
        },
    ),
    get("/v1/network", network),
    get("/v1/network/{name}", node_network, problems=NO_NODE),
)
