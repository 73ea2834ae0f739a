import json
from http import HTTPStatus

import msgspec
import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from collector.serve.api.table import ROUTES
from tests.collector.builders import CURVE, HEARTBEAT, START, Client, container, partial_report, report, state
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerUsage,
    Event,
    EventKind,
    PowerSource,
    encode,
)
from wire.resources import Quantities, Resource
from wire.sketch import Sketch


async def test_node_has_its_reported_values(collector: Client) -> None:
    await collector.send(report(containers=[container()]))
    collector.clock.now += 2
    (node,) = await collector.nodes()
    assert node["name"] == "alpha"
    assert (node["state"], node["last_seen_seconds_ago"]) == ("up", 2.0)
    assert node["capacity"] == {
        "cpu_cores": 4.0,
        "memory_bytes": 8_000_000_000,
        "network_bytes_per_second": 125_000_000.0,
    }
    assert node["power"] == {
        "watts": 50.0,
        "idle_watts": 30.0,
        "system_watts": 5.0,
        "source": "rapl",
        "error_ratio": 0.03,
        "joules_total": 1500.0,
        "scope": "machine",
        "source_scope": "machine",
    }
    assert node["gaps"] == [{"what": "names", "why": "the engine's socket is not there"}]
    assert node["containers"] == 1


async def test_unknown_values_are_omitted_or_null_never_zero(collector: Client) -> None:
    await collector.send(report(power=None, containers=[container(power=None, image=None)]))
    (node,) = await collector.nodes()
    (one,) = await collector.containers()
    assert (node["power"], one["power"], one["image"]) == (None, None, None)
    assert (node["mean"]["watts"], one["mean"]["watts"]) == (None, None)
    assert "disk_bytes_per_second" not in node["capacity"]


async def test_containers_are_filtered_by_node_and_name(collector: Client) -> None:
    for node in ("alpha", "beta"):
        await collector.send(report(node, containers=[container("web"), container("db")]))

    async def found(query: str) -> list[tuple[str, str]]:
        return [(each["node"], each["name"]) for each in await collector.containers(query)]

    assert await found("") == [("alpha", "db"), ("alpha", "web"), ("beta", "db"), ("beta", "web")]
    assert await found("?node=beta") == [("beta", "db"), ("beta", "web")]
    assert await found("?name=web&node=alpha") == [("alpha", "web")]
    assert await found("?name=we") == []
    assert await found("?node=none") == []


async def test_mean_cpu_comes_from_the_counter_despite_lost_samples(
    collector: Client,
) -> None:
    for number in (0, 1, 2, 6, 7):  # three reports never arrived
        collector.clock.now = START + 3 * number
        power = ContainerPower(2.5, PowerSource.MODEL, 0.2, 7.5 * number)
        burning = container(cpu_seconds_total=10 + 1.5 * number, power=power)
        await collector.send(report(sequence=number + 1, at=START + 3 * number, containers=[burning]))
    (one,) = await collector.containers()
    assert one["mean"] == {
        "samples": 5,
        "seconds": 21.0,
        "cpu_cores": 0.5,
        "memory_bytes": 50_000_000,
        "watts": 2.5,
    }


async def test_mean_covers_the_requested_window(collector: Client) -> None:
    for number in range(20):
        collector.clock.now = START + 3 * number
        busy = number >= 15
        one = container(
            cpu_seconds_total=max(0.0, 3.0 * (number - 14)) if busy else 0.0,
            power=None,
        )
        await collector.send(report(sequence=number + 1, at=START + 3 * number, containers=[one]))
    (short,) = await collector.containers("?window_seconds=12")
    (long,) = await collector.containers("?window_seconds=57")
    assert short["mean"]["cpu_cores"] == pytest.approx(1.0)
    assert (short["mean"]["samples"], short["mean"]["seconds"]) == (5, 12.0)
    assert long["mean"]["cpu_cores"] == pytest.approx(15 / 57)
    (node,) = await collector.nodes("?window_seconds=12")
    assert (node["mean"]["samples"], node["mean"]["cpu_cores"]) == (5, 1.0)


