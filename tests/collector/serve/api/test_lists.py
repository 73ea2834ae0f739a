"""Filters, single things and what is added up, asked of a running collector."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.history.interface import Mean, Subject
from collector.main import running
from collector.serve.api.alerts import AlertsQuery, alerts
from collector.serve.api.containers import ContainersQuery, containers
from collector.serve.api.nodes import NodesQuery, nodes
from collector.serve.api.services import ServicesQuery, services
from tests.collector.builders import (
    HEARTBEAT,
    START,
    Client,
    Clock,
    apply_report,
    container,
    partial_report,
    report,
    settings,
)
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Event,
    EventKind,
    NodePower,
    PowerSource,
)
from wire.resources import Quantities, Resource
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


def power(watts: float) -> NodePower:
    return NodePower(watts, 1.0, 1.0, PowerSource.RAPL, 0.03, 1500.0)


async def walk(collector: Client, path: str, key: str) -> list[str]:
    """Names of all entries, two at a time, by cursors; by offsets they are the same."""
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        _, page = await collector.ask(f"{path}&limit=2" + (f"&cursor={cursor}" if cursor else ""))
        names += [each["name"] for each in page[key]]
        cursor = page["next"]
    by_offset = [await found(collector, f"{path}&limit=1&offset={at}", key) for at in range(len(names) + 1)]
    assert [name for part in by_offset for name in part] == names
    return names


async def test_nodes_are_sorted_and_searched(collector: Client) -> None:
    await collector.send(
        report("alpha", power=power(30.0), containers=[container()]),
        report("Beta", power=power(50.0)),
        report("gamma", power=None),
        partial_report("delta"),
    )
    for order, expected in {
        "watts": ["alpha", "Beta", "delta", "gamma"],
        "watts&reverse=true": ["Beta", "alpha", "delta", "gamma"],
        "name": ["Beta", "alpha", "delta", "gamma"],
        "name&reverse=true": ["gamma", "delta", "Beta", "alpha"],
        "containers&reverse=true": ["alpha", "Beta", "delta", "gamma"],
        "cpu": ["Beta", "alpha", "gamma", "delta"],
        "state": ["Beta", "alpha", "delta", "gamma"],
    }.items():
        assert await walk(collector, f"/v1/nodes?order={order}", "nodes") == expected, order
    _, page = await collector.ask("/v1/nodes?search=BET&means=false")
    assert ([each["name"] for each in page["nodes"]], page["matching"]) == (["Beta"], 1)
    assert page["nodes"][0]["mean"] is None
    _, page = await collector.ask("/v1/nodes?limit=1")
    assert page["matching"] == 4


async def test_containers_are_sorted_and_searched(collector: Client) -> None:
    def using(name: str, cores: float | None, service: str | None) -> ContainerState:
        return container(name, used=Quantities(cpu_cores=cores), service=service, image=None)

    await collector.send(
        report("one", containers=[using("web", 2.0, "Shop"), using("Cache", None, None)]),
        report("two", containers=[using("db", 3.0, "data")]),
    )
    for order, expected in {
        "cpu": ["web", "db", "Cache"],
        "cpu&reverse=true": ["db", "web", "Cache"],
        "name": ["Cache", "db", "web"],
        "service": ["db", "web", "Cache"],
        "node&reverse=true&search=a&node=two": ["db"],
    }.items():
        path = f"/v1/containers?order={order}"
        assert await walk(collector, path, "containers") == expected, order
        _, page = await collector.ask(path)
        assert page["matching"] == len(expected)
    assert await found(collector, "/v1/containers?search=SHOP", "containers") == ["web"]
    assert await found(collector, "/v1/containers?search=id-of-c", "containers") == ["Cache"]
    assert await found(collector, "/v1/containers?search=tw", "containers") == ["db"]
    assert await found(collector, "/v1/containers?search=nothing", "containers") == []
    assert await found(collector, "/v1/containers?order=cpu&group=none", "containers") == []
    _, page = await collector.ask("/v1/containers?means=false")
    assert (page["matching"], page["containers"][0]["mean"]) == (None, None)


async def test_the_map_has_every_node_in_columns(collector: Client) -> None:
    await collector.send(report("alpha", power=power(30.0)))
    collector.clock.now += 20
    await collector.send(report("beta", power=None), partial_report("gamma"))
    _, cluster = await collector.ask("/v1/cluster/map")
    assert cluster == {
        "at": collector.clock.now,
        "names": ["alpha", "beta", "gamma"],
        "states": ["suspect", "up", "up"],
        "watts": [30.0, None, None],
        "used_ratios": {
            "cpu": [0.25, 0.25, None],
            "memory": [0.25, 0.25, None],
            "disk": [None, None, None],
            "network": [pytest.approx(0.000032), pytest.approx(0.000032), None],
        },
    }


async def test_alerts_are_listed_by_severity() -> None:
    clock = Clock()
    async with running(settings(), clock=clock) as collector:
        core = collector.core
        apply_report(core.registry, report("quiet", containers=[container()]), clock.now)
        clock.now += 300
        apply_report(core.registry, report("short", at=clock.now), clock.now)
        short = Alert(Resource.CPU, clock.now, "busy")
        core.registry.apply(partial_report("short", sequence=2, at=clock.now, alerts=(short,)), clock.now)
        await collector.analysis.detect()
        cursor, subjects = None, []
        for _ in range(2):
            page = await alerts(core, AlertsQuery(order="severity", limit=1, cursor=cursor))
            subjects += [each.subject for each in page.alerts]
            cursor = page.next
        assert (subjects, cursor) == (["quiet", "short"], None)
        assert [each.subject for each in (await alerts(core, AlertsQuery())).alerts] == ["short", "quiet"]
        [about] = (await alerts(core, AlertsQuery(subject="quiet"))).alerts
        assert about.kind == "quiet"


async def test_services_are_sorted_and_searched() -> None:
    clock = Clock()
    async with running(settings(), clock=clock) as collector:
        core = collector.core
        listed = [
            container("a", service="Big", power=ContainerPower(9.0, PowerSource.MODEL, 0.1, 1.0)),
            container("b", service="low", power=ContainerPower(1.0, PowerSource.MODEL, 0.1, 1.0)),
            container("c", service="low", image="other", power=None),
            container("d", service="none", power=None),
        ]
        apply_report(core.registry, report(containers=listed), clock.now)
        await collector.analysis.analyse()
        for query, expected in {
            ServicesQuery(order="watts", reverse=True): ["Big", "low", "none"],
            ServicesQuery(order="watts"): ["low", "Big", "none"],
            ServicesQuery(order="containers", reverse=True): ["low", "Big", "none"],
            ServicesQuery(order="name", reverse=True): ["none", "low", "Big"],
            ServicesQuery(): ["Big", "low", "none"],
            ServicesQuery(search="BI"): ["Big"],
            ServicesQuery(order="cpu", search="zzz"): [],
        }.items():
            page = await services(core, query)
            assert ([each.name for each in page.services], page.matching) == (expected, len(expected)), query
        second = await services(core, ServicesQuery(order="watts", reverse=True, offset=1, limit=1))
        assert ([each.name for each in second.services], second.matching) == (["low"], 3)


async def test_services_have_no_power_on_nodes_that_are_down() -> None:
    clock = Clock()
    async with running(settings(), clock=clock) as collector:
        core = collector.core
        power = ContainerPower(9.0, PowerSource.MODEL, 0.1, 1.0)
        for node in ("silent", "busy"):
            apply_report(
                core.registry,
                report(node, containers=[container("a", service="web", power=power)]),
                clock.now,
            )
        await collector.analysis.analyse()
        [before] = (await services(core, ServicesQuery())).services
        clock.now += 300
        again = report(
            "busy", sequence=2, at=clock.now, containers=[container("a", service="web", power=power)]
        )
        apply_report(core.registry, again, clock.now)
        [after] = (await services(core, ServicesQuery())).services
        assert (before.watts, after.watts) == (18.0, 9.0)


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


async def test_one_entry_is_found_by_its_name_or_id(collector: Client) -> None:
    await collector.send(report("alpha", containers=[container("web"), container("db")]), report("rack/7"))
    assert await found(collector, "/v1/nodes?name=rack/7", "nodes") == ["rack/7"]
    assert await found(collector, "/v1/containers?id=id-of-web", "containers") == ["web"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/nodes?name=none",
        "/v1/history?node=none",
        "/v1/containers?id=none",
        "/v1/history?container=none",
        "/v1/services?name=none",
        "/v1/history?service=none",
    ],
)
async def test_unknown_name_is_a_404_with_a_hint(collector: Client, path: str) -> None:
    status, problem = await collector.ask(path)
    assert status == 404
    assert "GET /v1/" in problem["detail"]


async def test_history_has_a_point_per_step(collector: Client) -> None:
    await collector.send(
        report(at=START - 60, containers=[container()]), report(sequence=2, containers=[container()])
    )
    for subject in ("node=alpha", "container=id-of-web"):
        status, series = await collector.ask(
            f"/v1/history?{subject}&start={START - 120}&end={START}&step_seconds=30"
        )
        assert (status, series["step_seconds"]) == (200, 30)
        assert {point["at"] for point in series["points"]} == {START - 60, START - 30}
    for subject in ("", "node=alpha&service=web"):
        assert (await collector.ask(f"/v1/history?{subject}"))[0] == 400


@pytest.mark.parametrize(
    "query",
    ["start=5&end=5", "start=9&end=5", "start=0&end=1e9", "start=nan", "start=-1", "end=inf", "end=1e300"],
)
async def test_invalid_period_is_an_error(collector: Client, query: str) -> None:
    await collector.send(report())
    for path in ("/v1/history?node=alpha", "/v1/energy?by=node"):
        status, problem = await collector.ask(f"{path}&{query}")
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
    db, web = await collector.containers()
    assert (db["samples"], db["envelope"]["p50"]) == (0, {})
    assert web["samples"] == 7
    assert web["envelope"]["p99"] == web["envelope"]["max"]
    assert "memory_bytes" not in web["envelope"]["max"]


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
        "containers_watts": 15.0,
        "at": collector.clock.now,
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


async def test_what_ends_while_the_history_is_read_is_still_on_its_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    async with running(settings(), clock=clock) as collector:
        core = collector.core
        apply_report(core.registry, report("alpha", containers=[container("a"), container("b")]), clock.now)

        async def means(*_: object) -> dict[Subject, Mean]:
            core.registry.drop_old(clock.now + 30 * 86_400)
            return {}

        monkeypatch.setattr(core.history, "means", means)
        found = await containers(core, ContainersQuery())
        assert [each.name for each in found.containers] == ["a", "b"]
        apply_report(core.registry, report("alpha"), clock.now)
        assert [each.name for each in (await nodes(core, NodesQuery())).nodes] == ["alpha"]
        assert (await nodes(core, NodesQuery())).nodes == []
