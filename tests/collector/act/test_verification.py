"""Whether a step was done, by what agents show and by what an orchestrator says."""

from typing import Any

import msgspec
import pytest

from collector.act.records import Step
from collector.act.verification import find_effect, load
from collector.common.liveness import Liveness
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Resize, Scale, Start
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

_OLD, _NEW, _SIBLING = "id-old", "id-new", "id-sibling"


MOVE = Move(task=_OLD, name="web", node="alpha", target="beta", reasons=())
KILL = Kill(task=_OLD, name="web", node="alpha", target="beta", reasons=())


def step(action: Action, **facts: Any) -> Step:
    """A step about the service `web`."""
    return Step(action=action, service="web", **facts)


def cut(allocated: Quantities) -> Step:
    return step(Cut(task=_OLD, name="web", node="alpha", allocated=allocated, reasons=()))


def power(kind: type[PowerOn | PowerOff], node: str = "beta") -> Step:
    return Step(action=kind(node=node, reasons=()))


def lone(*containers: tuple[str, str]) -> Snapshot:
    """Two nodes, and containers without a service on them."""
    return snapshot(*containers, service=None)


def snapshot(*containers: tuple[str, str], service: str | None = "web", **beta: Any) -> Snapshot:
    """Two nodes, and containers of `web` on them."""
    capacity = amount(4, 8, 1, 1)
    nodes = [
        NodeFacts(name="alpha", capacity=capacity, used=amount(2, 1)),
        NodeFacts(**{"name": "beta", "capacity": capacity, "used": amount(1, 6), **beta}),
    ]
    tasks = [TaskFacts(id=each, node=node, used=amount(1, 1), service=service) for each, node in containers]
    return assemble(nodes, tasks)


def test_a_move_shows_once_something_new_runs_there_and_the_old_one_is_gone() -> None:
    move = step(MOVE, there_before=(_SIBLING,))
    beside = (_SIBLING, "beta")
    assert find_effect(move, snapshot((_OLD, "alpha"), beside), {}) is None
    assert find_effect(move, snapshot((_OLD, "alpha"), (_NEW, "beta"), beside), {}) is None, (
        "it still runs twice"
    )
    assert find_effect(move, snapshot(beside), {}) is None, "an earlier container is not the moved one"
    assert find_effect(move, snapshot((_NEW, "beta"), beside), {}) == frozenset({_NEW})


def test_where_the_orchestrator_names_the_new_container_no_other_shows_the_move() -> None:
    move = step(MOVE, containers=(_NEW,))
    assert find_effect(move, snapshot(("id-of-somebody", "beta")), {}) is None
    assert find_effect(move, snapshot(("id-of-somebody", "beta"), (_NEW, "beta")), {}) == frozenset({_NEW})


@pytest.mark.parametrize("action", [MOVE, KILL])
def test_a_container_without_a_service_is_found_by_the_id_that_the_driver_returns(action: Action) -> None:
    alone = Step(action=action, containers=(_NEW,))
    assert find_effect(alone, lone((_OLD, "alpha"), (_NEW, "beta")), {}) is None, "it still runs twice"
    assert find_effect(alone, lone((_SIBLING, "beta")), {}) is None
    assert find_effect(alone, lone((_NEW, "beta")), {}) == frozenset({_NEW})
    assert find_effect(alone, lone((_NEW, "alpha")), {}) == frozenset({_NEW}), "wherever it runs"


def test_a_stop_shows_once_the_container_is_gone() -> None:
    kill = step(msgspec.structs.replace(KILL, target=None))
    assert find_effect(kill, snapshot((_OLD, "alpha")), {}) is None
    assert find_effect(kill, snapshot(), {}) == frozenset()


def test_a_start_has_no_source() -> None:
    start = step(Start(task=_OLD, name="web", target="beta", reasons=()))
    assert find_effect(start, snapshot(), {}) is None
    assert find_effect(start, snapshot((_NEW, "beta")), {}) == frozenset({_NEW})


@pytest.mark.parametrize(
    ("limit", "is_shown"),
    [
        (Quantities(1.0, 1_000_000), True),
        (Quantities(1.01, 1_000_000), True),
        (Quantities(1.1, 1_000_000), False),
        (Quantities(1.0, 2_000_000), False),
        (Quantities(1.0, None), False),
        (None, False),
    ],
)
def test_a_cut_shows_by_limits_close_to_the_wanted_ones(limit: Quantities | None, is_shown: bool) -> None:  # noqa: FBT001 - a case
    limits = {} if limit is None else {_OLD: limit}
    found = find_effect(cut(Quantities(1.0, 1_000_000)), snapshot((_OLD, "alpha")), limits)
    assert (found is not None) is is_shown


def test_a_cut_of_one_resource_ignores_the_other() -> None:
    limits = {_OLD: Quantities(1.0, 5)}
    assert find_effect(cut(Quantities(1.0)), snapshot((_OLD, "alpha")), limits) == frozenset({_OLD})


def test_node_switched_on_must_report_and_node_switched_off_may_still_report() -> None:
    assert find_effect(power(PowerOn), snapshot(liveness=Liveness.DOWN), {}) is None
    assert find_effect(power(PowerOn), snapshot(), {}) == frozenset()
    assert find_effect(power(PowerOff), snapshot(), {}) == frozenset()
    assert find_effect(power(PowerOff, "nobody"), snapshot(), {}) is None


def test_load_is_the_fullest_resource_of_each_node_and_watts_may_be_unknown() -> None:
    found = load(snapshot(bottleneck=(False, True, False, False)), frozenset({"beta", "unheard-of"}))
    assert found.used_ratios == {"beta": 0.75}
    assert found.watts is None
    assert [(alert.node, alert.resource) for alert in found.alerts] == [("beta", "memory")]


SCALE = Scale(service="web", replicas=2, replicas_before=1, reasons=())
RESIZE = Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=())


def test_more_replicas_show_once_agents_report_all_containers_that_the_driver_names() -> None:
    more = step(SCALE, there_before=(_OLD,), containers=(_OLD, _NEW))
    assert find_effect(more, snapshot((_OLD, "alpha")), {}) is None
    assert find_effect(more, snapshot((_OLD, "alpha"), (_NEW, "beta")), {}) == frozenset({_OLD, _NEW})


def test_fewer_replicas_show_once_no_agent_reports_those_that_ended() -> None:
    fewer = step(
        msgspec.structs.replace(SCALE, replicas=1, replicas_before=2),
        there_before=(_OLD, _NEW),
        containers=(_OLD,),
    )
    assert find_effect(fewer, snapshot((_OLD, "alpha"), (_NEW, "beta")), {}) is None
    assert find_effect(fewer, snapshot((_OLD, "alpha")), {}) == frozenset({_OLD})
    none = step(msgspec.structs.replace(SCALE, replicas=0), there_before=(_OLD,))
    assert find_effect(none, snapshot((_OLD, "alpha")), {}) is None
    assert find_effect(none, snapshot(), {}) == frozenset()


def test_another_limit_shows_once_agents_report_it_for_every_container() -> None:
    resized = step(RESIZE, containers=(_OLD, _NEW))
    limits = {_OLD: Quantities(0.5), _NEW: Quantities(1.0)}
    assert find_effect(resized, snapshot(), limits) is None
    assert find_effect(resized, snapshot(), {_OLD: Quantities(0.5)}) is None
    assert find_effect(resized, snapshot(), {**limits, _NEW: Quantities(0.501)}) == frozenset({_OLD, _NEW})