async def test_counter_reset_makes_no_spike(collector: Client) -> None:
    for number, total in enumerate([1000.0, 1003.0, 0.0, 3.0]):
        collector.clock.now = START + 3 * number
        await collector.send(
            report(
                sequence=number + 1, at=START + 3 * number, containers=[container(cpu_seconds_total=total)]
            )
        )
    (one,) = await collector.containers()
    # Two steps of one core by the counter; for the one between, what was problem: a quarter.
    assert one["mean"]["cpu_cores"] == pytest.approx(0.75)


async def test_backlog_is_not_part_of_the_current_mean(collector: Client) -> None:
    backlog = [
        report(
            sequence=number + 1,
            at=START - 300 + 3 * number,
            containers=[container(cpu_seconds_total=3.0 * max(0, number - 90))],
        )
        for number in range(100)
    ]
    await collector.send(*backlog)
    (one,) = await collector.containers("?window_seconds=27")
    assert (one["mean"]["seconds"], one["mean"]["cpu_cores"]) == (27.0, pytest.approx(1.0))


async def test_nodes_are_sorted_by_name_or_registry_order(collector: Client) -> None:
    for name, cores in {"a": 0.1, "b": 3.0, "c": 1.9, "d": 3.9, "e": 3.5}.items():
        await collector.send(report(name, used=Quantities(cores, 0)))
    assert [node["name"] for node in await collector.nodes()] == ["a", "b", "c", "d", "e"]
    listed = await collector.nodes("?order=registry")
    assert [(node["name"], node["placement"]["region"]) for node in listed] == [
        ("c", "LEE"),
        ("a", "LEE"),
        ("b", "DEE"),
        ("e", "EED"),
        ("d", "EED"),
    ]


async def test_down_node_has_no_mean(collector: Client) -> None:
    await collector.send(report(containers=[container()]))
    collector.clock.now += 100
    assert [(each["node_state"], each["mean"]) for each in await collector.containers()] == [("down", None)]
    assert [(each["state"], each["mean"]) for each in await collector.nodes()] == [("down", None)]


async def test_reported_values_hold_until_the_next_report(collector: Client) -> None:
    await collector.send(report(containers=[container("still"), container("moves")]))
    moved = container("moves", used=Quantities(memory_bytes=150_000_000), cpu_seconds_total=60.0)
    await collector.send(
        partial_report(sequence=2, at=START + 100, containers=(moved,)),
        partial_report(sequence=3, at=START + 130, state=state(used=Quantities(cpu_cores=3.0))),
        partial_report(sequence=4, at=START + 200),
    )
    (node,) = await collector.nodes("?window_seconds=100")
    moves, still = await collector.containers("?window_seconds=200")
    assert (node["sampled_at"], node["mean"]["seconds"]) == (START + 130, 100.0)
    assert node["mean"]["cpu_cores"] == pytest.approx(0.3 * 1.0 + 0.7 * 3.0)
    assert (still["sampled_at"], still["mean"]["samples"], still["mean"]["memory_bytes"]) == (
        START,
        1,
        50_000_000,
    )
    assert (moves["sampled_at"], moves["mean"]["samples"]) == (START + 100, 2)
    assert moves["mean"]["memory_bytes"] == 100_000_000
    assert moves["mean"]["cpu_cores"] == pytest.approx(0.5)


