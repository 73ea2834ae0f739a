import json

import pytest

from tests.collector.builders import Client, collecting, settings
from tests.collector.features.elastic.test_routes import SERVICE, elastic, run_service
from tests.wattpack.commands.test_hint import complained, printed
from wattpack.commands.services import format_elastic

__all__ = ["elastic"]


async def test_elastic_services_are_shown_as_a_table(
    elastic: Client,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await run_service(elastic)
    header, row = (await printed(elastic, capsys, "services", "elastic")).splitlines()
    assert header.split()[:4] == ["SERVICE", "POLICY", "METRIC", "BOUND"]
    assert row.split()[:2] == [SERVICE, "threshold"]
    assert "200 ms" in row
    assert "1-10" in row


async def test_one_service_is_shown_with_the_reasons_of_its_last_change(
    elastic: Client,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await run_service(elastic)
    text = await printed(elastic, capsys, "services", "elastic", SERVICE)
    assert text.startswith(f"{SERVICE}: 1 replica, policy threshold\n")
    assert "of at most 200 ms, by probe (20 requests, 2 failed)" in text
    assert f"last change: scale {SERVICE} from 1 to " in text
    found = json.loads(await printed(elastic, capsys, "services", "elastic", SERVICE, "--json"))
    assert found["service"] == SERVICE
    assert "is not elastic" in await complained(elastic, capsys, "services", "elastic", "other")


async def test_without_elastic_services_it_says_how_to_have_one(capsys: pytest.CaptureFixture[str]) -> None:
    async with collecting(settings()) as client:
        assert (await printed(client, capsys, "services", "elastic")).startswith(
            "No service is elastic: add [elastic.NAME]"
        )


def test_a_service_is_described_before_its_first_decision() -> None:
    target = {
        "metric_max": 100.0,
        "replicas_min": 1,
        "replicas_max": 3,
        "cpu_min_cores": 0.1,
        "cpu_max_cores": 1.0,
        "cpu_step_cores": 0.1,
        "cool_down_seconds": 60.0,
        "policy": "model-based",
        "query": "up",
    }
    status = {
        "service": "web",
        "target": target,
        "observed": {"used_core_watts": 12.34},
        "decided_at": None,
        "change": None,
        "problem": "the query has no result",
    }
    lines = list(format_elastic(status))
    assert "  metric:   unknown of at most 100.00, by query" in lines
    assert "  power:    12.3 W per core in use on its nodes" in lines
    assert "  problem:  the query has no result" in lines
    assert any("CPU limit 0.1 to 1 cores in steps of 0.1" in line for line in lines)
