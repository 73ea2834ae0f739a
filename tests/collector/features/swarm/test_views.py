from typing import Any

import msgspec
import pytest

from collector.act.drivers.interface import DriverError
from collector.common.orchestrator import Mode
from collector.features.swarm.models import SwarmNode, SwarmService, SwarmState, SwarmTask
from collector.features.swarm.moves import plan_path
from collector.features.swarm.specs import Order, with_constraints
from collector.features.swarm.views import service_view, view_of
from wire.resources import Quantities

ALLOWED, NEVER = {"wattpack.move": "allowed"}, {"wattpack.move": "never"}
LEAVE = "and no label wattpack.move=allowed"


def service(
    *,
    mode: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    constraints: tuple[str, ...] = (),
    update: str = "",
    **container: Any,
) -> SwarmService:
    spec = {
        "Name": "web",
        "Labels": labels or {},
        "Mode": mode or {"Replicated": {"Replicas": 2}},
        "TaskTemplate": {
            "ContainerSpec": {"Image": "web:1", **container},
            "Placement": {"Constraints": list(constraints)},
            "Resources": {
                "Limits": {"NanoCPUs": 500_000_000},
                "Reservations": {"MemoryBytes": 64 << 20},
            },
        },
    }
    answer = {"ID": "s", "Version": {"Index": 3}, "Spec": spec, "UpdateStatus": {"State": update}}
    return msgspec.convert(answer, SwarmService)


def mount(kind: str, source: str = "data", **more: Any) -> dict[str, Any]:
    return {"Mounts": [{"Type": kind, "Source": source, "Target": "/data", **more}]}


def test_only_services_without_a_reservation_are_worth_a_cut() -> None:
    reserves = service()
    assert service_view(reserves).uncut == "Swarm keeps its reservation of 67 MB, whatever its limits are"
    template = {**reserves.spec["TaskTemplate"], "Resources": {"Limits": {"NanoCPUs": 500_000_000}}}
    limited = msgspec.structs.replace(reserves, spec={**reserves.spec, "TaskTemplate": template})
    assert service_view(limited).uncut is None


@pytest.mark.parametrize(
    ("described", "stays"),
    [
        ({}, None),
        ({"labels": NEVER}, "its label wattpack.move is never"),
        ({"Labels": NEVER}, "its label wattpack.move is never"),
        ({"mode": {"Global": {}}, "labels": ALLOWED}, "it runs on every node"),
        ({"mode": {"ReplicatedJob": {}}, "labels": ALLOWED}, "it is a job, which would start over"),
        ({"mode": {"GlobalJob": {}}}, "it is a job, which would start over"),
        (
            {"constraints": ("node.role==worker", "node.hostname == a"), "labels": ALLOWED},
            "its constraint pins it to a",
        ),
        ({"constraints": ("node.hostname!=a", "node.labels.zone==x")}, None),
        ({"mode": {"Replicated": {"Replicas": 1}}}, f"it has one replica {LEAVE}"),
        ({"mode": {"Replicated": {"Replicas": 1}}, "labels": ALLOWED}, None),
        ({"mode": {"Replicated": {"Replicas": 1}}, "Labels": ALLOWED}, None),
        (mount("bind", "/srv"), f"it uses the directory /srv, which stays behind {LEAVE}"),
        (mount("volume"), f"it uses the local volume data, which stays behind {LEAVE}"),
        ({**mount("volume"), "labels": ALLOWED}, None),
        (mount("volume", VolumeOptions={"DriverConfig": {"Name": "nfs"}}), None),
        (mount("tmpfs"), None),
    ],
)
def test_reasons_to_stay(described: dict[str, Any], stays: str | None) -> None:
    assert service_view(service(**described)).stays == stays


def test_service_is_listed_as_its_user_wrote_it_also_while_it_moves() -> None:
    plain = service(constraints=("node.role==worker",), labels={"own": "1"})
    moving = msgspec.structs.replace(
        plain, spec=with_constraints(plain.spec, ["node.id==x"], Order.START, 5.0)
    )
    for each in (plain, moving):
        view = service_view(each)
        assert (view.mode, view.replicas, view.image) == (Mode.REPLICATED, 2, "web:1")
        assert view.constraints == ("node.role==worker",)
        assert view.labels == {"own": "1"}
        assert (view.limit, view.reserve) == (Quantities(0.5), Quantities(None, 64 << 20))


