"""Lists of running containers: filtered, searched and sorted as one would by hand."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.observe.task_columns import ReportedTask
from collector.observe.task_lists import TaskOrder
from tests.collector.builders import START, container, report
from tests.collector.observe.test_live_tables import make_registry
from wire.messages import ContainerPower, ContainerState, PowerSource
from wire.resources import Quantities

VALUES: dict[TaskOrder, Callable[[ReportedTask], Any]] = {
    "name": lambda each: each.state.name.casefold(),
    "node": lambda each: each.node.casefold(),
    "service": lambda each: None if each.state.service is None else each.state.service.casefold(),
    "cpu": lambda each: each.state.used.cpu_cores,
    "memory": lambda each: each.state.used.memory_bytes,
    "disk": lambda each: each.state.used.disk_bytes_per_second,
    "network": lambda each: each.state.used.network_bytes_per_second,
    "watts": lambda each: None if each.state.power is None else each.state.power.watts,
}
TEXTS = st.text("aAbBß\u0130.", min_size=1, max_size=3)
SIZES = st.none() | st.integers(0, 3)


@st.composite
def containers(draw: st.DrawFn) -> ContainerState:
    watts = draw(SIZES)
    return container(
        draw(TEXTS),
        id=draw(TEXTS),
        service=draw(st.none() | TEXTS),
        image=draw(st.none() | TEXTS),
        labels=draw(st.dictionaries(st.just("tier"), TEXTS)),
        used=Quantities(draw(SIZES), draw(SIZES), draw(SIZES), draw(SIZES)),
        power=None if watts is None else ContainerPower(watts, PowerSource.MODEL, 0.2, 75.0),
    )


CLUSTERS = st.dictionaries(
    TEXTS, st.lists(containers(), max_size=6, unique_by=lambda each: each.id), max_size=4
)


@given(cluster=CLUSTERS, order=st.sampled_from(list(VALUES)), reverse=st.booleans(), text=TEXTS)
def test_lists_equal_those_made_by_hand(
    *, cluster: dict[str, list[ContainerState]], order: TaskOrder, reverse: bool, text: str
) -> None:
    registry = make_registry()
    for node, states in cluster.items():
        registry.apply(report(node, containers=states), START)
    listed = registry.tables.list_tasks()
    expected = [(node, each) for node in sorted(cluster) for each in cluster[node]]
    assert [each.node for each in listed.tasks] == [node for node, _ in expected]
    assert {(each.node, each.state.id) for each in listed.tasks} == {
        (node, each.id) for node, each in expected
    }

    def is_found(each: ReportedTask) -> bool:
        state = each.state
        texts = (state.name, state.service, state.image, each.node, state.id)
        return any(text.casefold() in one.casefold() for one in texts if one is not None)

    found = listed.containing(text)
    assert found.tasks == [each for each in listed.tasks if is_found(each)]
    tiered = listed.labelled(lambda labels: labels.get("tier") == text)
    assert tiered.tasks == [each for each in listed.tasks if each.state.labels == {"tier": text}]
    value = VALUES[order]
    for some in (listed, found, tiered):
        known = sorted((each for each in some.tasks if value(each) is not None), key=value, reverse=reverse)
        unknown = [each for each in some.tasks if value(each) is None]
        assert list(some.ordered(order, reverse=reverse)) == known + unknown


def test_containers_of_one_node_service_and_name_are_listed() -> None:
    registry = make_registry()
    for node in ("one", "two"):
        states = [container(f"{name}-{node}", service=name) for name in ("web", "db")]
        registry.apply(report(node, containers=states), START)

    def names(**wanted: Any) -> list[str]:
        return [each.state.name for each in registry.tables.list_tasks(**wanted).tasks]

    assert names(node="two") == ["web-two", "db-two"]
    assert names(service="db") == ["db-one", "db-two"]
    assert names(node="two", service="db", name="db-two") == ["db-two"]
    assert names(node="two", name="db-one") == names(node="three") == names(service="cache") == []
