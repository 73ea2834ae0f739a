"""Bodies in every form and packing: the same in all of them, and never more than allowed."""

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from collector.common.errors import ApiError
from collector.ingest.push import parse_reports
from collector.web.bodies import JSON_TYPE, MSGPACK_TYPE, decompress
from tests.collector.builders import Client, collecting, settings
from tests.collector.ingest.test_push import BODY, WHOLE
from tests.collector.speaking import clusters, patient
from wire.messages import Report, encode

PACKED = msgspec.msgpack.encode([WHOLE])


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


def zstd_of_unknown_size(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(body)


@pytest.mark.parametrize("pack", [zstd, zstd_of_unknown_size])
@pytest.mark.parametrize(("form", "body"), [(JSON_TYPE, BODY), (MSGPACK_TYPE, PACKED)])
async def test_zstd_with_and_without_content_size(
    collector: Client, pack: Callable[[bytes], bytes], form: str, body: bytes
) -> None:
    headers = {"Content-Type": form, "Content-Encoding": "zstd"}
    status, answer = await collector.post(pack(body), headers=headers)
    assert (status, answer["taken"], answer["known"], answer["refused"]) == (200, 1, 0, 0)


@patient
@given(reports=clusters())
def test_messagepack_equals_json(reports: list[Report]) -> None:
    for start in range(0, len(reports), 100):
        batch = tuple(reports[start : start + 100])
        assert parse_reports(msgspec.msgpack.encode(batch), MSGPACK_TYPE) == batch
        assert parse_reports(encode(batch)) == batch


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"at": float("nan")}, "$[0].at"),
        ({"at": float("inf")}, "$[0].at"),
        ({"state": {"used": {"cpu_cores": float("inf")}, "capacity": {}}}, "$[0].state.used.cpu_cores"),
        ({"node": b"alpha"}, "$[0].node"),
        ({"sequence": 2**63}, "$[0].sequence"),
        ({"heartbeat": None, "surprise": 1}, "$[0]"),
        ({}, "$[0].heartbeat.usage[0].cpu.bins"),
    ],
)
async def test_messagepack_rejects_values_that_json_cannot_express(
    collector: Client, changes: dict[str, object], field: str
) -> None:
    # Bins are numbered by texts in JSON, as it has no other keys, and by numbers in MessagePack.
    body = msgspec.msgpack.encode([json.loads(BODY)[0] | changes])
    status, answer = await collector.post(body, headers={"Content-Type": MSGPACK_TYPE})
    assert (status, answer["field"]) == (400, field)


@pytest.mark.parametrize("started_at", [float("nan"), float("-inf")])
async def test_messagepack_rejects_non_finite_numbers(collector: Client, started_at: float) -> None:
    tree = json.loads(BODY)
    tree[0]["containers"][0]["started_at"] = started_at
    del tree[0]["heartbeat"]["usage"]
    status, answer = await collector.post(
        msgspec.msgpack.encode(tree), headers={"Content-Type": MSGPACK_TYPE}
    )
    assert (status, answer["field"]) == (400, "$[0].containers[0].started_at")


async def test_malformed_messagepack_is_an_error(collector: Client) -> None:
    for body in (b"", PACKED[:-1], PACKED + b"\x00", b"\xc1", BODY):
        status, answer = await collector.post(body, headers={"Content-Type": MSGPACK_TYPE})
        assert (status, answer["status"]) == (400, 400), body


async def test_questions_accept_json_only(collector: Client) -> None:
    body = msgspec.msgpack.encode({"envelope": {}})
    status, answer = await collector.post(body, "/v1/what-if", {"Content-Type": MSGPACK_TYPE})
    assert (status, answer["field"]) == (415, "Content-Type")


LIMIT = 100_000
BOMBS = {
    "gzip": gzip.compress(b" " * 50_000_000),
    "zstd": zstd(b" " * 50_000_000),
    "zstd of unknown size": zstd_of_unknown_size(b" " * 50_000_000),
    # A frame of one byte that asks for a window of 128 MB to unpack it.
    "zstd with a wide window": bytes.fromhex("28b52ffd 00 88 090000 20"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_decompression_bomb_is_rejected_early(bomb: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ApiError) as refusal:
            decompress(BOMBS[bomb], bomb.partition(" ")[0], LIMIT)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refusal.value.problem.status in (400, 413)
    assert peak_bytes < 20 * LIMIT


async def test_decompression_bombs_over_http() -> None:
    async with collecting(settings(max_body_bytes=LIMIT)) as collector:
        for name, bomb in BOMBS.items():
            status, _ = await collector.post(bomb, headers={"Content-Encoding": name.partition(" ")[0]})
            assert (name, status) in ((name, 413), ("zstd with a wide window", 400))
        status, answer = await collector.post(BODY)
        assert (status, answer["taken"]) == (200, 1)


def unpacked(packed: bytes, encoding: str, limit_bytes: int) -> bytes | int:
    """What comes to light, or the status of the refusal."""
    try:
        return decompress(packed, encoding, limit_bytes)
    except ApiError as refusal:
        return refusal.problem.status


@given(body=st.binary(max_size=300), limit_bytes=st.integers(1, 300))
def test_decompress_round_trip_up_to_the_limit(body: bytes, limit_bytes: int) -> None:
    for encoding, packed in (("gzip", gzip.compress(body)), ("zstd", zstd(body)), ("identity", body)):
        assert unpacked(packed, encoding, limit_bytes) == (body if len(body) <= limit_bytes else 413)


@given(packed=st.binary(max_size=100))
def test_decompress_of_garbage_is_an_error(packed: bytes) -> None:
    assert unpacked(packed, "gzip", LIMIT) == 400
    assert unpacked(packed, "zstd", LIMIT) in (400, b"")


async def test_multiple_content_encodings_are_rejected(collector: Client) -> None:
    status, answer = await collector.post(BODY, headers={"Content-Encoding": "gzip, zstd"})
    assert (status, answer["field"]) == (415, "Content-Encoding")
    status, answer = await collector.post(zlib.compress(BODY), headers={"Content-Encoding": "deflate"})
    assert (status, answer["field"]) == (415, "Content-Encoding")


async def test_slow_body_times_out_without_blocking_others() -> None:
    async with collecting(settings(body_timeout_seconds=0.2)) as collector:
        port = int(collector.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n["
        )
        status, answer = await collector.post(BODY)
        assert (status, answer["taken"]) == (200, 1), "the slow one is still under way"
        said = await asyncio.wait_for(reader.readuntil(b"did not arrive within 0.2 seconds"), 10)
        assert said.startswith(b"HTTP/1.1 408 ")
        assert await asyncio.wait_for(reader.read(), 10), "and then the connection is closed"
        writer.close()


async def test_large_content_length_is_rejected_unread() -> None:
    async with collecting(settings(max_body_bytes=LIMIT)) as collector:
        port = int(collector.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100001\r\n\r\n"
        )
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 413 ")
        writer.close()