def node(name: str, availability: str = "active", state: str = "ready") -> SwarmNode:
    answer = {
        "ID": f"id-{name}",
        "Spec": {"Availability": availability},
        "Description": {"Hostname": name},
        "Status": {"State": state},
    }
    return msgspec.convert(answer, SwarmNode)


def task(number: int, on: str) -> SwarmTask:
    answer = {
        "ID": f"t{number}",
        "ServiceID": "s",
        "NodeID": f"id-{on}",
        "DesiredState": "running",
        "Status": {"State": "running", "ContainerStatus": {"ContainerID": f"c{number}"}},
    }
    return msgspec.convert(answer, SwarmTask)


def cluster(*on: str, described: SwarmService | None = None, nodes: tuple[SwarmNode, ...] = ()) -> SwarmState:
    there = nodes or tuple(node(name) for name in "abcd")
    return SwarmState(
        there, (described or service(),), tuple(task(number, each) for number, each in enumerate(on))
    )


def test_constraints_leave_a_replica_the_target_and_the_nodes_of_its_peers() -> None:
    seen = cluster("a", "b")
    path = plan_path(seen, seen.tasks[0], "c")
    assert path.constraints == ["node.id!=id-a", "node.id!=id-d"]
    assert path.rollback_constraints == ["node.id!=id-c"]
    assert path.service.update_order is Order.START


def test_a_service_on_one_node_is_constrained_to_the_target() -> None:
    seen = cluster("a", "a")
    path = plan_path(seen, seen.tasks[0], "c")
    assert (path.constraints, path.rollback_constraints) == (["node.id==id-c"], ["node.id==id-a"])


def test_a_target_that_already_has_a_replica_keeps_it_in_a_rollback() -> None:
    seen = cluster("a", "b")
    path = plan_path(seen, seen.tasks[0], "b")
    assert path.constraints == ["node.id==id-b"]
    assert path.rollback_constraints == []


def test_tasks_that_write_to_the_same_data_stop_first() -> None:
    written = service(labels=ALLOWED, **mount("bind", "/srv"))
    read = service(labels=ALLOWED, **mount("bind", "/srv", ReadOnly=True))
    orders = [
        plan_path(seen, seen.tasks[0], "c").service.update_order
        for seen in (cluster("a", described=each) for each in (written, read))
    ]
    assert orders == [Order.STOP, Order.START]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ((node("a"), node("c", availability="drain")), "the node is down, paused or drained"),
        ((node("a"), node("c", availability="pause")), "the node is down, paused or drained"),
        ((node("a"), node("c", state="down")), "the node is down, paused or drained"),
        ((node("a"), node("b")), "there is no node c in the Swarm"),
        ((node("a"), node("c"), node("c")), "several nodes of the Swarm are called c"),
    ],
)
def test_a_target_must_accept_tasks(nodes: tuple[SwarmNode, ...], why: str) -> None:
    seen = cluster("a", nodes=nodes)
    with pytest.raises(DriverError, match=why):
        plan_path(seen, seen.tasks[0], "c")


def test_a_service_that_is_being_updated_does_not_move() -> None:
    seen = cluster("a", described=service(update="updating"))
    with pytest.raises(DriverError, match="is being updated"):
        plan_path(seen, seen.tasks[0], "c")


def test_tasks_without_a_container_or_that_end_are_not_listed() -> None:
    ending = msgspec.structs.replace(task(1, "b"), desired_state="shutdown")
    pending = msgspec.convert({"ID": "t2", "ServiceID": "s", "DesiredState": "running"}, SwarmTask)
    unknown = msgspec.structs.replace(task(3, "a"), service_id="made since")
    nowhere = task(4, "removed since")
    seen = SwarmState.of(
        (node("a"), node("b")), (service(),), (task(0, "a"), ending, pending, unknown, nowhere)
    )
    assert [each.id for each in seen.tasks] == ["t0", "t1", "t2"]
    view = view_of(seen)
    assert [(each.container, each.service, each.node) for each in view.tasks] == [("c0", "web", "a")]


