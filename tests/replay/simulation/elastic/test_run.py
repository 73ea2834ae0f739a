"""An elastic service in replay: observations as live, changes that take time, and figures of the run."""

from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from collector.features.elastic.scaling.interface import ElasticDecision, ElasticPolicy, Observation, Target
from replay.reporting.page import elastic_page
from replay.reporting.tables import elastic_rows_of
from replay.setup.elastic import ElasticService
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Host, Scenario, Simulation, parse_scenario
from replay.simulation.elastic.compare import ElasticComparison, compare_elastic, elastic_result_of
from replay.simulation.elastic.run import ElasticRun, Interval, run_elastic
from replay.sources import arrivals_of
from wire.errors import UserError

_SERVICE = ElasticService(
    service="web",
    response_max_ms=100,
    service_ms=10,
    arrivals={"seconds": 1800.0, "requests_per_second": 150.0, "noise_ratio": 0.0, "day_noise_ratio": 0.0},
)
_HOST = Host(name="node", count=8, cpu_cores=2, memory_mb=4096, watts=(10.0, 24.0))


def _scenario(**changes: object) -> Scenario:
    service = msgspec.structs.replace(_SERVICE, **changes)
    return Scenario(hosts=(_HOST,), elastic=service, simulation=Simulation(decide_seconds=180.0, seed=1))


def _script(*plan: tuple[int, float]) -> tuple[ElasticPolicy, list[Observation]]:
    """A policy with given steps, one per decision, that then stays."""
    seen: list[Observation] = []

    def decide(target: Target, observation: Observation, learned: bytes) -> ElasticDecision:
        assert target.decide_seconds == 180.0
        assert learned == (b"" if not seen else str(len(seen)).encode())
        seen.append(observation)
        replicas, limit = plan[min(len(seen), len(plan)) - 1]
        kept = str(len(seen)).encode()
        return ElasticDecision(replicas=replicas, cpu_limit_cores=limit, reasons=("scripted",), learned=kept)

    return decide, seen


def _run(scenario: Scenario, *plan: tuple[int, float]) -> tuple[list[Interval], list[Observation]]:
    policy, seen = _script(*plan)
    assert scenario.elastic is not None
    setup = ElasticRun(
        service=scenario.elastic,
        arrivals=arrivals_of(scenario, Path()),
        hosts=build_hosts(scenario.hosts),
        decide_seconds=180.0,
        seed=1,
    )
    return run_elastic(policy, setup), seen


def test_a_policy_observes_what_it_would_observe_live() -> None:
    intervals, seen = _run(_scenario(replicas=2), (2, 1.0), (3, 1.0), (3, 1.0), (3, 0.8))
    assert [each.at_seconds for each in seen[:3]] == [180.0, 360.0, 540.0]
    assert [each.replicas for each in seen[:4]] == [2, 2, 3, 3]
    assert [each.cpu_limit_cores for each in seen[:6]] == [1.0, 1.0, 1.0, 1.0, 0.8, 0.8]
    assert [each.changed_at_seconds for each in seen[:5]] == [None, None, 360.0, 360.0, 720.0]
    assert all(each.cpu_used_cores == pytest.approx(1.5, rel=0.05) for each in seen)
    assert seen[0].metric == pytest.approx(0.01 / 0.25, rel=0.2)
    assert seen[0].effect_seconds == 4.5
    assert seen[0].reserved_core_watts == 5.0
    assert seen[0].used_core_watts == pytest.approx(7.0)
    assert [each.changed for each in intervals] == [False, True, False, True, *[False] * 6]
    assert [each.vertical for each in intervals] == [False] * 3 + [True] + [False] * 6


def test_an_overload_lasts_until_replicas_are_added() -> None:
    intervals, _ = _run(_scenario(), (1, 1.0), (1, 1.0), (4, 1.0))
    metrics = [each.metric or 0.0 for each in intervals]
    assert min(metrics[:3]) > 1.0
    assert max(metrics[4:]) < 0.03
    result = elastic_result_of(intervals, 0.1)
    assert 0.3 <= result.violations_ratio <= 0.4
    assert result.core_minutes == 3 * 3 + 7 * 4 * 3
    assert (result.actions, result.vertical_actions, result.intervals) == (1, 0, 10)
    assert result.violations_after_day_ratio is None


