"""Lists of nodes in columns: the same as what the registry keeps of each node."""

from collections import defaultdict
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from collector.common.arrays import known
from collector.common.liveness import Liveness
from tests.collector.builders import HEARTBEAT, START, partial_report
from tests.collector.observe.test_live_tables import make_registry
from tests.collector.observe.test_task_lists import containers
from wire.messages import NodePower, NodeState, PowerSource
from wire.resources import Quantities

SIZES = st.none() | st.integers(0, 3)


@st.composite
def states(draw: st.DrawFn) -> NodeState:
    watts = draw(SIZES)
    power = None if watts is None else NodePower(watts, 0.5, 0.25, PowerSource.MODEL, 0.1 * watts, 75.0)
    return NodeState(
        used=Quantities(draw(SIZES), draw(SIZES)), capacity=Quantities(draw(SIZES), draw(SIZES)), power=power
    )


REPORTS = st.lists(
    st.tuples(
        st.sampled_from("ABa"),
        st.booleans(),
        st.integers(1, 4),
        st.none() | states(),
        st.lists(containers(), max_size=3, unique_by=lambda each: each.id),
        st.sampled_from(("first", "second")),
    ),
    max_size=8,
)


@given(reports=REPORTS, ages=st.lists(st.sampled_from((0.0, 4.0, 30.0)), min_size=8, max_size=8))
def test_columns_of_nodes_equal_what_the_registry_keeps(
    *,
    reports: list[tuple[str, bool, int, NodeState | None, list, str]],  # type: ignore[type-arg]
    ages: list[float],
) -> None:
    registry = make_registry()
    for (node, is_full, sequence, state, running, boot), age in zip(reports, ages, strict=False):
        made = partial_report(
            node,
            boot=boot,
            sequence=sequence,
            heartbeat=HEARTBEAT if is_full else None,
            state=state,
            containers=running,
        )
        registry.apply(made, START - age)
    listed, entries = registry.tables.list_nodes(START), list(registry.nodes(START))
    columns = listed.columns
    powers = [None if each.run.state is None else each.run.state.value.power for each in entries]
    assert list(listed.names) == [each.name for each in entries]
    assert listed.liveness.tolist() == [each.liveness for each in entries]
    assert columns.containers.tolist() == [len(each.run.containers) for each in entries]
    assert columns.complete.tolist() == [each.run.is_complete for each in entries]
    assert known(columns.reported_watts) == [None if each is None else each.watts for each in powers]
    assert known(columns.idle_watts) == [None if each is None else each.idle_watts for each in powers]
    assert known(columns.system_watts) == [None if each is None else each.system_watts for each in powers]
    assert known(columns.error_ratio) == [None if each is None else each.error_ratio for each in powers]
    watts: defaultdict[str, float] = defaultdict(float)
    for entry in entries:
        for each in entry.run.containers.values() if entry.liveness is not Liveness.DOWN else ():
            if each.value.service and each.value.power is not None:
                watts[each.value.service] += each.value.power.watts
    found = registry.tables.service_watts(START)
    assert found.keys() == watts.keys()
    assert all(isclose(found[name], watts[name]) for name in watts)
