import gzip
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.common.errors import ApiError
from collector.serve.ingest import parse_reports
from tests.collector.builders import HEARTBEAT, START, Client, collecting, container, partial_report, report
from tests.collector.builders import settings as collector_settings
from wire.messages import MAX_BATCH, Alert, ContainerUsage, Event, EventKind, encode
from wire.resources import Resource
from wire.sketch import Sketch

WHOLE = msgspec.structs.replace(
    report(containers=[container(labels={"tier": "front"})]),
    gone=("id-of-gone",),
    events=(Event(EventKind.DIED, START, "id-of-gone", "gone", exit_code=1),),
    alerts=(Alert(Resource.CPU, START, "busy", ratio=0.97),),
    heartbeat=msgspec.structs.replace(
        HEARTBEAT,
        usage=(ContainerUsage("id-of-web", cpu=Sketch({-5: 3, 7: 1}, zeros=2)),),
        top={Resource.CPU: ("id-of-web",)},
    ),
)
BODY = encode([WHOLE])


async def test_reports_are_taken_once_and_acknowledged_always(collector: Client) -> None:
    reports = [report(sequence=number, at=START + number) for number in (1, 2)]
    first = await collector.send(*reports)
    again = await collector.send(*reports, report(sequence=3, at=START + 3))
    assert (first.accepted, first.duplicates, first.server_time) == (2, 0, START)
    assert (again.accepted, again.duplicates) == (1, 2)


async def test_a_repeat_with_other_content_changes_nothing(collector: Client) -> None:
    await collector.send(report(containers=[container("real")]))
    receipt = await collector.send(report(containers=[container("forged")]))
    assert (receipt.accepted, receipt.duplicates) == (0, 1)
    assert [each["name"] for each in await collector.containers()] == ["real"]


async def test_a_batch_may_hold_the_same_report_twice(collector: Client) -> None:
    receipt = await collector.send(report(), report())
    assert (receipt.accepted, receipt.duplicates) == (1, 1)


async def test_the_same_sequence_of_another_boot_or_node_is_another_report(collector: Client) -> None:
    receipt = await collector.send(report(), report(boot="second"), report("beta"))
    assert receipt.accepted == 3


async def test_gzip_is_taken(collector: Client) -> None:
    status, answer = await collector.post(gzip.compress(BODY), headers={"Content-Encoding": "gzip"})
    assert (status, answer["accepted"]) == (200, 1)


HEARTBEAT_JSON: dict[str, Any] = {"agent_version": "1", "sample_seconds": 3, "beacon_seconds": 30}


def changed(**changes: Any) -> bytes:
    return json.dumps([json.loads(BODY)[0] | changes]).encode()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "$"),
        (b"\xff\xfe", "$"),
        (b"[" * 100_000, "$[0]"),
        (b"{}", "$"),
        (b"[]", "$"),
        (b"[" + b",".join([BODY[1:-1]] * (MAX_BATCH + 1)) + b"]", "$"),
        (changed(node=""), "$[0].node"),
        (changed(node="n" * 254), "$[0].node"),
        (changed(sequence=0), "$[0].sequence"),
        (changed(sequence=2**63), "$[0].sequence"),
        (changed(at=-1), "$[0].at"),
        (changed(at="now"), "$[0].at"),
        (changed(at=77.5).replace(b"77.5", b"1e999"), "$[0].at"),
        (changed(at=77.5).replace(b"77.5", b"NaN"), "$"),
        (changed(surprise=1), "$[0]"),
        (
            changed(state={"used": {}, "capacity": {"memory_bytes": 2**64}}),
            "$[0].state.capacity.memory_bytes",
        ),
        (changed(containers=[{}]), "$[0].containers[0]"),
        (changed(gone=[""]), "$[0].gone[0]"),
        (changed(events=[{"kind": "exploded", "at": 1}]), "$[0].events[0].kind"),
        (changed(alerts=[{"resource": "luck", "opened_at": 1, "evidence": ""}]), "$[0].alerts[0].resource"),
        (changed(heartbeat={"agent_version": "1", "sample_seconds": 1}), "$[0].heartbeat"),
        (changed(heartbeat=HEARTBEAT_JSON | {"sample_seconds": 1e17}), "$[0].heartbeat.sample_seconds"),
        (changed(heartbeat=HEARTBEAT_JSON | {"beacon_seconds": 1e9}), "$[0].heartbeat.beacon_seconds"),
        (
            changed(heartbeat=HEARTBEAT_JSON | {"usage": [{"id": "a", "cpu": {"zeros": 2**32}}]}),
            "$[0].heartbeat.usage[0].cpu.zeros",
        ),
        (changed(state={"used": {"cpu_cores": 1e7}, "capacity": {}}), "$[0].state.used.cpu_cores"),
        (changed(at=1e12), "$[0].at"),
        (changed(containers=json.loads(BODY)[0]["containers"] * 2), "$[0].containers[1].id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_invalid_field_is_named_and_nothing_is_stored(
    collector: Client, body: bytes, field: str
) -> None:
    status, answer = await collector.post(body)
    assert (status, answer["status"], answer["field"]) == (400, 400, field)
    assert answer["detail"]
    assert await collector.nodes() == []


