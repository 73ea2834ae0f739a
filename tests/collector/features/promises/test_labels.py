import msgspec
import pytest

from collector.config import CollectorConfig
from collector.decide.question import PlacementQuestion, with_complete_labels
from collector.features.promises.settings import PromisesConfig


@pytest.mark.parametrize(
    ("labels", "default", "expected"),
    [
        ({}, "", None),
        ({}, "bronze", "bronze"),
        ({"wattpack.slo": "gold"}, "bronze", "gold"),
        ({"wattpack.slo": "typo"}, "bronze", "bronze"),
        ({"wattpack.slo": "typo"}, "", ""),
        ({"wattpack.kind": "daemon"}, "bronze", None),
    ],
)
def test_question_has_the_promise_that_its_container_will_have(
    labels: dict[str, str], default: str, expected: str | None
) -> None:
    config = CollectorConfig().with_section(PromisesConfig(default_class=default))
    question = PlacementQuestion(service="shop", labels=labels)
    found = with_complete_labels(question, config)
    assert found.labels.get("wattpack.slo") == expected
    assert msgspec.structs.replace(found, labels=labels) == question
