from typing import Any, cast

import pytest

from collector.features.prometheus.series import StoreSeries
from collector.history.interface import SubjectKind
from collector.history.promql import Client, Range
from wire.messages import Pressure

START, STEP = 1_790_000_000.0, 600
BY_METRIC = {
    "wattpack_node_power_watts": {"alpha": 100.0, "beta": 40.0},
    "wattpack_node_power_idle_watts": {"alpha": 60.0, "beta": 10.0},
    "wattpack_node_power_system_watts": {"alpha": 5.0, "beta": 1.0},
}


class Store:
    """Answers every range with constant values, and one that is no number."""

    async def query_range(self, promql: str, start: float, end: float, step: float) -> list[Range]:
        (values,) = (found for metric, found in BY_METRIC.items() if f"{metric}[" in promql)
        times = [start + number * step for number in range(int((end - start) // step) + 1)]
        samples: Any = [(at, "NaN" if at == start else str(0.0)) for at in times]
        return [
            Range({"instance": node}, [(at, text if text == "NaN" else str(value)) for at, text in samples])
            for node, value in values.items()
        ]


async def test_the_power_of_the_cluster_is_the_sum_of_its_nodes_in_the_store() -> None:
    store = StoreSeries(cast("Client", Store()))
    series = await store.cluster_series(
        START, START + 3 * STEP, STEP, {"alpha": 0.1, "beta": 0.3, "gone": 0.2}
    )
    assert series.step_seconds == STEP
    assert [point.at for point in series.points] == [START + STEP, START + 2 * STEP]
    (point, *_) = series.points
    assert (point.watts, point.idle_watts, point.system_watts) == (140.0, 70.0, 6.0)
    assert point.containers_watts == pytest.approx(64.0)
    assert point.error_watts == pytest.approx(0.1 * 100 + 0.3 * 40)
    assert point.nodes == 2


class PressureStore:
    """Answers questions about pressure only, with a series for each resource."""

    async def query_range(self, promql: str, start: float, *_: float) -> list[Range]:
        if "wattpack_node_pressure_ratio{" not in promql or "by (resource)" not in promql:
            return []
        highest = "max_over_time" in promql
        values = {"cpu": "0.75" if highest else "0.5", "memory": "0"}
        return [Range({"resource": each}, [(start, value)]) for each, value in values.items()]


async def test_the_pressure_in_the_store_has_a_series_for_each_resource() -> None:
    store = StoreSeries(cast("Client", PressureStore()))
    series = await store.series(SubjectKind.NODE, "alpha", START, START + STEP, STEP)
    [point] = series.points
    assert point.at == START
    assert point.mean_pressure == Pressure(cpu_ratio=0.5, memory_ratio=0.0)
    assert point.max_pressure == Pressure(cpu_ratio=0.75, memory_ratio=0.0)
    service = await store.series(SubjectKind.SERVICE, "shop", START, START + STEP, STEP)
    assert service.points == ()
