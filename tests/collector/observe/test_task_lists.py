"""Lists of running containers: filtered, searched and sorted as one would by hand."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.observe.registry import Registry
from collector.observe.task_columns import ReportedTask
from collector.observe.task_lists import TaskOrder
from tests.collector.builders import START, container, partial_report, report
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


@given(
    cluster=CLUSTERS,
    order=st.sampled_from(list(VALUES)),
    reverse=st.booleans(),
    text=TEXTS,
    start=st.integers(0, 8),
)
def test_lists_equal_those_made_by_hand(
    *, cluster: dict[str, list[ContainerState]], order: TaskOrder, reverse: bool, text: str, start: int
) -> None:
    registry = make_registry()
    for node, states in cluster.items():
        registry.apply(report(node, containers=states), START)
    expected = [(node, each) for node in sorted(cluster) for each in cluster[node]]
    listed = listed_tasks(registry)
    assert [each.node for each in listed] == [node for node, _ in expected]
    assert {(each.node, each.state.id) for each in listed} == {(node, each.id) for node, each in expected}
    value = VALUES[order]
    cases: list[tuple[dict[str, Any], list[ReportedTask]]] = [
        ({}, listed),
        ({"search": text}, [each for each in listed if contains(each, text)]),
        ({"tier": text}, [each for each in listed if each.state.labels == {"tier": text}]),
    ]
    for wanted, some in cases:
        known = sorted((each for each in some if value(each) is not None), key=value, reverse=reverse)
        unknown = [each for each in some if value(each) is None]
        assert listed_tasks(registry, **wanted) == some
        assert listed_tasks(registry, **wanted, order=order, reverse=reverse) == known + unknown
        page = slice(start, start + 2)
        assert listed_tasks(registry, page, **wanted, order=order, reverse=reverse) == (known + unknown)[page]


@given(reports=st.lists(st.tuples(TEXTS, st.lists(containers(), max_size=3)), max_size=6), text=TEXTS)
def test_a_search_follows_every_change(*, reports: list[tuple[str, list[ContainerState]]], text: str) -> None:
    registry = make_registry()
    for sequence, (node, states) in enumerate(reports, 1):
        unique = list({each.id: each for each in states}.values())
        registry.apply(report(node, sequence=sequence, containers=unique), START)
        listed = listed_tasks(registry)
        assert listed_tasks(registry, search=text) == [each for each in listed if contains(each, text)]
        ranked = sorted(listed, key=VALUES["name"])
        assert listed_tasks(registry, order="name") == ranked


def test_texts_of_any_length_and_kind_are_found_and_ordered() -> None:
    registry = make_registry()
    names = ["x" * 300 + "needle", "zero\0needle", "short needle", "\udc80", "other"]
    registry.apply(report("one", containers=[container(name) for name in names]), START)

    def found(text: str) -> list[str]:
        return [each.state.name for each in listed_tasks(registry, search=text)]

    assert found("NEEDLE") == names[:3]
    assert found("o\0n") == ["zero\0needle"]
    assert found("\0") == ["zero\0needle"]
    assert found("\udc80") == ["\udc80"]
    assert [each.state.name for each in listed_tasks(registry, order="name")] == sorted(names)


def test_a_large_cluster_is_searched_in_steps_and_what_changes_meanwhile_is_right() -> None:
    registry = make_registry()
    for node in range(40):
        states = [container(f"web-{node}-{each}") for each in range(500)]
        registry.apply(report(f"node-{node}", containers=states), START)
    assert not registry.tables.search_tasks("web-7-")
    registry.apply(
        partial_report("node-7", sequence=2, gone=["id-of-web-7-0"], containers=[container("web-7-new")]),
        START,
    )
    assert len(listed_tasks(registry, search="web-7-")) == 500
    tasks = registry.tables.list_tasks(search="web-7-", order="name")
    registry.apply(partial_report("node-7", sequence=3, gone=["id-of-web-7-1"]), START)
    page = registry.tables.reported(tasks, tasks.page(range(2)))
    assert [each.state.name for each in page] == ["web-7-10"]


def listed_tasks(
    registry: Registry,
    page: slice = slice(None),
    *,
    tier: str | None = None,
    reverse: bool = False,
    **wanted: Any,
) -> list[ReportedTask]:
    """The tasks of one page of a list, as the API makes it."""
    tasks = registry.tables.list_tasks(**wanted)
    if tier is not None:
        tasks = registry.tables.labelled(tasks, lambda labels: labels.get("tier") == tier)
    return registry.tables.reported(tasks, tasks.page(range(tasks.rows.size)[page], reverse=reverse))


def contains(task: ReportedTask, text: str) -> bool:
    state = task.state
    texts = (state.name, state.service, state.image, task.node, state.id)
    return any(text.casefold() in one.casefold() for one in texts if one is not None)


def test_containers_of_one_node_service_and_name_are_listed() -> None:
    registry = make_registry()
    for node in ("one", "two"):
        states = [container(f"{name}-{node}", service=name) for name in ("web", "db")]
        registry.apply(report(node, containers=states), START)

    def names(**wanted: Any) -> list[str]:
        return [each.state.name for each in listed_tasks(registry, **wanted)]

    assert names(node="two") == ["web-two", "db-two"]
    assert names(service="db") == ["db-one", "db-two"]
    assert names(node="two", service="db", name="db-two") == ["db-two"]
    assert names(node="two", name="db-one") == names(node="three") == names(service="cache") == []
