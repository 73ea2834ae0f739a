"""Bodies in every form and packing: the same in all of them, and never more than allowed."""

import asyncio
import gzip
import tracemalloc
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.errors import ApiError
from collector.serve.ingest import parse_reports
from collector.serve.web.bodies import decompress
from tests.collector.builders import Client, altered, collecting, settings
from tests.collector.report_strategies import clusters, patient
from tests.collector.serve.test_ingest import BODY
from wire.messages import Report, encode


@patient
@given(reports=clusters())
def test_batches_round_trip(reports: list[Report]) -> None:
    for start in range(0, len(reports), 100):
        batch = tuple(reports[start : start + 100])
        assert parse_reports(encode(batch)) == batch


async def test_other_content_types_are_rejected(collector: Client) -> None:
    for path in ("/v1/reports", "/v1/what-if"):
        status, answer = await collector.post(BODY, path, {"Content-Type": "application/msgpack"})
        assert (status, answer["field"]) == (415, "Content-Type")


LIMIT = 100_000
BOMB = gzip.compress(b" " * 50_000_000)


def test_decompression_bomb_is_rejected_early() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ApiError) as refusal:
            decompress(BOMB, "gzip", LIMIT)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refusal.value.problem.status == 413
    assert peak_bytes < 20 * LIMIT


async def test_decompression_bomb_over_http() -> None:
    async with collecting(settings(max_body_bytes=LIMIT)) as collector:
        status, _ = await collector.post(BOMB, headers={"Content-Encoding": "gzip"})
        assert status == 413
        status, answer = await collector.post(BODY)
        assert (status, answer["accepted"]) == (200, 1)


def unpacked(packed: bytes, encoding: str, limit_bytes: int) -> bytes | int:
    """What comes to light, or the status of the refusal."""
    try:
        return decompress(packed, encoding, limit_bytes)
    except ApiError as refusal:
        return refusal.problem.status


@given(body=st.binary(max_size=300), limit_bytes=st.integers(1, 300))
def test_decompress_round_trip_up_to_the_limit(body: bytes, limit_bytes: int) -> None:
    for encoding, packed in (("gzip", gzip.compress(body)), ("identity", body)):
        assert unpacked(packed, encoding, limit_bytes) == (body if len(body) <= limit_bytes else 413)


@given(packed=st.binary(max_size=100))
def test_decompress_of_garbage_is_an_error(packed: bytes) -> None:
    assert unpacked(packed, "gzip", LIMIT) == 400


async def test_multiple_content_encodings_are_rejected(collector: Client) -> None:
    status, answer = await collector.post(BODY, headers={"Content-Encoding": "gzip, gzip"})
    assert (status, answer["field"]) == (415, "Content-Encoding")
    status, answer = await collector.post(zlib.compress(BODY), headers={"Content-Encoding": "deflate"})
    assert (status, answer["field"]) == (415, "Content-Encoding")


async def test_slow_body_times_out_without_blocking_others() -> None:
    config = settings()
    config = msgspec.structs.replace(config, http=altered(config.http, body_timeout_seconds=0.2))
    async with collecting(config) as collector:
        port = int(collector.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n["
        )
        status, answer = await collector.post(BODY)
        assert (status, answer["accepted"]) == (200, 1), "the slow one is still under way"
        problem = await asyncio.wait_for(reader.readuntil(b"did not arrive within 0.2 seconds"), 10)
        assert problem.startswith(b"HTTP/1.1 408 ")
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
