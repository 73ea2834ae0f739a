"""Plans of the mesh: the peers of each node, and estimates from their results. Pure; runs in a thread.

In a small cluster, all pairs of nodes measure each other. In a larger one, each node has few peers: random
ones, which locate it in the whole cluster, and near ones, which locate it among its neighbours.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np

from collector.common.arrays import Floats, Rows
from collector.features.network.mesh.coordinates import DIMENSIONS, Coordinates, fit_coordinates
from collector.features.network.mesh.delays import Delays
from wire.mesh import MeshAssignment, MeshMember, MeshPeer, PeerResult

MAX_FULL_MESH = 64
"""Number of nodes up to which all pairs are measured."""
MAX_PEERS = 20
_NEAR_PEERS = MAX_PEERS // 2
_CANDIDATES = 3 * _NEAR_PEERS
"""Near nodes that are considered. If one has enough peers, the next one is used."""

RowPair = tuple[int, int]
"""Rows of two nodes, the smaller one first."""
_MAX_BYTES_PER_SECOND = 200.0
"""Mean traffic of a node for the mesh, sent and received. It determines the time between two probes of the
same peer: 107 s with 63 peers."""
_EXCHANGE_BYTES_PER_SECOND = 40.0
"""Traffic of requests to the collector, about one every 45 seconds."""
_BYTES_PER_ROUND = 2 * 2 * (40 + 28)
"""Bytes per probe of a pair: request and response in both directions, with UDP and IPv4 headers."""
_MIN_INTERVAL_SECONDS = 5.0
_KEY_ENTRY = struct.Struct(">QH")

Pair = tuple[str, str]
"""Two nodes, the first by name first."""


class Result(NamedTuple):
    """The result of a node's probes of a peer."""

    at: float
    """When the collector received it."""
    probes: PeerResult


Results = Mapping[str, Mapping[str, Result]]
"""By node and peer."""


@dataclass(frozen=True, slots=True)
class MeshPlan:
    """The peers of each node, and the round-trip times by the names of nodes."""

    members: tuple[MeshMember, ...] = ()
    """By name."""
    key: bytes = b""
    """The key from which those of all pairs are derived."""
    near: frozenset[Pair] = frozenset()
    assignments: Mapping[str, MeshAssignment] = field(default_factory=dict)
    medians: Mapping[Pair, float] = field(default_factory=dict)
    """The round-trip time of each measured pair, in seconds."""
    located: Sequence[str] = ()
    """The nodes of the coordinates, one per row."""
    coordinates: Coordinates | None = None
    """None in a cluster that is small enough to measure all pairs."""

    @property
    def error_ratio(self) -> float | None:
        """90th percentile of the relative error of estimates; None without estimates."""
        return None if self.coordinates is None else self.coordinates.error_ratio

    def delays(self, names: Sequence[str]) -> Delays:
        """The round-trip times between these nodes, in this order."""
        positions, heights = np.full((len(names), DIMENSIONS), np.nan), np.full(len(names), np.nan)
        if self.coordinates is not None:
            row = {name: place for place, name in enumerate(names)}
            known = [(row[name], place) for place, name in enumerate(self.located) if name in row]
            here, there = np.array(known, dtype=np.intp).reshape(-1, 2).T
            positions[here], heights[here] = (
                self.coordinates.positions[there],
                self.coordinates.heights[there],
            )
        return Delays.of_pairs(*_columns(self.medians, names), positions, heights)


def make_plan(
    members: tuple[MeshMember, ...], key: bytes, results: Results, last: MeshPlan, *, refit: bool
) -> MeshPlan:
    """Make a plan; unchanged parts are taken from the last plan.

    `refit` is whether to fit coordinates again, which takes a second in a large cluster.
    """
    # A node whose results were read from a store is not a member, but it is part of the estimates.
    names = sorted({member.node for member in members} | set(results))
    medians = median_times(results)
    plan = replace(last, medians=medians, coordinates=None, located=())
    near: frozenset[Pair] = frozenset()
    if len(names) > MAX_FULL_MESH:
        plan, near = replace(last, medians=medians), last.near
        if plan.coordinates is None or refit:
            found = fit_coordinates(len(names), *_columns(medians, names))
            plan = replace(plan, coordinates=found, located=names)
        if medians and (not near or key != last.key):
            near = _near(plan)
    if (members, key, near) == (last.members, last.key, last.near):
        return plan
    return replace(plan, members=members, key=key, near=near, assignments=_assignments(members, near, key))


def median_times(results: Results) -> dict[Pair, float]:
    """The median times of all pairs with an answered probe: of both directions, the larger one."""
    found: dict[Pair, float] = {}
    for node, peers in results.items():
        for peer, result in peers.items():
            if result.probes.p50_seconds is not None:
                pair = (node, peer) if node < peer else (peer, node)
                found[pair] = max(found.get(pair, 0.0), result.probes.p50_seconds)
    return found