async def test_container_has_labels_counters_and_p90(collector: Client) -> None:
    sketch = Sketch()
    for number in range(1, 101):
        sketch.add(number / 100)
    one = container(
        labels={"tier": "front"},
        restarts=3,
        oom_kills_total=2,
        cpu_throttled_seconds_total=1.5,
        window_seconds=45.0,
    )
    heartbeat = msgspec.structs.replace(
        HEARTBEAT, usage=(ContainerUsage(one.id, cpu=sketch),), top={Resource.CPU: (one.id,)}
    )
    await collector.send(
        partial_report(
            state=state(learned_capacities=(Resource.DISK,)), containers=(one,), heartbeat=heartbeat
        )
    )
    (shown,) = await collector.containers()
    assert (shown["labels"], shown["restarts"], shown["oom_kills_total"]) == ({"tier": "front"}, 3, 2)
    assert (shown["cpu_throttled_seconds_total"], shown["window_seconds"]) == (1.5, 45.0)
    assert shown["reservation"] == {"cpu_cores": 1.0, "memory_bytes": 100_000_000}
    assert (shown["envelope"]["p90"], shown["samples"]) == ({"cpu_cores": pytest.approx(0.9, rel=0.01)}, 100)
    (node,) = await collector.nodes()
    assert (node["learned_capacities"], node["top"]) == (["disk"], {"cpu": [one.id]})
    assert (node["agent_version"], node["beacon_seconds"], node["complete"]) == ("0.1.0", 5.0, True)


async def test_open_alerts_come_first(collector: Client) -> None:
    over = Alert(Resource.DISK, START - 30, "disk at 95 %", closed_at=START - 9)
    lasting = Alert(Resource.CPU, START - 60, "CPU at 97 %", ratio=0.97, container="id-of-web", name="web")
    await collector.send(report(), partial_report(sequence=2, alerts=(over, lasting)))
    everything = await collector.alerts()
    assert [(each["resource"], each["state"]) for each in everything] == [("cpu", "open"), ("disk", "closed")]
    assert everything[0] | {"id": "one"} == {
        "id": "one",
        "kind": "node",
        "subject": "alpha",
        "node": "alpha",
        "node_state": "up",
        "state": "open",
        "resource": "cpu",
        "opened_at": START - 60,
        "closed_at": None,
        "evidence": "CPU at 97 %",
        "ratio": 0.97,
        "pressure_ratio": None,
        "container": "id-of-web",
        "name": "web",
    }
    assert await collector.alerts("?state=open") == everything[:1]
    assert await collector.alerts("?state=closed") == everything[1:]


async def test_latest_events_come_first(collector: Client) -> None:
    joined = Event(EventKind.JOINED, START)
    died = Event(
        EventKind.DIED,
        START + 5,
        "id-of-web",
        "web",
        lifetime_seconds=4.5,
        exit_code=137,
        cpu_seconds_total=1.5,
    )
    await collector.send(
        partial_report(events=(joined, died)),
        partial_report("beta", events=(Event(EventKind.JOINED, START + 1),)),
    )
    everything = await collector.events()
    assert [(each["node"], each["kind"]) for each in everything] == [
        ("alpha", "died"),
        ("beta", "joined"),
        ("alpha", "joined"),
    ]
    assert everything[0] == {
        "node": "alpha",
        "kind": "died",
        "at": START + 5,
        "container": "id-of-web",
        "name": "web",
        "lifetime_seconds": 4.5,
        "startup_seconds": None,
        "exit_code": 137,
        "cpu_seconds_total": 1.5,
        "joules_total": None,
    }
    assert await collector.events("?limit=1") == everything[:1]
    assert await collector.events("?node=beta") == everything[1:2]


@pytest.mark.parametrize(
    ("path", "field", "hint"),
    [
        ("/v1/containers?nod=a", "nod", "did you mean node?"),
        ("/v1/containers?window=5", "window", "did you mean window_seconds?"),
        ("/v1/nodes?zzz=a", "zzz", "valid are limit, cursor, search, reverse, offset, name, state, region"),
        ("/v1/decisions/replay", "id", "is missing"),
        ("/healthz?verbose=1", "verbose", "valid are none"),
        ("/v1/containers?node=a&node=b", "node", "more than once"),
        ("/v1/nodes?task_class=null", "task_class", "omit the parameter"),
        ("/v1/nodes?window_seconds=soon", "window_seconds", "window_seconds must be a number"),
        ("/v1/nodes?window_seconds=0", "window_seconds", "> 0"),
        ("/v1/nodes?window_seconds=nan", "window_seconds", ""),
        ("/v1/nodes?window_seconds=1e9", "window_seconds", "<= 3600"),
        ("/v1/alerts?state=shut", "state", "invalid enum value"),
        ("/v1/events?limit=0", "limit", ">= 1"),
        ("/v1/events?limit=9999", "limit", "<= 1000"),
    ],
)
async def test_invalid_parameter_is_named(collector: Client, path: str, field: str, hint: str) -> None:
    status, problem = await collector.ask(path)
    assert (status, problem["field"]) == (400, field)
    assert hint in problem["detail"]