def test_without_ready_check_requests_wait_for_replicas_that_start() -> None:
    plan = ((3, 1.0), (3, 0.9))
    checked, _ = _run(_scenario(replicas=3), *plan)
    unchecked, _ = _run(_scenario(replicas=3, ready_check=False), *plan)
    assert checked[1].metric == unchecked[1].metric
    assert (checked[2].metric or 0) < 0.04
    # 4.5 s without any replica, in which requests wait 2.25 s on average; then the queue goes.
    assert 0.02 + 4.5 / 180 * 2.25 < (unchecked[2].metric or 0) < 0.25


def test_energy_is_that_of_the_hosts_in_use() -> None:
    """Three replicas of a core take two hosts of two cores: 20 W idle, and 7 W per core in use."""
    intervals, _ = _run(_scenario(replicas=3), (3, 1.0))
    expected = (20.0 + 7.0 * 1.5) * 1800 / 3.6e6
    assert elastic_result_of(intervals, 0.1).energy_kwh == pytest.approx(expected, rel=0.05)


def test_more_replicas_than_fit_are_an_error() -> None:
    with pytest.raises(UserError, match="do not fit on the hosts"):
        _run(_scenario(replicas=17), (17, 1.0))


def _compared(*names: str, **changes: object) -> ElasticComparison:
    scenario = _scenario(**changes)
    return compare_elastic(
        names, scenario, arrivals_of(scenario, Path()), lambda *_: nullcontext(lambda _: None)
    )


@pytest.mark.slow
def test_policies_are_compared_on_the_same_requests() -> None:
    found = _compared("queueing", "threshold", "threshold:utilization_target=0.4")
    same = [[point.requests for point in series] for series in found.points.values()]
    assert same[0] == same[1] == same[2]
    policies = found.policies
    assert policies["threshold:utilization_target=0.4"].core_minutes > policies["threshold"].core_minutes
    assert policies["queueing"].violations_ratio <= 0.2
    assert len(list(elastic_rows_of(found.policies))) == 3
    assert found == _compared("queueing", "threshold", "threshold:utilization_target=0.4")


def test_the_page_shows_every_policy() -> None:
    html = elastic_page(_compared("queueing", "threshold"), _scenario())
    assert html.count("<section") == 6
    assert "queueing" in html
    assert "threshold" in html


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("least-watts", "unknown elasticity policy 'least-watts': use one of queueing,"),
        ("threshold:target=1", "unknown field `target`"),
        ("threshold:utilization_target=2", "utilization_target"),
        ("threshold:utilization_target=x", "utilization_target"),
    ],
)
def test_mistakes_in_names_are_reported(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _compared(name)


def test_a_run_without_a_decision_is_an_error() -> None:
    with pytest.raises(UserError, match="end before the first decision"):
        _compared("queueing", arrivals={"seconds": 60.0, "requests_per_second": 1.0})


def test_arrivals_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_text("seconds,requests_per_second\n0,10\n600,20\n1200,0\n")
    scenario = _scenario(arrivals={}, arrivals_file="load.csv")
    arrivals = arrivals_of(scenario, tmp_path)
    assert arrivals.seconds == 1200
    assert set(arrivals.rates[:60]) == {10.0}
    assert set(arrivals.rates[60:]) == {20.0}


@pytest.mark.parametrize("text", ["0,1\n", "5,1\n5,2\n", "0,1\n5,2\n"])
def test_a_file_without_duration_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "load.csv").write_text(f"seconds,requests_per_second\n{text}")
    with pytest.raises(UserError, match=r"load\.csv (needs at least|covers less)"):
        arrivals_of(_scenario(arrivals={}, arrivals_file="load.csv"), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("replicas_min = 5\nreplicas_max = 4\narrivals = { requests_per_second = 1 }", "lower bounds"),
        ("", "needs arrivals or arrivals_file"),
        ("arrivals_file = 'a'\narrivals = { requests_per_second = 1 }", "only one of them"),
    ],
)
def test_a_service_that_makes_no_sense_is_an_error(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_scenario(
            f"[elastic]\nservice = 'web'\nresponse_max_ms = 100\nservice_ms = 10\n{text}", "scenario"
        )


def test_invalid_settings_of_arrivals_are_an_error() -> None:
    with pytest.raises(UserError, match=r"invalid \[elastic.arrivals\]"):
        arrivals_of(_scenario(arrivals={"rate": 1}), Path())
    with pytest.raises(UserError, match=r"has no \[elastic\]"):
        arrivals_of(Scenario(hosts=(_HOST,)), Path())