_TASKS = b"""[
 {"ID": "0kzzo1i0y4jz", "Version": {"Index": 71}, "CreatedAt": "2026-11-16T21:10:52.614891072Z",
  "UpdatedAt": "2026-11-16T21:10:53.114891072Z", "ServiceID": "s", "Slot": 1, "NodeID": "id-a",
  "Spec": {"ContainerSpec": {"Image": "web:1"}, "ForceUpdate": 0},
  "Status": {"Timestamp": "2026-11-16T21:10:55.5Z", "State": "running", "Message": "started",
             "ContainerStatus": {"ContainerID": "c1", "PID": 677, "ExitCode": 0}},
  "DesiredState": "running"},
 {"ID": "1yljwbmlr8er", "Version": {"Index": 61}, "CreatedAt": "2026-11-16T21:11:02Z",
  "ServiceID": "s", "Slot": 2, "Spec": {"ContainerSpec": {"Image": "web:1"}, "ForceUpdate": 0},
  "Status": {"Timestamp": "2026-11-16T21:11:02.2Z", "State": "pending", "Message": "pending task scheduling",
             "Err": "no suitable node (insufficient resources on 3 nodes)"},
  "DesiredState": "running"},
 {"ID": "2preparing", "CreatedAt": "0001-01-01T00:00:00Z", "ServiceID": "s", "Slot": 3, "NodeID": "id-b",
  "Status": {"Timestamp": "2026-11-16T21:11:04Z", "State": "preparing", "Message": "preparing",
             "ContainerStatus": null},
  "DesiredState": "running"},
 {"ID": "3old", "CreatedAt": "2026-11-16T20:00:00Z", "ServiceID": "s", "Slot": 2, "NodeID": "id-a",
  "Status": {"Timestamp": "2026-11-16T21:11:01Z", "State": "failed", "Err": "task: non-zero exit (1)",
             "ContainerStatus": {"ContainerID": "c0", "PID": 0, "ExitCode": 1}},
  "DesiredState": "shutdown"}
]"""
_CREATED = 1794863452.0
"""2026-11-16T21:10:52Z."""


def test_tasks_carry_their_slot_and_times_and_those_that_wait_are_listed_with_what_they_need() -> None:
    tasks = msgspec.json.decode(_TASKS, type=tuple[SwarmTask, ...])
    promised = service(labels={"wattpack.slo": "silver"}, constraints=("node.role==worker",))
    promised.spec["TaskTemplate"]["Placement"]["MaxReplicas"] = 1
    view = view_of(SwarmState.of((node("a"), node("b")), (promised,), tasks))
    [running] = view.tasks
    assert (running.container, running.id, running.slot) == ("c1", "0kzzo1i0y4jz", "1")
    assert running.created_at == pytest.approx(_CREATED + 0.614891)
    assert running.running_since == pytest.approx(_CREATED + 3.5)
    placeless, preparing = view.pending
    assert (placeless.id, placeless.service, placeless.slot, placeless.node) == (
        "1yljwbmlr8er",
        "web",
        "2",
        "",
    )
    assert placeless.created_at == _CREATED + 10
    [web] = view.services
    # Its limit of the CPU counts, as for a task that runs.
    assert web.reserved_by(placeless) == Quantities(0.5, 64 << 20)
    assert (web.constraints, web.spread) == (("node.role==worker",), True)
    assert web.labels == {"wattpack.slo": "silver"}
    assert (preparing.id, preparing.node, preparing.created_at) == ("2preparing", "b", None)


def test_a_task_of_a_global_service_has_its_node_as_slot() -> None:
    view = view_of(SwarmState.of((node("a"),), (service(mode={"Global": {}}),), (task(0, "a"),)))
    assert [each.slot for each in view.tasks] == ["a"]
