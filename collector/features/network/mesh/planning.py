"""Plans of the mesh: the peers of each node, and estimates from their results. Pure; runs in a thread."""

import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from collector.features.network.mesh.coordinates import Coordinates, fit_coordinates
from collector.features.network.mesh.estimates import Estimates
from collector.features.network.mesh.measurements import Pair, Results, RoundTrip, median_columns, pair_times
from collector.features.network.mesh.members import Member
from collector.features.network.mesh.peers import MAX_FULL_MESH, RowPair, choose_near, choose_pairs
from wire.mesh import MeshAssignment, MeshPeer

_BYTES_PER_ROUND = 2 * 2 * (40 + 28)
"""Bytes per probe of a pair: request and response in both directions, with UDP and IPv4 headers."""
_EXCHANGE_BYTES_PER_SECOND = 40.0
"""Traffic of requests to the collector, about one every 45 seconds."""
_KEY_ENTRY = struct.Struct(">QH")
_MIN_INTERVAL_SECONDS, _MAX_INTERVAL_SECONDS = 5.0, 3600.0


@dataclass(frozen=True, slots=True)
class MeshInputs:
    """The inputs of a plan."""

    members: tuple[Member, ...]
    """By name."""
    epoch: int
    results: Results
    refit: bool
    """Whether to fit coordinates again, which takes a second in a large cluster."""


@dataclass(frozen=True, slots=True)
class MeshPlan:
    """The peers of each node, and the estimated round-trip times."""

    members: tuple[Member, ...] = ()
    epoch: int = -1
    near: frozenset[Pair] = frozenset()
    assignments: Mapping[str, MeshAssignment] = field(default_factory=dict)
    estimates: Estimates = field(default_factory=Estimates)


def make_plan(inputs: MeshInputs, last: MeshPlan, secret: bytes, max_bytes_per_second: float) -> MeshPlan:
    """Make a plan; unchanged parts are taken from the last plan."""
    # A node whose results were read from a store is not a member, but it is part of the estimates.
    names = tuple(sorted({member.node for member in inputs.members} | set(inputs.results)))
    times = pair_times(inputs.results)
    is_large = len(names) > MAX_FULL_MESH
    estimates = Estimates(names, times)
    if is_large:
        estimates = replace(last.estimates, times=times)
        if estimates.coordinates is None or inputs.refit:
            estimates = Estimates(names, times, _coordinates(names, times))
    near = last.near if is_large else frozenset()
    if is_large and times and (not near or inputs.epoch != last.epoch):
        near = _near(estimates)
    if (inputs.members, inputs.epoch, near) == (last.members, last.epoch, last.near):
        return replace(last, estimates=estimates)
    row = {member.node: place for place, member in enumerate(inputs.members)}
    near_rows = [(row[one], row[other]) for one, other in sorted(near) if one in row and other in row]
    pairs = choose_pairs(list(row), near_rows)
    assignments = _assignments(inputs, pairs, secret, max_bytes_per_second)
    return MeshPlan(inputs.members, inputs.epoch, near, assignments, estimates)


def probe_interval_seconds(peers: int, max_bytes_per_second: float) -> float:
    """Time between two probes of the same peer that keeps a node within its maximum traffic."""
    left = max(max_bytes_per_second - _EXCHANGE_BYTES_PER_SECOND, max_bytes_per_second / 10)
    return min(max(peers * _BYTES_PER_ROUND / left, _MIN_INTERVAL_SECONDS), _MAX_INTERVAL_SECONDS)


def _coordinates(names: tuple[str, ...], times: Mapping[Pair, RoundTrip]) -> Coordinates:
    row = {name: place for place, name in enumerate(names)}
    return fit_coordinates(len(names), *median_columns(times, row))


def _near(estimates: Estimates) -> frozenset[Pair]:
    names = estimates.names
    delays = estimates.delays(names)
    return frozenset((names[one], names[other]) for one, other in choose_near(len(names), delays.from_node))


def _assignments(
    inputs: MeshInputs, pairs: set[RowPair], secret: bytes, max_bytes_per_second: float
) -> dict[str, MeshAssignment]:
    peers: dict[str, list[MeshPeer]] = {member.node: [] for member in inputs.members}
    for one_row, other_row in sorted(pairs):
        one, other = inputs.members[one_row], inputs.members[other_row]
        key = pair_key(secret, inputs.epoch, one, other)
        peers[one.node].append(MeshPeer(other.node, other.session, other.host, other.port, key))
        peers[other.node].append(MeshPeer(one.node, one.session, one.host, one.port, key))
    return {node: _assignment(tuple(each), max_bytes_per_second) for node, each in peers.items()}


def _assignment(peers: tuple[MeshPeer, ...], max_bytes_per_second: float) -> MeshAssignment:
    unnumbered = MeshAssignment(
        version=0,
        peers=peers,
        interval_seconds=probe_interval_seconds(len(peers), max_bytes_per_second),
    )
    digest = hashlib.blake2b(msgspec.msgpack.encode(unnumbered), digest_size=7).digest()
    return msgspec.structs.replace(unnumbered, version=1 + int.from_bytes(digest, "big"))


def pair_key(secret: bytes, epoch: int, one: Member, other: Member) -> bytes:
    """The key of two members, in either order, derived from a secret that never leaves the collector.

    Only the two nodes of a pair get its key, so a node cannot forge a probe between two others. A key is
    valid until one of the agents restarts or the next epoch begins.
    """
    parts = [struct.pack(">Q", epoch)]
    for member in sorted((one, other)):
        name = member.node.encode()
        parts += [_KEY_ENTRY.pack(member.session, len(name)), name]
    return hmac.digest(secret, b"".join(parts), "sha256")
