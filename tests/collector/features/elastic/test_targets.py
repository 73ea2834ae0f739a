"""What elastic services must deliver, by settings and labels."""

import pytest

from collector.common.orchestrator import Mode, ServiceView
from collector.features.elastic.settings import ElasticRule
from collector.features.elastic.targets import ElasticTarget, elastic_target


def target(rule: ElasticRule | None = None, mode: Mode = Mode.REPLICATED, **labels: str) -> ElasticTarget:
    found = elastic_target(service(mode, **labels), rule)
    assert found is not None
    return found


def service(mode: Mode = Mode.REPLICATED, **labels: str) -> ServiceView:
    named = {f"wattpack.{name.replace('_', '-')}": value for name, value in labels.items()}
    return ServiceView(name="web", mode=mode, labels=named)


def test_a_service_without_a_bound_is_not_elastic() -> None:
    assert elastic_target(service(), None) is None
    assert elastic_target(service(elastic_replicas="1-3"), None) is None
    assert elastic_target(service(elastic="soon"), None) is None
    assert elastic_target(service(Mode.GLOBAL, elastic="200ms"), None) is None


def test_a_target_can_come_from_labels_alone() -> None:
    found = target(
        elastic="200ms", elastic_replicas="2-5", elastic_cpu="0.2-0.8/0.2", elastic_explore="never"
    )
    made = found.target
    assert (made.service, made.metric_max) == ("web", 0.2)
    assert (made.replicas_min, made.replicas_max) == (2, 5)
    assert (made.cpu_min_cores, made.cpu_max_cores, made.cpu_step_cores) == (0.2, 0.8, 0.2)
    assert not made.explore
    assert (found.policy, found.query) == (ElasticRule().policy, "")


@pytest.mark.parametrize("text", ["5-2", "0-3", "a-b", "1-99999999", "1.5-3", "1-3/1", "3"])
def test_an_invalid_range_of_replicas_counts_as_unset(text: str) -> None:
    made = target(elastic="1", elastic_replicas=text).target
    assert (made.replicas_min, made.replicas_max) == (1, 10)


def test_without_a_step_the_cpu_limit_stays() -> None:
    assert target(elastic="1").target.cpu_step_cores == 0
    assert target(elastic="1", elastic_cpu="0.5-2").target.cpu_step_cores == 0.1
    assert target(elastic="1", elastic_cpu="2-0.5").target.cpu_step_cores == 0
    assert target(ElasticRule(metric_max=1.0, cpu_step_cores=0.5)).target.cpu_step_cores == 0.5


def test_settings_override_labels() -> None:
    rule = ElasticRule(
        metric_max=2.0, replicas_max=3, query="up", policy="other", explore="allowed", decide_seconds=5.0
    )
    found = target(rule, elastic="200ms", elastic_replicas="2-9", elastic_explore="never")
    assert (found.target.metric_max, found.target.replicas_min, found.target.replicas_max) == (2.0, 2, 3)
    assert found.target.explore
    assert (found.query, found.policy, found.target.decide_seconds) == ("up", "other", 5.0)


def test_a_setting_of_one_end_moves_the_other() -> None:
    made = target(ElasticRule(metric_max=1.0, replicas_min=20)).target
    assert (made.replicas_min, made.replicas_max) == (20, 20)
    made = target(ElasticRule(metric_max=1.0, replicas_max=1), elastic_replicas="3-5").target
    assert (made.replicas_min, made.replicas_max) == (1, 1)
    assert target(ElasticRule(metric_max=1.0, cpu_min_cores=4.0)).target.cpu_max_cores == 4.0


def test_a_single_container_is_only_resized() -> None:
    made = target(mode=Mode.STANDALONE, elastic="1", elastic_replicas="2-5").target
    assert (made.replicas_min, made.replicas_max) == (1, 1)


@pytest.mark.parametrize("bound", ["9" * 400, "0." + "0" * 300 + "1", "9" * 5000])
def test_an_absurd_bound_gives_no_target(bound: str) -> None:
    assert elastic_target(service(elastic=bound), None) is None


@pytest.mark.parametrize("digits", [10, 400, 5000])
def test_absurd_ranges_count_as_unset(digits: int) -> None:
    most = "9" * digits
    made = target(elastic="1", elastic_replicas=f"1-{most}", elastic_cpu=f"1-2/{most}").target
    assert (made.replicas_min, made.replicas_max) == (1, 10)
    assert made.cpu_step_cores == 0
