import pytest

from collector.observe.traits import node_traits, task_traits
from collector.snapshot.tables import Generation, TaskKind

RULES = {
    "web-*": {"zone": "a", "disk": "ssd", "wattpack.generation": "young"},
    "web-1": {"zone": "b", "wattpack.accept": "never"},
}


def test_without_labels_nothing_may_be_taken_and_all_may_be_moved() -> None:
    assert task_traits({}, 1) == (1, TaskKind.SERVICE, True)


@pytest.mark.parametrize("bad", ["0", "5", "one", "", " 2"])
def test_a_class_that_there_is_not_is_the_default(bad: str) -> None:
    assert task_traits({"wattpack.class": bad, "wattpack.kind": bad, "wattpack.move": bad}, 3) == (
        3,
        TaskKind.SERVICE,
        True,
    )


def test_the_last_matching_rule_wins() -> None:
    traits = node_traits("web-1", RULES, {"zone": "told", "cpu": "arm"})
    assert {key: traits.labels[key] for key in ("zone", "disk", "cpu")} == {
        "zone": "b",
        "disk": "ssd",
        "cpu": "arm",
    }
    assert (traits.generation, traits.accepts) == (Generation.YOUNG, False)
    assert node_traits("db", RULES, {}).labels == {}


def test_the_labels_of_a_node_count_where_no_rule_matches() -> None:
    node_labels = {"wattpack.generation": "nursery", "wattpack.accept": "never"}
    traits = node_traits("db", RULES, node_labels)
    assert (traits.generation, traits.accepts) == (Generation.NURSERY, False)
    assert node_traits("web-2", RULES, node_labels).generation is Generation.YOUNG
    assert node_traits("db", {"*": {"wattpack.accept": "allowed"}}, node_labels).accepts