async def test_health_and_readiness(collector: Client) -> None:
    assert await collector.ask("/healthz") == (200, {"status": "alive", "version": "0.1.0"})
    assert await collector.ask("/readyz") == (200, {"status": "ready", "version": "0.1.0"})


@pytest.mark.slow
async def test_openapi_is_valid_and_routes_conform(collector: Client) -> None:
    telling = msgspec.structs.replace(HEARTBEAT, power_curve=CURVE)
    await collector.send(
        partial_report(state=state(), containers=(container(),), heartbeat=telling),
        partial_report(
            sequence=2, events=(Event(EventKind.JOINED, START),), alerts=(Alert(Resource.CPU, START, "busy"),)
        ),
        report("bare", power=None),
        partial_report("no-state"),
    )
    _, document = await collector.ask("/openapi.json")
    validate(document)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    bodies = {
        "/v1/reports": encode([partial_report(sequence=3)]),
        "/v1/what-if": encode({"envelope": Quantities(cpu_cores=1.0)}),
        "/v1/hints/placement": encode({"demand": Quantities(cpu_cores=1.0)}),
        "/v1/hints/application": encode({"application": "shop", "services": [{"service": "web"}]}),
        "/v1/hints/rebalance": b"{}",
        "/v1/control": b'{"paused": false}',
        "/v1/room": b"{}",
        "/v1/deploy": encode({"services": [{"name": "new", "mode": "global"}], "dry": True}),
        "/v1/kubernetes/filter": b'{"Pod": {}, "NodeNames": ["alpha", "unknown"]}',
        "/v1/kubernetes/prioritize": b'{"Pod": {}, "NodeNames": ["alpha", "unknown"]}',
        "/v1/kubernetes/preempt": b'{"Pod": {}, "NodeNameToMetaVictims": {"alpha": {"Pods": []}}}',
    }
    queries = {"/v1/history": "?node=alpha"}
    described.remove(("GET", "/v1/stream"))  # never ends: see the tests of streams
    described.remove(("DELETE", "/v1/hints/reservations"))  # needs one: see the tests of hints
    described.discard(("POST", "/v1/mesh"))  # needs a mesh: see the tests of the network
    described.remove(("POST", "/v1/join"))  # needs a token: see the tests of joining
    described.remove(("GET", "/page/{version}/{folder}/{file}"))  # see the tests of the page
    described.remove(("GET", "/v1/decisions/replay"))  # needs one: see the tests of acting
    for method, path in sorted(described):
        place = path.format(name="alpha", id="id-of-web")
        url, body = (
            collector.url + place + queries.get(path, ""),
            bodies.get(path) if method == "POST" else None,
        )
        headers = {"Content-Type": "application/json"} if body else {}
        async with collector.http.request(method, url, data=body, headers=headers) as answer:
            assert answer.status == HTTPStatus.OK
            content = document["paths"][path][method.lower()]["responses"]["200"]["content"]
            assert answer.content_type in content
            if answer.content_type == "application/json":
                schema = content["application/json"]["schema"] | {"components": document["components"]}
                OAS31Validator(schema).validate(json.loads(await answer.read()))


async def test_error_responses_conform_to_openapi(collector: Client) -> None:
    _, document = await collector.ask("/openapi.json")
    schema = {"$ref": "#/components/schemas/Problem", "components": document["components"]}
    for route in ROUTES:
        async with collector.http.request(
            route.method, collector.url + route.path + "?surprise=1", headers={"Host": "evil.example"}
        ) as answer:
            assert answer.status == HTTPStatus.FORBIDDEN
            assert HTTPStatus.FORBIDDEN in route.responses
            assert answer.content_type == "application/problem+json"
            OAS31Validator(schema).validate(json.loads(await answer.read()))
