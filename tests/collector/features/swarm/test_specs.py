import copy
import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.labels import BEFORE_LABEL, PARKED_LABEL
from collector.features.swarm.specs import (
    NO_NODE,
    Order,
    ParkedTask,
    ReplicaGroup,
    constraints_of,
    groups_of,
    has_temporary_changes,
    hold_label,
    only_on,
    parked_tasks,
    replicas_of,
    stopped_replicas,
    user_spec,
    with_constraints,
    with_next_group,
    with_parked,
    with_stopped,
    with_unparked,
    without_constraints,
)

names = st.text(string.ascii_letters + "._-", min_size=1, max_size=8)
constraints = st.builds("node.labels.{}=={}".format, names, names)
update_configs = st.fixed_dictionaries(
    {"Parallelism": st.integers(0, 9)}, optional={"Order": st.sampled_from(["start-first", "stop-first"])}
)
placements = st.fixed_dictionaries(
    {},
    optional={
        "Constraints": st.lists(constraints, min_size=1, max_size=4, unique=True),
        "Preferences": st.just([{"Spread": {"SpreadDescriptor": "node.labels.zone"}}]),
        "MaxReplicas": st.integers(1, 9),
    },
)
specs = st.fixed_dictionaries(
    {
        "Name": names,
        "Labels": st.dictionaries(names, names),
        "TaskTemplate": st.fixed_dictionaries(
            {"ContainerSpec": st.just({"Image": "web"})}, optional={"Placement": placements}
        ),
    },
    optional={
        "UpdateConfig": update_configs,
        "RollbackConfig": update_configs,
        "SomethingNew": st.integers(),  # of a later engine
    },
)
ours = st.lists(st.builds("node.id!={}".format, names), max_size=3, unique=True)


@given(spec=specs, ours=ours, order=st.sampled_from(Order), again=ours)
def test_temporary_constraints_are_removed_without_a_trace(
    spec: dict[str, Any], ours: list[str], order: Order, again: list[str]
) -> None:
    kept = copy.deepcopy(spec)
    changed = with_constraints(spec, ours, order, 5.0)
    assert has_temporary_changes(changed)
    assert constraints_of(changed) == [*constraints_of(spec), *ours]
    assert changed["UpdateConfig"]["Order"] == order
    assert user_spec(changed) == kept
    # One steer replaces the other.
    other = with_constraints(changed, again, order, 5.0)
    assert constraints_of(other) == [*constraints_of(spec), *again]
    assert user_spec(other) == kept
    assert spec == kept, "specs are not changed in place"
    assert user_spec(spec) is spec


@given(spec=specs, ours=ours)
def test_a_change_of_the_user_during_a_move_is_kept(spec: dict[str, Any], ours: list[str]) -> None:
    changed = with_constraints(spec, ours, Order.START, 5.0)
    changed["TaskTemplate"]["ContainerSpec"] = {"Image": "web:2"}
    changed["UpdateConfig"] = {"Parallelism": 42}
    changed["TaskTemplate"].setdefault("Placement", {}).setdefault("Constraints", []).append(
        "node.ip!=1.2.3.4"
    )
    plain = user_spec(changed)
    assert plain["TaskTemplate"]["ContainerSpec"] == {"Image": "web:2"}
    assert plain["UpdateConfig"] == {"Parallelism": 42}
    assert constraints_of(plain) == [*constraints_of(spec), "node.ip!=1.2.3.4"]
    assert BEFORE_LABEL not in plain["Labels"]


def test_a_constraint_that_the_user_also_has_is_kept() -> None:
    spec = {"Name": "web", "Labels": {}, "TaskTemplate": {"Placement": {"Constraints": ["node.id!=x"]}}}
    assert user_spec(with_constraints(spec, ["node.id!=x"], Order.START, 1.0)) == spec


def mark(**changes: Any) -> str:
    written = {"constraints": [], "placed": True, "careful": {}, "backwards": {}}
    return json.dumps({**written, "update": None, "rollback": None, **changes})


@pytest.mark.parametrize(
    "label",
    [
        "?",
        mark()[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000 + "}",
        mark(update={"Order": [["nested"]]}),
        mark(constraints=["a==b"] * 200_000),
    ],
    ids=["no JSON", "deep", "nested", "long"],
)
def test_an_unreadable_label_is_dropped_and_nothing_else(label: str) -> None:
    spec = {
        "Labels": {BEFORE_LABEL: label, "own": "label"},
        "TaskTemplate": {"Placement": {"Constraints": ["a==b"]}},
    }
    plain = user_spec(spec)
    assert plain == {"Labels": {"own": "label"}, "TaskTemplate": {"Placement": {"Constraints": ["a==b"]}}}


groups = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4, unique_by=lambda each: each[1]
).map(
    lambda sizes: [
        ReplicaGroup(tuple(f"n{place}-{node}" for node in range(nodes)), replicas)
        for place, (nodes, replicas) in enumerate(sorted(sizes, key=lambda each: -each[1]))
    ]
)


