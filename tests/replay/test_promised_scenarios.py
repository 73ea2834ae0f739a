"""The test of controllers in the study of QoS-driven scheduling: priorities give what there is room for."""

from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from replay.setup.scenario import Startup, read_scenario
from replay.simulation.compare import compare
from replay.simulation.results import PolicyResult
from replay.sources import workloads
from wattpack.datasets.traces import locate_in

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def replay(name: str, *policies: str) -> dict[str, PolicyResult]:
    """Replay a scenario with the default start-up times, which need no data."""
    scenario = msgspec.structs.replace(read_scenario(SCENARIOS / f"{name}.toml"), startup=Startup())
    workload, earlier = workloads(scenario, SCENARIOS, locate_in([]))
    found = compare(policies, scenario, workload, earlier, lambda *_: nullcontext(lambda _: None))
    return found.policies


def mean(result: PolicyResult) -> float:
    assert isinstance(result.slo, dict)
    total = sum(each.mean_availability * each.requests for each in result.slo.values())
    return total / sum(each.requests for each in result.slo.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "by_priority"),
    [("independent", 47 / 53), ("concurrent", 48 / 53), ("aggregated", 100 / 106)],
)
def test_deployments_by_priority_run_all_the_time_or_never(mode: str, by_priority: float) -> None:
    result = replay(f"qos-controllers-{mode}", "priority")["priority"]
    assert mean(result) == pytest.approx(by_priority, abs=1e-6)
    assert result.preemptions == 0
    assert isinstance(result.slo, dict)
    assert result.slo["service-3"].min_availability == 0.0


@pytest.mark.slow
def test_by_urgency_no_deployment_is_left_out() -> None:
    result = replay("qos-controllers-independent", "qos-driven")["qos-driven"]
    assert mean(result) > 0.9
    assert isinstance(result.slo, dict)
    assert result.slo["service-1"].met_ratio == 1.0
    assert result.slo["service-3"].min_availability > 0.7
