"""Round-trip times between nodes, and clusters of near nodes."""

import asyncio
from math import isnan
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from collector.api.nodes import no_such_node
from collector.core.parts import Core
from collector.features.network.mesh.components import near_clusters
from collector.features.network.mesh.delays import DelayKind, Delays
from collector.features.network.mesh.measurements import DelayLabel, RoundTrip
from collector.features.network.mesh.members import Member
from collector.features.network.mesh.mesh import Mesh
from collector.web.routes import NO_NODE, Route, get

_MAX_NODES = 500
_LABELS: dict[int, DelayLabel] = {
    DelayKind.MEASURED: "measured",
    DelayKind.ESTIMATED: "estimated",
    DelayKind.UNKNOWN: "unknown",
}


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
    nodes: list[NetworkNode]
    """The nodes, by cluster and name."""
    p50_seconds: list[list[float | None]]
    """Median round-trip times: a row and a column per node, in the order of `nodes`; null if unknown."""
    kinds: list[list[DelayLabel]]
    """Whether each time is measured, estimated or unknown, in the same order as `p50_seconds`."""
    error_ratio: float | None
    """90th percentile of the relative error of estimates; null without estimates."""
    asymmetric: list[RoundTrip]
    """Measured pairs whose two directions differ clearly."""


class NodeNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The round-trip times of one node."""

    at: float
    node: str
    round_trips: list[RoundTrip]
    """The round-trip times to all other nodes, the nearest first; unknown ones last."""


class NetworkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Number of nodes to list."""

    limit: Annotated[
        int, Meta(ge=1, le=_MAX_NODES, description="Maximum number of nodes; the first by name are shown.")
    ] = 100


class NodeNetworkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for the round-trip times of one node."""

    name: Annotated[str, Meta(description="Name of the node.")]


async def network(core: Core, query: NetworkQuery) -> Network:
    """Get the round-trip times between nodes, and clusters of near nodes."""
    mesh, now = core.registry.part(Mesh), core.clock()
    names = core.registry.tables.node_names()
    return await asyncio.to_thread(_network, mesh, names, query.limit, now)


def _network(mesh: Mesh, names: tuple[str, ...], limit: int, now: float) -> Network:
    total = len(names)
    names = names[:limit] if mesh.is_enabled else ()
    delays = mesh.delays(names) or _unknown_delays(0)
    clusters = near_clusters(delays.among(np.arange(len(names))))
    order = sorted(range(len(names)), key=lambda row: (clusters[row], names[row]))
    members = mesh.members
    rows = np.array(order, dtype=np.intp)
    seconds = delays.among(rows)
    times = mesh.estimates.times or {}
    listed = set(names)
    return Network(
        at=now,
        enabled=mesh.is_enabled,
        total=total,
        nodes=[
            NetworkNode(
                name=names[row],
                cluster=int(clusters[row]),
                address=_address(members.get(names[row])),
                peers=len(mesh.peers_of(names[row])),
            )
            for row in order
        ],
        p50_seconds=[[_known_or_none(value) for value in row] for row in seconds.tolist()],
        kinds=[[_LABELS[kind] for kind in delays.kinds_from(row)[rows].tolist()] for row in order],
        error_ratio=mesh.estimates.error_ratio,
        asymmetric=[
            each
            for (one, other), each in sorted(times.items())
            if one in listed and other in listed and not each.symmetric
        ],
    )


async def node_network(core: Core, query: NodeNetworkQuery) -> NodeNetwork:
    """Get the round-trip times of one node, the nearest first."""
    names = core.registry.tables.node_names()
    if query.name not in names:
        raise no_such_node(query.name)
    mesh, row = core.registry.part(Mesh), names.index(query.name)
    delays = await asyncio.to_thread(mesh.delays, names) or _unknown_delays(len(names))
    kinds, times = delays.kinds_from(row).tolist(), mesh.estimates.times or {}
    found = []
    for place, seconds in enumerate(delays.from_node(row).tolist()):
        if place == row:
            continue
        node, peer = query.name, names[place]
        measured = times.get((min(node, peer), max(node, peer)))
        if measured is not None:
            found.append(measured if node < peer else measured.reversed())
        else:
            found.append(
                RoundTrip(
                    node=node,
                    peer=peer,
                    kind=_LABELS[kinds[place]],
                    p50_seconds=_known_or_none(seconds),
                    p95_seconds=None,
                    lost_ratio=None,
                    forth_seconds=None,
                    back_seconds=None,
                    symmetric=None,
                )
            )
    found.sort(key=lambda each: (each.p50_seconds is None, each.p50_seconds or 0.0, each.peer))
    return NodeNetwork(at=core.clock(), node=query.name, round_trips=found)


def _unknown_delays(count: int) -> Delays:
    """Unknown delays, for a collector whose mesh is off."""
    return Delays.of_matrix(np.full((count, count), np.nan), np.zeros((count, count), dtype=np.int8))


def _known_or_none(seconds: float) -> float | None:
    return None if isnan(seconds) else seconds


def _address(member: Member | None) -> str | None:
    if member is None:
        return None
    return f"[{member.host}]:{member.port}" if ":" in member.host else f"{member.host}:{member.port}"


ROUTES: tuple[Route, ...] = (
    get("/v1/network", network),
    get("/v1/network/{name}", node_network, problems=NO_NODE),
)
