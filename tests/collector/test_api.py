import json
from http import HTTPStatus

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from collector.api import ROUTES
from collector.reference import api_markdown
from tests.collector.making import START, Client, container, report
from wire.messages import encode


async def test_a_node_is_shown_with_what_it_said(collector: Client) -> None:
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
    }
    assert node["gaps"] == [{"what": "names", "why": "the engine's socket is not there"}]
    assert node["containers"] == 1


async def test_what_is_not_known_is_absent_or_null_never_zero(collector: Client) -> None:
    await collector.send(report(power=None, containers=[container(power=None, image=None)]))
    (node,) = await collector.nodes()
    (one,) = await collector.containers()
    assert (node["power"], one["power"], one["image"]) == (None, None, None)
    assert (node["mean"]["watts"], one["mean"]["watts"]) == (None, None)
    assert "disk_bytes_per_second" not in node["capacity"]


async def test_containers_can_be_asked_for_by_node_and_by_name(collector: Client) -> None:
    for node in ("alpha", "beta"):
        await collector.send(report(node, containers=[container("web"), container("db")]))

    async def found(query: str) -> list[tuple[str, str]]:
        return [(each["node"], each["name"]) for each in await collector.containers(query)]

    assert await found("") == [("alpha", "db"), ("beta", "db"), ("alpha", "web"), ("beta", "web")]
    assert await found("?node=beta") == [("beta", "db"), ("beta", "web")]
    assert await found("?name=web&node=alpha") == [("alpha", "web")]
    assert await found("?name=we") == []
    assert await found("?node=none") == []


async def test_mean_cpu_comes_from_the_counter_so_that_a_lost_sample_does_not_matter(
    collector: Client,
) -> None:
    for number in (0, 1, 2, 6, 7):  # three reports never arrived
        collector.clock.now = START + 3 * number
        burning = container(cpu_seconds_total=10 + 1.5 * number, used=container().used)
        await collector.send(report(sequence=number + 1, at=START + 3 * number, containers=[burning]))
    (one,) = await collector.containers()
    assert one["mean"] == {
        "samples": 5,
        "seconds": 21.0,
        "cpu_cores": 0.5,
        "memory_bytes": 50_000_000,
        "watts": 2.5,
    }


async def test_the_window_is_the_one_asked_for(collector: Client) -> None:
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
    assert (node["mean"]["samples"], node["mean"]["watts"]) == (5, 50.0)


async def test_a_counter_that_starts_anew_makes_no_spike(collector: Client) -> None:
    for number, total in enumerate([1000.0, 1003.0, 0.0, 3.0]):
        collector.clock.now = START + 3 * number
        await collector.send(
            report(
                sequence=number + 1, at=START + 3 * number, containers=[container(cpu_seconds_total=total)]
            )
        )
    (one,) = await collector.containers()
    assert one["mean"]["cpu_cores"] == pytest.approx(1.0)


async def test_a_backlog_delivered_at_once_is_not_averaged_into_the_present(collector: Client) -> None:
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


async def test_a_node_long_silent_has_no_mean(collector: Client) -> None:
    await collector.send(report(containers=[container()]))
    collector.clock.now += 100
    assert [(each["node_state"], each["mean"]) for each in await collector.containers()] == [("silent", None)]
    assert [(each["state"], each["mean"]) for each in await collector.nodes()] == [("silent", None)]


@pytest.mark.parametrize(
    ("path", "field", "hint"),
    [
        ("/v1/containers?nod=a", "nod", "did you mean node?"),
        ("/v1/containers?window=5", "window", "did you mean window_seconds?"),
        ("/v1/nodes?node=a", "node", "there is window_seconds"),
        ("/healthz?verbose=1", "verbose", "there is none here"),
        ("/v1/containers?node=a&node=b", "node", "more than once"),
        ("/v1/nodes?window_seconds=soon", "window_seconds", "expected `float`"),
        ("/v1/nodes?window_seconds=0", "window_seconds", "> 0"),
        ("/v1/nodes?window_seconds=nan", "window_seconds", ""),
        ("/v1/nodes?window_seconds=1e9", "window_seconds", "<= 3600"),
    ],
)
async def test_a_wrong_parameter_is_named(collector: Client, path: str, field: str, hint: str) -> None:
    status, said = await collector.ask(path)
    assert (status, said["field"]) == (400, field)
    assert hint in said["detail"]


async def test_health_and_readiness(collector: Client) -> None:
    assert await collector.ask("/healthz") == (200, {"status": "alive", "version": "0.1.0"})
    assert await collector.ask("/readyz") == (200, {"status": "ready", "version": "0.1.0"})


async def test_the_description_is_valid_and_every_route_answers_as_it_says(collector: Client) -> None:
    await collector.send(report(containers=[container()]), report("bare", power=None))
    _, document = await collector.ask("/openapi.json")
    validate(document)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    for method, path in described:
        body = encode([report(sequence=2)]) if method == "POST" else None
        headers = {"Content-Type": "application/json"} if body else {}
        async with collector.http.request(method, collector.url + path, data=body, headers=headers) as answer:
            assert answer.status == HTTPStatus.OK
            content = document["paths"][path][method.lower()]["responses"]["200"]["content"]
            assert answer.content_type in content
            if answer.content_type == "application/json":
                schema = content["application/json"]["schema"] | {"components": document["components"]}
                OAS31Validator(schema).validate(json.loads(await answer.read()))


async def test_refusals_answer_as_described(collector: Client) -> None:
    _, document = await collector.ask("/openapi.json")
    schema = {"$ref": "#/components/schemas/Problem", "components": document["components"]}
    for route in ROUTES:
        async with collector.http.request(
            route.method, collector.url + route.path + "?surprise=1", headers={"Host": "evil.example"}
        ) as answer:
            assert answer.status == HTTPStatus.FORBIDDEN
            assert HTTPStatus.FORBIDDEN in route.answers
            assert answer.content_type == "application/problem+json"
            OAS31Validator(schema).validate(json.loads(await answer.read()))


def test_the_reference_names_every_route_parameter_and_type() -> None:
    text = api_markdown()
    for route in ROUTES:
        assert f"## `{route.method} {route.path}`" in text
        for parameter in route.query.__struct_fields__:
            assert f"| `{parameter}` |" in text
    for name in ("Report", "Receipt", "Node", "Container", "Mean", "Problem", "Quantities"):
        assert f"### {name}\n" in text