async def test_one_bad_report_refuses_its_whole_batch(collector: Client) -> None:
    status, answer = await collector.post(b"[" + BODY[1:-1] + b",{}]")
    assert (status, answer["field"]) == (400, "$[1]")
    assert await collector.nodes() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Encoding": "br"},
        {"Content-Encoding": "deflate"},
    ],
)
async def test_only_json_plain_or_gzipped_is_read(collector: Client, headers: dict[str, str]) -> None:
    status, answer = await collector.post(BODY, headers=headers)
    assert (status, answer["field"]) == (415, next(iter(headers)))


@pytest.mark.parametrize(
    "packed", [b"no gzip at all", gzip.compress(BODY)[:-20], gzip.compress(BODY) + b"more"]
)
async def test_a_broken_gzip_is_refused(collector: Client, packed: bytes) -> None:
    status, answer = await collector.post(packed, headers={"Content-Encoding": "gzip"})
    assert (status, answer["status"]) == (400, 400)


@pytest.mark.slow
async def test_too_large_a_body_is_refused_plain_or_packed() -> None:
    async with collecting(collector_settings(max_body_bytes=100_000)) as collector:
        bomb = gzip.compress(b" " * 200_000_000)
        assert len(bomb) > 100_000
        for body, headers in [
            (b" " * 100_001, {}),
            (gzip.compress(b" " * 100_001), {"Content-Encoding": "gzip"}),
            (bomb, {"Content-Encoding": "gzip"}),
        ]:
            status, answer = await collector.post(body, headers=headers)
            assert (status, answer["status"]) == (413, 413)
            assert "100000 bytes" in answer["detail"]
        assert (await collector.send(report())).accepted == 1


@pytest.mark.parametrize("at", [0.0, 9.2e9, START + 1e9])
async def test_a_wrong_clock_is_no_reason_to_refuse(collector: Client, at: float) -> None:
    await collector.send(report(at=at, containers=[container()]))
    (node,) = await collector.nodes()
    assert (node["state"], node["sampled_at"], node["mean"]["samples"]) == ("up", at, 1)
    assert [each["name"] for each in await collector.containers()] == ["web"]


async def test_histograms_beyond_reason_are_no_reason_to_break(collector: Client) -> None:
    absurd = Sketch({4000: 10**6, -4000: 10**6}, zeros=10**6)
    usage = ContainerUsage("id-of-web", cpu=absurd, memory=absurd, disk=absurd, network=absurd)
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(usage, usage))
    for sequence in (1, 2):
        await collector.send(
            partial_report(sequence=sequence, containers=(container(),), heartbeat=heartbeat)
        )
    (one,) = await collector.containers()
    assert one["envelope"]["p90"]["memory_bytes"] == 2**63 - 1


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good body with one value somewhere in it replaced, or some bytes of it."""
    if draw(st.booleans()):
        place = draw(st.integers(0, len(BODY)))
        end = draw(st.integers(place, min(len(BODY), place + 20)))
        return BODY[:place] + draw(st.binary(max_size=8)) + BODY[end:]
    tree = json.loads(BODY)
    at: Any = tree
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys))
        if not (isinstance(at[key], (dict, list)) and at[key] and draw(st.booleans())):
            at[key] = draw(json_values)
            return json.dumps(tree).encode()
        at = at[key]


@given(body=st.binary(max_size=200) | mutated())
def test_any_body_is_reports_or_a_refusal(body: bytes) -> None:
    try:
        outcome: object = bool(parse_reports(body))
    except ApiError as refusal:
        outcome = refusal.problem.status == 400 and bool(refusal.problem.field)
    assert outcome


@given(body=mutated(), pack=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
async def test_no_body_brings_the_collector_down(collector: Client, body: bytes, *, pack: bool) -> None:
    headers = {"Content-Encoding": "gzip"} if pack else {}
    status, answer = await collector.post(gzip.compress(body) if pack else body, headers=headers)
    assert status in (200, 400), answer
    for path in ("/v1/nodes", "/v1/containers", "/v1/alerts", "/v1/events"):
        status, answer = await collector.ask(path)
        assert status == 200, answer
