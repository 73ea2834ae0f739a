"""What elastic services must deliver, by settings and labels."""

import pytest

from collector.common.orchestrator import Mode, ServiceView
from collector.features.elastic.scaling.interface import Target
from collector.features.elastic.settings import elastic_target
from wire.errors import UserError


def target(table: Target | None = None, mode: Mode = Mode.REPLICATED, **labels: str) -> Target:
    found = elastic_target(service(mode, **labels), {} if table is None else {"web": table})
    assert found is not None
    return found


def service(mode: Mode = Mode.REPLICATED, **labels: str) -> ServiceView:
    named = {f"wattpack.{name.replace('_', '-')}": value for name, value in labels.items()}
    return ServiceView(name="web", mode=mode, labels=named)


def test_a_service_without_a_bound_is_not_elastic() -> None:
    assert elastic_target(service(), {}) is None
    assert elastic_target(service(elastic_replicas="1-3"), {}) is None
    assert elastic_target(service(elastic="soon"), {}) is None
    assert elastic_target(service(Mode.GLOBAL, elastic="200ms"), {}) is None


def test_a_target_can_come_from_labels_alone() -> None:
    made = target(elastic="200ms", elastic_replicas="2-5", elastic_cpu="0.2-0.8/0.2", elastic_explore="never")
    assert made.metric_max == 0.2
    assert (made.replicas_min, made.replicas_max) == (2, 5)
    assert (made.cpu_min_cores, made.cpu_max_cores, made.cpu_step_cores) == (0.2, 0.8, 0.2)
    assert not made.explore
    assert (made.policy, made.query) == ("queueing", "")


@pytest.mark.parametrize("text", ["5-2", "0-3", "a-b", "1-99999999", "1.5-3", "1-3/1", "3"])
def test_an_invalid_range_of_replicas_counts_as_unset(text: str) -> None:
    made = target(elastic="1", elastic_replicas=text)
    assert (made.replicas_min, made.replicas_max) == (1, 10)


def test_without_a_step_the_cpu_limit_stays() -> None:
    assert target(elastic="1").cpu_step_cores == 0
    assert target(elastic="1", elastic_cpu="0.5-2").cpu_step_cores == 0.1
    assert target(elastic="1", elastic_cpu="2-0.5").cpu_step_cores == 0
    assert target(Target(metric_max=1.0, cpu_step_cores=0.5)).cpu_step_cores == 0.5


def test_a_table_of_the_settings_replaces_labels() -> None:
    table = Target(metric_max=2.0, replicas_max=3, query="up", policy="other")
    assert target(table, elastic="200ms", elastic_replicas="2-9", elastic_explore="never") == table


def test_bounds_must_be_in_order() -> None:
    with pytest.raises(UserError, match=r"replicas_min \(20\) must not be above replicas_max \(10\)"):
        Target(metric_max=1.0, replicas_min=20)


def test_a_single_container_is_only_resized() -> None:
    made = target(mode=Mode.STANDALONE, elastic="1", elastic_replicas="2-5")
    assert (made.replicas_min, made.replicas_max) == (1, 1)


@pytest.mark.parametrize("bound", ["9" * 400, "0." + "0" * 300 + "1", "9" * 5000])
def test_an_absurd_bound_gives_no_target(bound: str) -> None:
    assert elastic_target(service(elastic=bound), {}) is None


@pytest.mark.parametrize("digits", [10, 400, 5000])
def test_absurd_ranges_count_as_unset(digits: int) -> None:
    most = "9" * digits
    made = target(elastic="1", elastic_replicas=f"1-{most}", elastic_cpu=f"1-2/{most}")
    assert (made.replicas_min, made.replicas_max) == (1, 10)
    assert made.cpu_step_cores == 0
