"""Promises, asked of a running collector."""

from typing import Any

import pytest

from tests.collector.builders import START, Client, container, report
from tests.collector.features.promises.tracking.builders import promised
from tests.collector.serve.api.test_metrics import scraped


async def slo(collector: Client, query: str = "") -> dict[str, Any]:
    status, answer = await collector.ask(f"/v1/slo{query}")
    assert status == 200, answer
    return dict(answer)


async def run_two_services(collector: Client) -> None:
    """`shop` runs for 900 s and then waits for 50 s; `store` runs, and `free` has no promise."""
    both = [
        promised("shop", "shop", started_at=START),
        promised("store", "store", started_at=START, labels={"wattpack.slo": "bronze"}),
        container("free", service="free"),
    ]
    await collector.send(report(at=START, containers=both))
    for sequence in range(2, 92):
        collector.clock.now += 10
        await collector.send(report(sequence=sequence, at=collector.clock.now, containers=both))
    collector.clock.now += 10
    await collector.send(report(sequence=92, at=collector.clock.now, containers=both[1:]))
    collector.clock.now += 40


@pytest.mark.slow
async def test_promises_are_listed_by_urgency(collector: Client) -> None:
    assert await slo(collector) | {"at": 0} == {
        "at": 0,
        "classes": [
            {
                "name": name,
                "target_ratio": target,
                "importance": importance,
                "services": 0,
                "met_ratio": None,
                "mean_availability_ratio": None,
                "min_availability_ratio": None,
                "gini": None,
                "penalty_seconds": 0.0,
            }
            for name, target, importance in (("gold", 1.0, 1), ("silver", 0.9, 2), ("bronze", 0.5, 3))
        ],
        "slo": [],
        "next": None,
    }
    await run_two_services(collector)
    answer = await slo(collector)
    shop, store = answer["slo"]
    assert (shop["service"], shop["slo_class"], shop["mode"]) == ("shop", "silver", "independent")
    assert shop["state"] == "at risk"
    assert shop["target_ratio"] == 0.9
    assert shop["availability_ratio"] == pytest.approx(0.95, abs=0.02)
    assert 0 < shop["breaks_in_seconds"] < 100
    assert (shop["instances"], shop["running_instances"]) == (1, 0)
    assert (store["service"], store["state"]) == ("store", "kept")
    assert store["breaks_in_seconds"] is None
    assert store["time_to_violation_seconds"] == pytest.approx(950, abs=30)
    assert [each["services"] for each in answer["classes"]] == [0, 1, 1]
    assert answer["classes"][1]["met_ratio"] == 1


@pytest.mark.slow
async def test_promises_are_filtered_and_paged(collector: Client) -> None:
    await run_two_services(collector)
    for query, names in (
        ("?slo_class=bronze", ["store"]),
        ("?state=kept", ["store"]),
        ("?state=broken", []),
        ("?service=shop", ["shop"]),
    ):
        assert [each["service"] for each in (await slo(collector, query))["slo"]] == names
    first = await slo(collector, "?limit=1")
    second = await slo(collector, f"?limit=1&cursor={first['next']}")
    assert [each["service"] for page in (first, second) for each in page["slo"]] == ["shop", "store"]
    assert second["next"] is None


@pytest.mark.slow
async def test_a_promise_that_was_not_kept_has_a_deficit_and_a_penalty(collector: Client) -> None:
    await run_two_services(collector)
    collector.clock.now += 200
    (shop,) = (await slo(collector, "?state=broken"))["slo"]
    assert shop["deficit_seconds"] > 100
    assert shop["time_to_violation_seconds"] < -100
    assert shop["penalty_seconds"] > 0


@pytest.mark.slow
async def test_metrics_have_a_series_per_promise(collector: Client) -> None:
    await run_two_services(collector)
    values = {
        line.partition(" ")[0]: float(line.partition(" ")[2])
        for line in (await scraped(collector)).splitlines()
        if line.startswith("wattpack_slo_")
    }
    shop = '{class="silver",service="shop"}'
    assert values[f"wattpack_slo_target_ratio{shop}"] == 0.9
    assert values[f"wattpack_slo_availability_ratio{shop}"] == pytest.approx(0.95, abs=0.02)
    assert 0 < values[f"wattpack_slo_time_to_violation_seconds{shop}"] < 100
    assert values[f"wattpack_slo_preemption_overhead_ratio{shop}"] == 0
    assert len(values) == 8
