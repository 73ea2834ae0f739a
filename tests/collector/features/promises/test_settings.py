import msgspec
import pytest

from collector.config import CollectorConfig
from collector.features.promises.settings import PromisesConfig, promise_classes


def test_a_class_of_the_settings_comes_besides_the_default_ones_or_replaces_one() -> None:
    own = {"nightly": {"availability": 0.3, "importance": 4}, "gold": {"availability": 0.99, "importance": 1}}
    config = msgspec.convert({"slo": own, "promises": {"default_class": "nightly"}}, CollectorConfig)
    found = promise_classes(config)
    assert found.keys() == {"gold", "silver", "bronze", "nightly"}
    assert (found["gold"].availability, found["silver"].availability) == (0.99, 0.9)


def test_an_unknown_default_class_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'platinum' is not a class under \[slo\]: write one of gold, .*"):
        CollectorConfig().with_section(PromisesConfig(default_class="platinum"))
