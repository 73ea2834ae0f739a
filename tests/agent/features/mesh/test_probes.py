"""Probes over real UDP on loopback: what is measured, and which datagrams get no reply."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.features.mesh.packets import (
    PACKET_BYTES,
    REPLY,
    REQUEST,
    Packet,
    encode_packet,
    has_valid_tag,
    parse_packet,
)
from agent.features.mesh.peers import Peer
from tests.agent.features.mesh.pairs import KEY, Clock, Node, Stranger, mesh_node
from tests.waiting import until
from wire.mesh import KEY_BYTES

ALPHA, BETA = 2**62 + 1, 2**61 + 7
OTHER_KEY = b"k" * KEY_BYTES


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def alpha(clock: Clock) -> AsyncIterator[Node]:
    async with mesh_node("alpha", ALPHA, clock) as node:
        yield node


@pytest.fixture
async def beta(clock: Clock) -> AsyncIterator[Node]:
    async with mesh_node("beta", BETA, clock) as node:
        yield node


@pytest.fixture
async def stranger() -> AsyncIterator[tuple[asyncio.DatagramTransport, Stranger]]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(Stranger, local_addr=("127.0.0.1", 0))
    yield transport, protocol
    transport.close()


def introduce(alpha: Node, beta: Node, clock: Clock) -> None:
    alpha.peers.assign([beta.as_peer()], clock())
    beta.peers.assign([alpha.as_peer()], clock())


async def test_two_nodes_measure_each_other(alpha: Node, beta: Node, clock: Clock) -> None:
    introduce(alpha, beta, clock)
    clock.advance(1)
    for node, name in ((alpha, "beta"), (beta, "alpha")):
        assert node.endpoint.send_due(clock()) > 0
        peer = node.peers.by_node[name]
        await until(partial(has_result, peer, clock))
        summary = peer.result(clock())
        assert summary is not None
        assert (summary.answered, summary.lost) == (1, 0)
        assert summary.p50_seconds is not None
        assert 0 < summary.p50_seconds < 0.5


@pytest.mark.parametrize("liar", ["aaa", "zzz"])
async def test_a_node_that_claims_the_session_of_another_hides_none_of_its_probes(
    alpha: Node, beta: Node, clock: Clock, liar: str
) -> None:
    twin = msgspec.structs.replace(beta.as_peer(OTHER_KEY), node=liar, port=9)
    alpha.peers.assign(sorted([beta.as_peer(), twin], key=lambda peer: peer.node), clock())
    beta.peers.assign([alpha.as_peer()], clock())
    clock.advance(1)
    for node, name in ((alpha, "beta"), (beta, "alpha")):
        node.endpoint.send_due(clock())
        await until(partial(has_result, node.peers.by_node[name], clock))


def has_result(peer: Peer, clock: Clock) -> bool:
    return peer.result(clock()) is not None


def request(sequence: int = 1, *, key: bytes = KEY, receiver: int = BETA, sender: int = ALPHA) -> bytes:
    return encode_packet(Packet(REQUEST, 0, receiver, sender, sequence), key)


def flipped(datagram: bytes, place: int) -> bytes:
    return datagram[:place] + bytes([datagram[place] ^ 1]) + datagram[place + 1 :]


BAD = {
    "empty": b"",
    "too short": request()[:-1],
    "too long": request() + b"\0",
    "a large one": request() + bytes(1400),
    "a foreign key": request(key=OTHER_KEY),
    "a wrong receiver": request(receiver=BETA + 1),
    "an unknown sender": request(sender=ALPHA + 1),
    "its own session as sender": request(sender=BETA),
    "a changed sequence": flipped(request(), 23),
    "a changed tag": flipped(request(), PACKET_BYTES - 1),
    "an unknown kind": encode_packet(Packet(0x21, 0, BETA, ALPHA, 1), KEY),
    "a time in a request": encode_packet(Packet(REQUEST, 5, BETA, ALPHA, 1), KEY),
    "a reply to no request": encode_packet(Packet(REPLY, 0, BETA, ALPHA, 1), KEY),
}


@pytest.mark.parametrize("what", BAD)
async def test_what_is_not_valid_gets_no_reply_and_changes_nothing(
    what: str,
    alpha: Node,
    beta: Node,
    clock: Clock,
    stranger: tuple[asyncio.DatagramTransport, Stranger],
) -> None:
    introduce(alpha, beta, clock)
    before = repr(beta.peers.by_node["alpha"])
    transport, protocol = stranger
    transport.sendto(BAD[what], ("127.0.0.1", beta.port))
    # The valid request after it gets a reply, so the invalid one was handled without one.
    transport.sendto(request(9), ("127.0.0.1", beta.port))
    reply = await asyncio.wait_for(protocol.received.get(), 10)
    packet = parse_packet(reply)
    assert packet is not None
    assert (packet.kind, packet.sequence, packet.sender, packet.receiver) == (REPLY, 9, BETA, ALPHA)
    assert has_valid_tag(reply, KEY)
    assert protocol.received.empty()
    peer = beta.peers.by_node["alpha"]
    assert (peer.last_sequence, peer.replies) == (9, 1.0)
    peer.last_sequence, peer.replies, peer.replied_at = 0, 0.0, 0.0
    assert repr(peer) == before


async def test_a_reply_is_as_long_as_its_request(
    alpha: Node, beta: Node, clock: Clock, stranger: tuple[asyncio.DatagramTransport, Stranger]
) -> None:
    introduce(alpha, beta, clock)
    transport, protocol = stranger
    transport.sendto(request(), ("127.0.0.1", beta.port))
    assert len(await asyncio.wait_for(protocol.received.get(), 10)) == len(request()) == PACKET_BYTES


async def test_a_replayed_request_gets_no_second_reply(
    alpha: Node, beta: Node, clock: Clock, stranger: tuple[asyncio.DatagramTransport, Stranger]
) -> None:
    introduce(alpha, beta, clock)
    transport, protocol = stranger
    for sequence in (5, 5, 4, 6):
        transport.sendto(request(sequence), ("127.0.0.1", beta.port))
    received = [parse_packet(await asyncio.wait_for(protocol.received.get(), 10)) for _ in range(2)]
    assert [packet.sequence for packet in received if packet is not None] == [5, 6]
    assert beta.endpoint.discarded == 2


async def test_a_peer_that_sends_too_many_requests_gets_replies_at_the_limit(
    alpha: Node, beta: Node, clock: Clock, stranger: tuple[asyncio.DatagramTransport, Stranger]
) -> None:
    introduce(alpha, beta, clock)
    transport, protocol = stranger
    for sequence in range(1, 21):
        transport.sendto(request(sequence), ("127.0.0.1", beta.port))
    await until(lambda: beta.endpoint.discarded == 15)
    clock.advance(1)
    transport.sendto(request(21), ("127.0.0.1", beta.port))
    received = [parse_packet(await asyncio.wait_for(protocol.received.get(), 10)) for _ in range(6)]
    assert [packet.sequence for packet in received if packet is not None] == [1, 2, 3, 4, 5, 21]


async def test_a_replayed_or_forged_reply_changes_no_result(alpha: Node, beta: Node, clock: Clock) -> None:
    introduce(alpha, beta, clock)
    peer = alpha.peers.by_node["beta"]
    clock.advance(1)
    alpha.endpoint.send_due(clock())
    await until(lambda: peer.result(clock()))
    before = peer.result(clock())
    for sequence, key in ((1, KEY), (2, KEY), (1, OTHER_KEY)):
        forged = encode_packet(Packet(REPLY, 0, ALPHA, BETA, sequence), key)
        assert not alpha.endpoint.receive(forged, ("127.0.0.1", beta.port), 0)
    assert peer.result(clock()) == before


async def test_a_probe_without_reply_is_lost_unless_its_key_is_new(alpha: Node, clock: Clock) -> None:
    async with mesh_node("gone", 77, clock) as gone:
        absent = gone.as_peer()
    alpha.peers.assign([absent], clock())
    peer, endpoint = alpha.peers.by_node["gone"], alpha.endpoint
    for _ in range(8):
        clock.advance(2)
        endpoint.send_due(clock())
    assert peer.result(clock()) is None
    for _ in range(3):
        clock.advance(max(0.0, peer.due_at - clock()))
        endpoint.send_due(clock())
    summary = peer.result(clock())
    assert summary is not None
    assert (summary.p50_seconds, summary.p95_seconds, summary.answered, summary.lost) == (None, None, 0, 3)


async def test_a_restarted_peer_counts_its_questions_from_the_start(
    alpha: Node, beta: Node, clock: Clock
) -> None:
    introduce(alpha, beta, clock)
    beta.peers.by_node["alpha"].last_sequence = 500
    async with mesh_node("alpha", ALPHA + 5, clock) as restarted:
        beta.peers.assign([restarted.as_peer()], clock())
        restarted.peers.assign([beta.as_peer()], clock())
        clock.advance(1)
        restarted.endpoint.send_due(clock())
        await until(lambda: restarted.peers.by_node["beta"].result(clock()))
        # What the earlier run sent is not valid any more.
        assert not beta.endpoint.receive(request(501), ("127.0.0.1", alpha.port), 0)


@given(st.binary(max_size=64))
def test_no_foreign_datagram_has_a_valid_tag(datagram: bytes) -> None:
    packet = parse_packet(datagram)
    assert packet is None or not has_valid_tag(datagram, KEY)


@given(
    st.sampled_from((REQUEST, REPLY)),
    st.integers(0, 2**24 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
)
def test_a_packet_is_read_as_it_was_written(
    kind: int, held: int, receiver: int, sender: int, sequence: int
) -> None:
    packet = Packet(kind, held, receiver, sender, sequence)
    datagram = encode_packet(packet, KEY)
    assert parse_packet(datagram) == packet
    assert has_valid_tag(datagram, KEY)
    assert not has_valid_tag(datagram, OTHER_KEY)


async def test_a_new_peer_is_probed_three_times_at_once(alpha: Node, beta: Node, clock: Clock) -> None:
    introduce(alpha, beta, clock)
    peer, endpoint = alpha.peers.by_node["beta"], alpha.endpoint
    waits = []
    for count in range(1, 5):
        clock.advance(max(0.0, peer.due_at - clock()))
        endpoint.send_due(clock())
        await until(lambda count=count: peer.answered == count)  # type: ignore[misc]  # the loop's own
        waits.append(peer.due_at - clock())
    assert [wait > 10 for wait in waits] == [False, False, True, True]


async def test_a_new_key_is_no_loss_and_keeps_results_and_sequences(
    alpha: Node, beta: Node, clock: Clock
) -> None:
    introduce(alpha, beta, clock)
    peer, endpoint = alpha.peers.by_node["beta"], alpha.endpoint
    clock.advance(1)
    endpoint.send_due(clock())
    await until(lambda: peer.result(clock()))
    before = peer.result(clock())
    sequences = (peer.sequence, beta.peers.by_node["alpha"].last_sequence)
    clock.advance(300 - 60)
    endpoint.send_due(clock())
    alpha.peers.assign([beta.as_peer(OTHER_KEY)], clock())
    assert peer.pending is None
    assert peer.result(clock()) == before
    beta.peers.assign([alpha.as_peer(OTHER_KEY)], clock())
    assert beta.peers.by_node["alpha"].last_sequence >= sequences[1]
    # The old key is not valid any more.
    assert not beta.endpoint.receive(request(sequences[0] + 5), ("127.0.0.1", alpha.port), 0)
    assert beta.endpoint.receive(request(sequences[0] + 5, key=OTHER_KEY), ("127.0.0.1", alpha.port), 0)


async def test_the_kernel_drops_what_is_not_for_this_run_of_the_agent(
    alpha: Node, beta: Node, clock: Clock, stranger: tuple[asyncio.DatagramTransport, Stranger]
) -> None:
    introduce(alpha, beta, clock)
    transport, protocol = stranger
    for what in ("empty", "too short", "too long", "a large one", "a wrong receiver"):
        transport.sendto(BAD[what], ("127.0.0.1", beta.port))
    transport.sendto(request(9), ("127.0.0.1", beta.port))
    await asyncio.wait_for(protocol.received.get(), 10)
    assert beta.endpoint.received == 1


async def test_a_socket_for_both_families_reaches_peers_of_both(beta: Node, clock: Clock) -> None:
    async with (
        mesh_node("wide", 99, clock, host="::") as wide,
        mesh_node("six", 66, clock, host="::1") as six,
    ):
        wide.peers.assign([beta.as_peer(), six.as_peer(host="::1")], clock())
        beta.peers.assign([wide.as_peer()], clock())
        six.peers.assign([wide.as_peer(host="::1")], clock())
        clock.advance(1)
        for node in (wide, beta, six):
            node.endpoint.send_due(clock())
        for node, peer in ((wide, "beta"), (wide, "six"), (beta, "wide"), (six, "wide")):
            await until(partial(has_result, node.peers.by_node[peer], clock))


async def test_a_busy_agent_does_not_look_far_away(alpha: Node, beta: Node, clock: Clock) -> None:
    introduce(alpha, beta, clock)
    clock.advance(1)
    alpha.endpoint.send_due(clock())
    # Neither agent reads its socket meanwhile.
    time.sleep(0.2)  # noqa: ASYNC251 - it is to block
    peer = alpha.peers.by_node["beta"]
    await until(partial(has_result, peer, clock))
    summary = peer.result(clock())
    assert summary is not None
    assert summary.p50_seconds is not None
    assert summary.p50_seconds < 0.1
