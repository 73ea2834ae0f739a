from collections.abc import Callable
from typing import Any

import pytest

from collector.act.orchestrator_state import CompletedActions, allocations, node_statuses
from collector.act.records import Step
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.decide.policies.actions import Action, Cut, Move, PowerOff, PowerOn
from collector.observe.updates import Allocation
from wire.resources import Quantities

_NOTHING_DONE = CompletedActions.of(())


def test_managers_are_never_switched_off_and_keep_their_own_labels() -> None:
    seen = OrchestratorState(
        nodes=(NodeView(name="a", labels={"zone": "z"}, is_manager=True), NodeView(name="b"))
    )
    labels = {host.name: dict(host.labels) for host in node_statuses(seen, _NOTHING_DONE)}
    never = {"node.role": "manager", "wattpack.power": "never"}
    assert labels == {"a": {"zone": "z", **never}, "b": {}}


def test_global_services_of_an_orchestrator_are_marked_as_such() -> None:
    services = (ServiceView(name="agent", mode=Mode.GLOBAL), ServiceView(name="web"))
    tasks = [
        TaskView(container=f"id-of-{each.name}", service=each.name, node="a", state="running")
        for each in services
    ]
    listed = allocations(
        OrchestratorState(services=services, tasks=tuple(tasks)), _NOTHING_DONE, opt_in=False
    )
    assert {each.container: each.everywhere for each in listed} == {"id-of-agent": True, "id-of-web": False}


def allocation_of(service: ServiceView, *steps: Step, opt_in: bool = False) -> Allocation:
    """The allocation of the one container of a service."""
    task = TaskView(container="id-of-web", service=service.name, node="a", state="running")
    seen = OrchestratorState(services=(service,), tasks=(task,))
    (allocation,) = allocations(seen, CompletedActions.of(steps), opt_in=opt_in)
    return allocation


def test_the_labels_of_a_service_come_with_its_containers() -> None:
    labels = {"wattpack.class": "4", "wattpack.kind": "daemon"}
    view = OrchestratorState(
        services=(ServiceView(name="web", labels=labels),),
        tasks=(TaskView(container="id-of-web", service="web", node="alpha", state="running"),),
    )
    [allocation] = allocations(view, CompletedActions.of(()), opt_in=False)
    assert allocation.labels == labels


def test_a_container_has_the_reservation_of_its_service_or_else_its_limit() -> None:
    web = ServiceView(name="web", reserve=Quantities(cpu_cores=0.5), limit=Quantities(2.0, 1000))
    assert allocation_of(web).requested[:2] == (0.5, 1000)


@pytest.mark.parametrize(
    ("changes", "opt_in", "stays"),
    [
        ({}, False, False),
        ({"stays": "it has a volume"}, False, True),
        ({"labels": {"wattpack.act": "never"}}, False, True),
        ({}, True, True),
        ({"labels": {"wattpack.act": "allowed"}}, True, False),
    ],
)
def test_immovable_and_opted_out_containers_stay(changes: dict[str, Any], opt_in: bool, stays: bool) -> None:  # noqa: FBT001 - a case
    assert allocation_of(ServiceView(name="web", **changes), opt_in=opt_in).stays is stays


def done(kind: Callable[..., Action], **about: Any) -> Step:
    action = kind(reasons=(), **about)
    return Step(action=action, requested=Quantities(2.0, 1000), containers=("id-of-web",))


def test_a_cut_container_keeps_its_requested_limits() -> None:
    cut = done(Cut, task="id-of-web", node="a", allocated=Quantities(1.0, 500))
    found = allocation_of(ServiceView(name="web", reserve=Quantities(9.0)), cut)
    assert (found.requested[:2], found.allocated[:2]) == ((2.0, 1000), (1.0, 500))


def test_cut_container_without_an_orchestrator_is_listed_too() -> None:
    cut = done(Cut, task="id-of-alone", node="b", allocated=Quantities(1.0, 500))
    (found,) = allocations(OrchestratorState(), CompletedActions.of((cut,)), opt_in=False)
    assert (found.node, found.container, found.allocated[:2]) == ("b", "id-of-alone", (1.0, 500))


def test_a_replacement_has_the_previous_node_of_the_moved_container() -> None:
    moved = done(Move, task="id-of-old", node="b", target="a")
    assert allocation_of(ServiceView(name="web"), moved).came_from == "b"


def test_a_node_that_was_switched_off_is_off_and_accepts_containers_once_it_is_on() -> None:
    drained = OrchestratorState(nodes=(NodeView(name="a", accepts=False),))
    off, on = done(PowerOff, node="a"), done(PowerOn, node="a")
    cases = {(): (True, False), (off,): (False, True), (off, on): (True, False)}
    for steps, expected in cases.items():
        (host,) = node_statuses(drained, CompletedActions.of(steps))
        assert (host.on, host.accepts) == expected


def test_node_that_opted_out_accepts_nothing_even_when_it_is_off() -> None:
    unwilling = OrchestratorState(nodes=(NodeView(name="a", labels={"wattpack.act": "never"}),))
    for steps in ((), (done(PowerOff, node="a"),)):
        (host,) = node_statuses(unwilling, CompletedActions.of(steps))
        assert not host.accepts


def test_a_node_that_the_orchestrator_does_not_have_accepts_nothing() -> None:
    view = OrchestratorState(nodes=(NodeView(name="a"),))
    statuses = {
        each.name: each.accepts for each in node_statuses(view, CompletedActions.of(()), ("a", "stranger"))
    }
    assert statuses == {"a": True, "stranger": False}
    assert list(node_statuses(OrchestratorState(), CompletedActions.of(()), ("a",))) == []