def _columns(medians: Mapping[Pair, float], names: Sequence[str]) -> tuple[Rows, Floats]:
    """The pairs among these nodes, two columns of rows, and their times."""
    row = {name: place for place, name in enumerate(names)}
    found = [
        (row[one], row[other], each) for (one, other), each in medians.items() if one in row and other in row
    ]
    table = np.array(found, dtype=np.float64).reshape(-1, 3)
    return table[:, :2].astype(np.intp), table[:, 2]


def _near(plan: MeshPlan) -> frozenset[Pair]:
    names = plan.located
    return frozenset(
        (names[one], names[other]) for one, other in choose_near(len(names), plan.delays(names).from_node)
    )


def probe_interval_seconds(peers: int) -> float:
    """Time between two probes of the same peer that keeps a node within its maximum traffic."""
    return max(
        peers * _BYTES_PER_ROUND / (_MAX_BYTES_PER_SECOND - _EXCHANGE_BYTES_PER_SECOND), _MIN_INTERVAL_SECONDS
    )


def _assignments(
    members: tuple[MeshMember, ...], near: frozenset[Pair], key: bytes
) -> dict[str, MeshAssignment]:
    row = {member.node: place for place, member in enumerate(members)}
    near_rows = [(row[one], row[other]) for one, other in sorted(near) if one in row and other in row]
    peers: dict[str, list[MeshPeer]] = {member.node: [] for member in members}
    for rows in sorted(choose_pairs(list(row), near_rows)):
        one, other = (members[each] for each in rows)
        shared = pair_key(key, one, other)
        for node, peer in ((one, other), (other, one)):
            peers[node.node].append(MeshPeer(peer.node, peer.session, peer.port, peer.host, key=shared))
    return {node: _assignment(tuple(each)) for node, each in peers.items()}


def _assignment(peers: tuple[MeshPeer, ...]) -> MeshAssignment:
    interval_seconds = probe_interval_seconds(len(peers))
    digest = hashlib.blake2b(msgspec.msgpack.encode(peers), digest_size=7).digest()
    version = 1 + int.from_bytes(digest, "big")
    return MeshAssignment(version=version, peers=peers, interval_seconds=interval_seconds)


def pair_key(key: bytes, one: MeshMember, other: MeshMember) -> bytes:
    """The key of two members, in either order, derived from one that never leaves the collector.

    Only the two nodes of a pair get its key, so a node cannot forge a probe between two others. A key is
    valid until one of the agents restarts or the key from which it is derived changes.
    """
    parts = []
    for member in sorted((one, other)):
        name = member.node.encode()
        parts += [_KEY_ENTRY.pack(member.session, len(name)), name]
    return hmac.digest(key, b"".join(parts), "sha256")


def choose_pairs(names: Sequence[str], near: Iterable[RowPair] = ()) -> set[RowPair]:
    """Choose the pairs that measure each other. Few pairs change when a node joins or leaves."""
    if len(names) <= MAX_FULL_MESH:
        return set(combinations(range(len(names)), 2))
    chosen = _Matching(len(names))
    random_pairs = list(_random_pairs(names))
    chosen.add(random_pairs, MAX_PEERS - _NEAR_PEERS)
    chosen.add(near, MAX_PEERS)
    chosen.add(random_pairs, MAX_PEERS)
    return chosen.pairs


def choose_near(count: int, times_from: Callable[[int], Floats]) -> list[RowPair]:
    """Choose pairs of nodes with a short round-trip time, the nearest peers of each node first."""
    ranked: list[tuple[int, float, RowPair]] = []
    nearest = min(_CANDIDATES, count - 1)
    for row in range(count):
        seconds = np.nan_to_num(times_from(row), nan=np.inf)
        seconds[row] = np.inf
        found = np.argpartition(seconds, nearest - 1)[:nearest]
        found = found[np.argsort(seconds[found], kind="stable")]
        ranked += [
            (rank, float(seconds[other]), (min(row, other), max(row, other)))
            for rank, other in enumerate(found.tolist())
            if np.isfinite(seconds[other])
        ]
    matching = _Matching(count)
    matching.add((pair for _, _, pair in sorted(ranked)), _NEAR_PEERS)
    return sorted(matching.pairs)


class _Matching:
    """Pairs, with a maximum number per node."""

    def __init__(self, count: int) -> None:
        self.pairs: set[RowPair] = set()
        self._peers = [0] * count

    def add(self, pairs: Iterable[RowPair], max_peers: int) -> None:
        for pair in pairs:
            one, other = pair
            if pair not in self.pairs and max(self._peers[one], self._peers[other]) < max_peers:
                self.pairs.add(pair)
                self._peers[one] += 1
                self._peers[other] += 1


def _random_pairs(names: Sequence[str]) -> Iterator[RowPair]:
    """Neighbours on rings, whose orders are pseudo-random and depend only on the names."""
    for ring in range(MAX_PEERS // 2):
        salt = bytes([ring])
        places = [hashlib.blake2b(name.encode(), digest_size=8, salt=salt).digest() for name in names]
        order = sorted(range(len(names)), key=places.__getitem__)
        for one, other in zip(order, order[1:] + order[:1], strict=True):
            yield min(one, other), max(one, other)
