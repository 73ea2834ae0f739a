"""Elastic services, asked of a running collector without an orchestrator."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from collector.config import ControlConfig
from collector.features.elastic.scaling.interface import Target
from tests.collector.builders import START, Client, collecting, container, report, settings
from tests.collector.serve.api.test_metrics import scraped
from wire.messages import ContainerProbe
from wire.resources import Quantities
from wire.sketch import Sketch

SERVICE = "shop/web"


@pytest.fixture
async def elastic() -> AsyncIterator[Client]:
    config = msgspec.structs.replace(
        settings(),
        elastic={SERVICE: Target(metric_max=0.2, policy="threshold", decide_seconds=60.0)},
        control=ControlConfig(check_seconds=0.1),
    )
    async with collecting(config) as client:
        yield client


async def run_service(client: Client) -> dict[str, Any]:
    """One container that is as busy as it may be, and slow; return its state once it was decided about."""
    times = Sketch()
    for _ in range(20):
        times.add(0.8)
    busy = container("web.1", service=SERVICE, limit=Quantities(0.5, None), used=Quantities(0.5, 1 << 20))
    probes = (ContainerProbe(container=busy.id, seconds=times, failed=2),)
    await client.send(msgspec.structs.replace(report(at=START, containers=[busy]), probes=probes))
    async with asyncio.timeout(20):
        while True:
            status, answer = await client.ask("/v1/elastic")
            assert status == 200
            if answer["elastic"] and answer["elastic"][0]["change"]:
                return dict(answer)
            client.clock.now += 0.2
            await asyncio.sleep(0.05)


async def test_elastic_services_are_listed_with_their_last_decision(elastic: Client) -> None:
    assert (await elastic.ask("/v1/elastic"))[1]["elastic"] == []
    answer = await run_service(elastic)
    [status] = answer["elastic"]
    assert (status["service"], status["target"]["policy"]) == (SERVICE, "threshold")
    observed = status["observed"]
    assert observed["metric"] == pytest.approx(0.8, rel=0.02)
    assert (observed["requests"], observed["failed"], observed["replicas"]) == (20, 2, 1)
    assert status["wanted_replicas"] > 1
    assert status["change"].startswith(f"scale {SERVICE} from 1 to ")
    decisions = (await elastic.ask("/v1/decisions?trigger=elastic"))[1]["decisions"]
    assert [each["outcome"] for each in decisions] == ["dry"]
    assert decisions[0]["id"] == status["decision"]


async def test_a_decision_about_a_size_is_not_replayed(elastic: Client) -> None:
    answer = await run_service(elastic)
    status, problem = await elastic.ask(f"/v1/decisions/replay?id={answer['elastic'][0]['decision']}")
    assert (status, problem["field"]) == (409, "id")


async def test_metrics_of_elastic_services(elastic: Client) -> None:
    await run_service(elastic)
    lines = (await scraped(elastic)).splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("wattpack_elastic_"))
    labels = f'{{service="{SERVICE}"}}'
    assert float(found[f"wattpack_elastic_metric{labels}"]) == pytest.approx(0.8, rel=0.02)
    assert float(found[f"wattpack_elastic_metric_max{labels}"]) == 0.2
    assert float(found[f"wattpack_elastic_replicas{labels}"]) == 1
    assert float(found[f"wattpack_elastic_cpu_limit_cores{labels}"]) == 0.5
    assert any(name.startswith("wattpack_elastic_decisions_total{") for name in found)