@given(spec=specs, groups=groups)
def test_a_deployment_reaches_every_group_in_turn_and_ends_as_the_user_wrote_it(
    spec: dict[str, Any], groups: list[ReplicaGroup]
) -> None:
    total = sum(group.replicas * len(group.nodes) for group in groups)
    written = {**copy.deepcopy(spec), "Mode": {"Replicated": {"Replicas": total}}}
    node_ids = ["other", *(node for group in groups for node in group.nodes)]
    first = only_on(groups[0].nodes, node_ids)
    now = copy.deepcopy(written)
    now["Labels"] = {**now["Labels"], BEFORE_LABEL: hold_label(groups, first)}
    placement = now["TaskTemplate"].setdefault("Placement", {})
    placement["Constraints"] = [*placement.get("Constraints", []), *first]
    now["Mode"]["Replicated"]["Replicas"] = groups[0].replicas * len(groups[0].nodes)
    written["TaskTemplate"].setdefault("Placement", {})
    for count in range(1, len(groups) + 1):
        assert groups_of(now) == tuple(groups)
        assert user_spec(now) == written, "it can be ended at any time"
        reached = groups[:count]
        assert replicas_of(now) == sum(group.replicas * len(group.nodes) for group in reached)
        open_nodes = {
            node
            for node in node_ids
            if f"node.id!={node}" not in constraints_of(now)
            and not any(
                each.startswith("node.id==") and each != f"node.id=={node}" for each in constraints_of(now)
            )
        }
        assert open_nodes == {node for group in reached for node in group.nodes}
        now = with_next_group(now, node_ids)
    assert now == written
    assert not has_temporary_changes(now)


def test_replicas_that_the_user_sets_during_a_deployment_are_kept() -> None:
    groups = [ReplicaGroup(("a",), 2), ReplicaGroup(("b",), 1)]
    spec = {
        "Labels": {BEFORE_LABEL: hold_label(groups, ["node.id==a"])},
        "Mode": {"Replicated": {"Replicas": 7}},
        "TaskTemplate": {"Placement": {"Constraints": ["node.id==a"]}},
    }
    assert replicas_of(with_next_group(spec, ["a", "b"])) == 7
    assert not has_temporary_changes(with_next_group(spec, ["a", "b"]))


def with_replicas(spec: dict[str, Any], replicas: int) -> dict[str, Any]:
    return {**spec, "Mode": {"Replicated": {"Replicas": replicas}}}


@given(
    spec=specs,
    ours=ours,
    replicas=st.integers(1, 5),
    slots=st.lists(st.integers(1, 5), min_size=1, unique=True),
)
def test_parked_tasks_are_unparked_without_a_trace(
    spec: dict[str, Any], ours: list[str], replicas: int, slots: list[int]
) -> None:
    written = with_replicas(spec, replicas)
    kept = copy.deepcopy(written)
    slots = [slot for slot in slots if slot <= replicas] or [1]
    waiting = [ParkedTask(slot, f"node{slot}", float(slot)) for slot in slots]
    changed = written
    for each in waiting:
        changed = with_parked(changed, [each])
    assert parked_tasks(changed) == tuple(waiting)
    assert PARKED_LABEL in changed["Labels"]
    is_alone = replicas == 1
    assert (NO_NODE in constraints_of(changed)) == is_alone
    assert replicas_of(changed) == (1 if is_alone else replicas - len(slots))
    assert user_spec(changed) == kept
    assert without_constraints(changed) == changed, "there is nothing to lift"
    # A task that starts is constrained to a node, and the others stay parked.
    first, *others = waiting
    starting = with_unparked(changed, first.slot, ours)
    assert parked_tasks(starting) == tuple(others)
    assert user_spec(starting) == user_spec(without_constraints(starting)) == kept
    assert constraints_of(without_constraints(starting)) == constraints_of(kept)
    assert with_unparked(with_parked(written, [first]), first.slot) == kept
    assert written == kept, "specs are not changed in place"


def test_replicas_that_the_user_changes_while_a_task_is_parked_are_kept() -> None:
    spec = with_replicas({"Labels": {}, "TaskTemplate": {}}, 3)
    changed = with_parked(spec, [ParkedTask(2, "node2", 0.0)])
    assert replicas_of(changed) == 2
    changed["Mode"]["Replicated"]["Replicas"] = 5
    assert replicas_of(user_spec(changed)) == 5
    assert parked_tasks(changed) == ()


def test_the_replicas_of_a_stopped_service_are_noted() -> None:
    spec = with_replicas({"Labels": {"a": "b"}, "TaskTemplate": {}}, 0)
    stopped = with_stopped(spec, 3)
    assert stopped_replicas(stopped) == 3
    assert stopped_replicas(with_replicas(stopped, 2)) == 0, "someone started it"
    assert with_stopped(stopped, None) == spec
    assert stopped_replicas(spec) == stopped_replicas({}) == 0
    for absurd in ("many", "-1", "1e3", "9" * 9, "9" * 9999):
        assert stopped_replicas({**spec, "Labels": {"wattpack.stopped": absurd}}) == 0
