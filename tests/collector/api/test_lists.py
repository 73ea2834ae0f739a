"""Filters, single things and what is added up, asked of a running collector."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.collector.builders import HEARTBEAT, START, Client, container, partial_report, report
from wire.messages import ContainerUsage, Event, EventKind, NodePower, PowerSource
from wire.sketch import Sketch


async def found(collector: Client, path: str, key: str, name: str = "name") -> list[str]:
    status, answer = await collector.ask(path)
    assert status == 200, answer
    return [each[name] for each in answer[key]]


async def test_nodes_are_filtered(collector: Client) -> None:
    await collector.send(report("alpha"), report("beta"))
    collector.clock.now += 20
    await collector.send(report("beta", sequence=2))
    assert await found(collector, "/v1/nodes?state=up", "nodes") == ["beta"]
    assert await found(collector, "/v1/nodes?state=suspect", "nodes") == ["alpha"]
    assert await found(collector, "/v1/nodes?region=EED", "nodes") == []
    assert await found(collector, "/v1/nodes?region=LEE&generation=any", "nodes") == ["alpha", "beta"]
    assert await found(collector, "/v1/nodes?task_class=1", "nodes") == []
    assert await found(collector, "/v1/nodes?label=zone", "nodes") == []


async def test_containers_are_filtered(collector: Client) -> None:
    await collector.send(
        report(
            containers=[
                container("web", labels={"tier": "front"}),
                container("db", service="data", labels={"tier": "back"}),
            ]
        )
    )
    assert await found(collector, "/v1/containers?service=data", "containers") == ["db"]
    assert await found(collector, "/v1/containers?label=tier=front", "containers") == ["web"]
    assert await found(collector, "/v1/containers?label=tier", "containers") == ["db", "web"]
    assert await found(collector, "/v1/containers?name=web", "containers") == ["web"]
    assert await found(collector, "/v1/containers?name=web&service=data", "containers") == []
    assert await found(collector, "/v1/containers?service=data&label=tier=front", "containers") == []
    assert await found(collector, "/v1/containers?service=data&node=beta", "containers") == []
    assert await found(collector, "/v1/containers?service=none", "containers") == []
    assert await found(collector, "/v1/containers?group=cpu", "containers") == []


async def test_containers_of_a_service_are_paged_across_nodes(
    collector: Client,
) -> None:
    for node in ("beta", "alpha", "gamma"):
        listed = [
            container(f"{name}-{node}", service=service) for name, service in (("b", "web"), ("a", "web"))
        ]
        await collector.send(report(node, containers=[*listed, container(f"db-{node}", service="db")]))
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        _, page = await collector.ask(f"/v1/containers?service=web&limit=2{more}")
        names += [each["name"] for each in page["containers"]]
        cursor = page["next"]
    assert names == [f"{name}-{node}" for node in ("alpha", "beta", "gamma") for name in ("a", "b")]


async def test_one_node_and_one_container_equal_their_list_entries(collector: Client) -> None:
    await collector.send(report(containers=[container()]))
    [node] = await collector.nodes()
    assert await collector.ask("/v1/nodes/alpha") == (200, node)
    [web] = await collector.containers()
    assert await collector.ask("/v1/containers/id-of-web") == (200, web)


async def test_name_with_a_slash_is_escaped_in_the_path(collector: Client) -> None:
    await collector.send(report("rack/7"))
    status, node = await collector.ask("/v1/nodes/rack%2F7")
    assert (status, node["name"]) == (200, "rack/7")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/nodes/none",
        "/v1/nodes/none/history",
        "/v1/containers/none",
        "/v1/containers/none/history",
        "/v1/services/none",
        "/v1/services/none/history",
    ],
)
async def test_unknown_name_is_a_404_with_a_hint(collector: Client, path: str) -> None:
    status, problem = await collector.ask(path)
    assert status == 404
    assert "; GET /v1/" in problem["detail"]


async def test_history_has_a_point_per_step(collector: Client) -> None:
    await collector.send(
        report(at=START - 60, containers=[container()]), report(sequence=2, containers=[container()])
    )
    for path in ("/v1/nodes/alpha/history", "/v1/containers/id-of-web/history"):
        status, series = await collector.ask(f"{path}?start={START - 120}&end={START}&step_seconds=30")
        assert (status, series["step_seconds"]) == (200, 30)
        assert {point["at"] for point in series["points"]} == {START - 60, START - 30}


@pytest.mark.parametrize(
    "query",
    ["start=5&end=5", "start=9&end=5", "start=0&end=1e9", "start=nan", "start=-1", "end=inf", "end=1e300"],
)
async def test_invalid_period_is_an_error(collector: Client, query: str) -> None:
    await collector.send(report())
    for path in ("/v1/nodes/alpha/history", "/v1/energy"):
        status, problem = await collector.ask(f"{path}?{query}")
        assert status == 400
        assert problem["field"] in {"start", "end"}


async def test_energy_is_grouped(collector: Client) -> None:
    for sequence, at, joules in ((1, START - 600, 1000.0), (2, START, 7000.0)):
        power = NodePower(50.0, 30.0, 5.0, PowerSource.RAPL, 0.03, joules)
        await collector.send(report(sequence=sequence, at=at, power=power, containers=[container()]))
    for by in ("node", "container", "service", "day", "label:tier"):
        status, energy = await collector.ask(f"/v1/energy?by={by}")
        assert (status, energy["by"], energy["end"]) == (200, by, START)
    status, problem = await collector.ask("/v1/energy?by=planet")
    assert (status, problem["field"]) == (400, "by")


async def test_envelopes_have_percentiles(collector: Client) -> None:
    usage = ContainerUsage("id-of-web", cpu=Sketch({3: 5}, zeros=2))
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(usage,))
    await collector.send(
        partial_report(state=report().state, containers=(container(), container("db")), heartbeat=heartbeat)
    )
    _, answer = await collector.ask("/v1/envelopes?node=alpha")
    db, web = answer["envelopes"]
    assert (db["samples"], db["envelope"]["p50"]) == (0, {})
    assert web["samples"] == 7
    assert web["envelope"]["p99"] == web["envelope"]["max"]
    assert "memory_bytes" not in web["envelope"]["max"]
    status, refused = await collector.ask("/v1/envelopes?of=service&node=alpha")
    assert (status, refused["field"]) == (400, "node")


async def test_events_are_paged_from_the_latest(collector: Client) -> None:
    events = tuple(
        Event(EventKind.STARTED, START - number, container=f"c{number}") for number in (0, 1, 1, 2)
    )
    await collector.send(report(), partial_report(sequence=2, events=events))
    listed: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        _, page = await collector.ask("/v1/events?limit=1" + (f"&cursor={cursor}" if cursor else ""))
        listed += page["events"]
        cursor = page["next"]
    assert listed == await collector.events()
    assert len(listed) == len(events)


async def test_cluster_totals(collector: Client) -> None:
    await collector.send(report("alpha", containers=[container()]), report("beta", power=None))
    collector.clock.now += 3600
    await collector.send(report("alpha", sequence=2, containers=[container()]))
    _, cluster = await collector.ask("/v1/cluster")
    assert cluster["nodes"] == {"up": 1, "suspect": 0, "down": 1}
    assert cluster["power"] == {
        "watts": 50.0,
        "error_watts": 1.5,
        "idle_watts": 30.0,
        "system_watts": 5.0,
        "scope": "machine",
        "nodes": 1,
    }
    assert (cluster["containers"], cluster["cpu_cores"], cluster["problems"]) == (1, 4.0, [])


async def test_stream_sends_changes_and_resumes(collector: Client) -> None:
    url = collector.url + "/v1/stream"
    async with collector.http.get(url) as stream:
        assert stream.content_type == "text/event-stream"
        assert await stream.content.readline() == b": connected\n"
        await collector.send(
            report("alpha"), partial_report(sequence=2, events=(Event(EventKind.JOINED, START),))
        )
        first = await _message(stream.content)
    assert (first["event"], b'"joined"' in first["data"].encode()) == ("event", True)
    # The state of the node follows within a second.
    async with collector.http.get(url, headers={"Last-Event-ID": first["id"]}) as again:
        await again.content.readline()
        following = await _message(again.content)
    assert (following["event"], following["id"] > first["id"]) == ("node", True)
    async with collector.http.get(url, headers={"Last-Event-ID": "another-7"}) as late:
        await late.content.readline()
        assert (await _message(late.content))["event"] == "missed"


async def _message(content: aiohttp.StreamReader) -> dict[str, str]:
    fields: dict[str, str] = {}
    async with asyncio.timeout(10):
        while True:
            line = (await content.readline()).decode().rstrip("\n")
            if not line and fields:
                return fields
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
