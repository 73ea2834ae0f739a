import copy
import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.common.labels import BEFORE_LABEL
from collector.drivers.swarm.specs import Order, as_written, constraints_of, is_marked, steered

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
def test_whatever_is_steered_is_again_as_written(
    spec: dict[str, Any], ours: list[str], order: Order, again: list[str]
) -> None:
    kept = copy.deepcopy(spec)
    changed = steered(spec, ours, order, 5.0)
    assert is_marked(changed)
    assert constraints_of(changed) == [*constraints_of(spec), *ours]
    assert changed["UpdateConfig"]["Order"] == order
    assert as_written(changed) == kept
    # One steer replaces the other.
    other = steered(changed, again, order, 5.0)
    assert constraints_of(other) == [*constraints_of(spec), *again]
    assert as_written(other) == kept
    assert spec == kept, "specs are not changed in place"
    assert as_written(spec) is spec


@given(spec=specs, ours=ours)
def test_a_change_that_the_user_made_meanwhile_is_kept(spec: dict[str, Any], ours: list[str]) -> None:
    changed = steered(spec, ours, Order.START, 5.0)
    changed["TaskTemplate"]["ContainerSpec"] = {"Image": "web:2"}
    changed["UpdateConfig"] = {"Parallelism": 42}
    changed["TaskTemplate"].setdefault("Placement", {}).setdefault("Constraints", []).append(
        "node.ip!=1.2.3.4"
    )
    plain = as_written(changed)
    assert plain["TaskTemplate"]["ContainerSpec"] == {"Image": "web:2"}
    assert plain["UpdateConfig"] == {"Parallelism": 42}
    assert constraints_of(plain) == [*constraints_of(spec), "node.ip!=1.2.3.4"]
    assert BEFORE_LABEL not in plain["Labels"]


def test_a_constraint_that_the_user_has_too_is_not_taken_from_them() -> None:
    spec = {"Name": "web", "Labels": {}, "TaskTemplate": {"Placement": {"Constraints": ["node.id!=x"]}}}
    assert as_written(steered(spec, ["node.id!=x"], Order.START, 1.0)) == spec


def test_a_mark_that_cannot_be_read_is_dropped_and_nothing_else() -> None:
    spec = {
        "Labels": {BEFORE_LABEL: "?", "own": "label"},
        "TaskTemplate": {"Placement": {"Constraints": ["a==b"]}},
    }
    plain = as_written(spec)
    assert plain == {"Labels": {"own": "label"}, "TaskTemplate": {"Placement": {"Constraints": ["a==b"]}}}
