"""The mesh: what an agent and the collector exchange about round-trip times.

An agent sends a `MeshReport` to `POST /v1/mesh` and gets a `MeshAssignment`: its peers, with a key for each
pair. The collector holds the answer until the assignment changes, up to `wait_seconds`, so that a new peer
is known at once and an unchanged one costs nothing.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from wire.address import parse_ip
from wire.messages import Name

MAX_PEERS = 63
"""Every other node of a cluster of 64; nodes of larger clusters have fewer peers."""
MAX_RESULTS = 4 * MAX_PEERS
KEY_BYTES = 32
WINDOW_SECONDS = 300.0
"""Round-trip times are those of the last five minutes."""
MAX_ROUND_TRIP_SECONDS = 5.0
"""A probe without an answer after this time is lost."""
MAX_WAIT_SECONDS = 45.0
"""Below the idle timeout of common proxies."""

Session = Annotated[int, Meta(ge=1, le=2**63 - 1)]
"""Random number of one run of an agent, so that nothing that an earlier run sent is valid."""
Version = Annotated[int, Meta(ge=0, le=2**63 - 1)]
RoundTrip = Annotated[float, Meta(ge=0, le=MAX_ROUND_TRIP_SECONDS)]
ProbeCount = Annotated[int, Meta(ge=0, le=10_000)]


class _MeshMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of the messages: strict and immutable."""


class PeerResult(_MeshMessage, frozen=True, array_like=True):
    """Probes of one node to a peer over the last five minutes."""

    peer: Name
    p50_seconds: RoundTrip | None
    """Median round-trip time; null if no probe was answered."""
    p95_seconds: RoundTrip | None
    """95th percentile of the round-trip time; null if no probe was answered."""
    answered: ProbeCount
    lost: ProbeCount

    @property
    def lost_ratio(self) -> float:
        """Share of the probes without a reply."""
        return self.lost / (self.answered + self.lost)


class MeshMember(_MeshMessage, frozen=True, order=True):
    """One run of an agent of the mesh, and where its peers reach it."""

    node: Name
    session: Session
    port: Annotated[int, Meta(ge=1, le=65_535)]
    """UDP port."""
    host: Annotated[str, Meta(max_length=45)] = ""
    """IP address; in a report, empty for the address that the collector sees."""


class MeshReport(MeshMember, frozen=True, kw_only=True):
    """What an agent sends: where its peers reach it, and its new results."""

    version: Version = 0
    """Version of the assignment that it has; 0 is none."""
    wait_seconds: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0.0
    """How long the collector may hold the answer if the assignment has not changed."""
    results: Annotated[tuple[PeerResult, ...], Meta(max_length=MAX_RESULTS)] = ()
    """Results that have changed since the last report."""


class MeshPeer(MeshMember, frozen=True, kw_only=True):
    """A node to probe."""

    key: Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    """Key of this pair; no other node has it."""


class MeshAssignment(_MeshMessage, frozen=True, kw_only=True):
    """The peers of a node."""

    version: Version
    """Version of this assignment, for the next report."""
    peers: Annotated[tuple[MeshPeer, ...], Meta(max_length=MAX_PEERS)] | None = None
    """Null if they have not changed since the version of the request."""
    interval_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """Time between two probes to the same peer."""


def parse_assignment(body: bytes) -> MeshAssignment:
    """Parse the collector's answer; raises `msgspec.DecodeError`."""
    assignment = msgspec.json.decode(body, type=MeshAssignment)
    for peer in assignment.peers or ():
        # A name would be resolved whenever a probe is sent, and the agent would wait for that. The zone of an
        # IPv6 address can be any text.
        if parse_ip(peer.host) is None or "%" in peer.host:
            raise msgspec.ValidationError(f"{peer.host!r} is no IP address")
    return assignment
