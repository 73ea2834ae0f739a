"""Instances that an orchestrator lists: their slots, those that wait, and those that are no longer wanted."""

from typing import Any

import pytest

from collector.common.orchestrator import Mode, OrchestratorState, ServiceView, TaskView
from collector.features.promises.live import PromiseTracker
from collector.features.promises.snapshot import TaskPromises
from collector.observe.registry import Registry
from tests.collector.builders import START, container
from tests.collector.features.promises.tracking.builders import SILVER, config, node, seconds
from wire.messages import ContainerState, Event, EventKind

SWARM = {"com.docker.swarm.service.id": "s"}


def swarm(name: str, service: str = "web", **changes: Any) -> ContainerState:
    """A container of a Swarm, whose service has the promise."""
    return container(name, service=service, labels=SWARM, **changes)


def task(number: int, slot: str | None = None, **changes: Any) -> TaskView:
    return TaskView(service="web", id=f"t{number}", slot=slot or str(number), **changes)


def running(number: int, name: str, on: str = "alpha", **changes: Any) -> TaskView:
    return task(number, container=f"id-of-{name}", node=on, **changes)


def web(*tasks: TaskView, instances: int | None = None, **labels: str) -> OrchestratorState:
    replicas = len(tasks) if instances is None else instances
    return OrchestratorState(
        services=(ServiceView(name="web", labels=labels or SILVER, replicas=replicas),), tasks=tasks
    )


@pytest.fixture
def registry() -> Registry:
    registry = Registry(config(driver="swarm"))
    registry.part(PromiseTracker).put_services(OrchestratorState(), START)
    return registry


def test_a_task_waits_from_its_creation_until_its_container_starts(registry: Registry) -> None:
    promises = registry.part(PromiseTracker)
    alpha = node(registry)
    promises.put_services(web(task(1, created_at=START + 4)), START + 10)
    promises.put_services(web(task(1, created_at=START + 4)), START + 20)
    assert seconds(promises.standings(START + 24)) == {("web", "1"): (0, 20)}
    assert promises.standings(START + 24).instances.incarnations == ("t1",)
    alpha.start(START + 30, swarm("a"), startup_seconds=1.5)
    promises.put_services(web(running(1, "a", created_at=START + 4)), START + 40)
    assert seconds(promises.standings(START + 40)) == {("web", "1"): (10, 26)}
    assert promises.standings(START + 40).instances.columns.startup_seconds.tolist() == [1.5]
    # The replacement has its slot.
    alpha.stop(START + 50, "a", exit_code=1)
    promises.put_services(web(task(2, "1", created_at=START + 50)), START + 55)
    alpha.start(START + 60, swarm("b"))
    promises.put_services(web(running(2, "b", created_at=START + 50, slot="1")), START + 70)
    assert seconds(promises.standings(START + 70)) == {("web", "1"): (30, 36)}


@pytest.mark.parametrize("is_listed_before_it_runs", [False, True])
def test_a_container_that_was_reported_before_its_labels_were_known_counts_as_the_orchestrator_lists_it(
    registry: Registry,
    is_listed_before_it_runs: bool,  # noqa: FBT001 - a case
) -> None:
    promises = registry.part(PromiseTracker)
    alpha = node(registry)
    promises.put_services(web(task(1, created_at=START + 4)), START + 4)
    alpha.start(START + 5, container("a", service=None, labels={}))
    if is_listed_before_it_runs:
        promises.put_services(web(running(1, "a", created_at=START + 4)), START + 6)
    else:
        alpha.report(START + 6, containers=(swarm("a"),))
    listed = web(running(1, "a", created_at=START + 4, running_since=START + 5))
    promises.put_services(listed, START + 10)
    promises.put_services(listed, START + 15)
    assert seconds(promises.standings(START + 20)) == {("web", "1"): (15, 1)}
    # Its end counts although the orchestrator still lists it as running.
    alpha.stop(START + 20, "a")
    promises.put_services(listed, START + 21)
    assert seconds(promises.standings(START + 30)) == {("web", "1"): (15, 11)}


def test_slo_columns_of_a_snapshot_are_by_container(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 5, swarm("a"), swarm("b"))
    registry.part(PromiseTracker).put_services(web(running(1, "a"), running(2, "b"), task(3)), START + 10)
    slo = registry.tables.snapshot(START + 20).part(TaskPromises)
    assert slo is not None
    assert [slo.promises[code].name for code in slo.promise.tolist()] == ["silver", "silver"]
    assert slo.decides_about(["t3", "unknown"]) == ["t3"]
    more = slo.with_waiting(["t3", "unknown"])
    assert more.admitted_seconds[2:].tolist() == [10, 0]
    assert more.promise.tolist() == [*[slo.promise[0]] * 3, -1]


def test_what_a_node_claims_counts_only_if_the_orchestrator_lists_it_there(registry: Registry) -> None:
    promises = registry.part(PromiseTracker)
    alpha, liar = node(registry), node(registry, "liar")
    alpha.start(START + 5, swarm("a"))
    promises.put_services(web(running(1, "a", created_at=START + 5)), START + 10)
    before = seconds(promises.standings(START + 100))
    liar.start(START + 20, swarm("a"), swarm("z"), container("y", service="web", labels=dict(SILVER)))
    liar.stop(START + 30, "a", "z", "y")
    promises.put_services(web(running(1, "a", created_at=START + 5)), START + 40)
    assert seconds(promises.standings(START + 100)) == before == {("web", "1"): (95, 0)}


def test_a_service_that_is_scaled_down_loses_its_vacant_slot(registry: Registry) -> None:
    promises = registry.part(PromiseTracker)
    alpha = node(registry)
    alpha.start(START + 5, swarm("a"), swarm("b"))
    both = running(1, "a", created_at=START + 4), running(2, "b", created_at=START + 4)
    promises.put_services(web(*both), START + 10)
    # A slot that is missing for a moment is still wanted.
    alpha.stop(START + 20, "a")
    promises.put_services(web(both[1], instances=2), START + 25)
    assert seconds(promises.standings(START + 30)) == {("web", "1"): (15, 11), ("web", "2"): (25, 1)}
    promises.put_services(web(both[1], instances=1), START + 30)
    assert seconds(promises.standings(START + 40)) == {("web", "2"): (35, 1)}
    # A pending task that is gone waits no more.
    promises.put_services(web(both[1], task(3, created_at=START + 31)), START + 40)
    assert ("web", "3") in seconds(promises.standings(START + 40))
    promises.put_services(web(both[1]), START + 50)
    assert seconds(promises.standings(START + 60)).keys() == {("web", "2")}


def test_a_service_that_is_removed_or_loses_its_label_is_withdrawn(registry: Registry) -> None:
    promises = registry.part(PromiseTracker)
    alpha = node(registry)
    alpha.start(START + 5, swarm("a"))
    listed = web(running(1, "a", created_at=START + 4, running_since=START + 5))
    for now, without in (
        (START + 10, OrchestratorState()),
        (START + 30, web(running(1, "a"), other="label")),
    ):
        promises.put_services(listed, now)
        assert promises.standings(now + 10).instances.slots == ("1",)
        promises.put_services(without, now + 10)
        assert promises.standings(now + 10).instances.slots == ()
    # A promise that is new counts from then on, and so does the container that runs already.
    promises.put_services(listed, START + 50)
    assert seconds(promises.standings(START + 60)) == {("web", "1"): (10, 0)}


def test_a_node_without_an_agent_is_known_by_the_orchestrator_alone(registry: Registry) -> None:
    promises = registry.part(PromiseTracker)
    bare = running(1, "a", "bare", created_at=START + 2, running_since=START + 6)
    promises.put_services(web(bare), START + 10)
    assert seconds(promises.standings(START + 16)) == {("web", "1"): (10, 4)}
    promises.put_services(web(instances=1), START + 20)
    assert seconds(promises.standings(START + 26)) == {("web", "1"): (14, 10)}


def test_tasks_that_were_there_before_the_first_look_count_from_then_on() -> None:
    promises = Registry(config(driver="swarm")).part(PromiseTracker)
    old = running(1, "a", "bare", created_at=START - 1e6, running_since=START - 1e5)
    promises.put_services(web(old), START)
    assert seconds(promises.standings(START + 10)) == {("web", "1"): (10, 0)}


def test_a_replacement_that_starts_first_continues_its_slot(registry: Registry) -> None:
    promises = registry.part(PromiseTracker)
    alpha, beta = node(registry), node(registry, "beta")
    alpha.start(START + 5, swarm("a"))
    promises.put_services(web(running(1, "a", created_at=START + 5)), START + 10)
    beta.start(START + 20, swarm("b"))
    both = running(1, "a"), running(2, "b", "beta", slot="1", created_at=START + 19)
    promises.put_services(web(*both, instances=1), START + 22)
    alpha.stop(START + 25, "a")
    promises.put_services(web(both[1]), START + 30)
    assert seconds(promises.standings(START + 40)) == {("web", "1"): (35, 0)}


def test_the_first_container_of_a_pod_stands_for_it(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 5, swarm("main"), swarm("sidecar"))
    pod = [
        TaskView(service="web", id="p", container=f"id-of-{name}", node="alpha", created_at=START + 5)
        for name in ("main", "sidecar")
    ]
    registry.part(PromiseTracker).put_services(web(*pod, instances=1), START + 10)
    slo = registry.tables.snapshot(START + 20).part(TaskPromises)
    assert slo is not None
    assert (slo.promise >= 0).tolist() == [True, False]
    # It restarts in the same pod.
    alpha.stop(START + 20, "main", exit_code=1)
    alpha.start(START + 25, swarm("main2"))
    pod[0] = TaskView(service="web", id="p", container="id-of-main2", node="alpha", created_at=START + 5)
    registry.part(PromiseTracker).put_services(web(*pod, instances=1), START + 30)
    assert seconds(registry.part(PromiseTracker).standings(START + 35)) == {("web", "1"): (25, 5)}


@pytest.mark.parametrize(
    ("events", "waiting_seconds"), [((), 20), ((Event(EventKind.DIED, START + 8, "id-of-a"),), 22)]
)
def test_a_container_that_ended_before_its_promise_is_known_waits_for_its_replacement(
    registry: Registry, events: tuple[Event, ...], waiting_seconds: float
) -> None:
    promises = registry.part(PromiseTracker)
    alpha = node(registry)
    alpha.start(START + 5, swarm("a"))
    promises.put_services(web(running(1, "a", created_at=START - 5)), START + 10)
    alpha.report(START + 8, received_at=START + 12, gone=("id-of-a",), events=events)
    promises.put_services(web(task(2, "1", created_at=START + 13), instances=1), START + 20)
    assert seconds(promises.standings(START + 30)) == {("web", "1"): (0, waiting_seconds)}


def test_single_containers_are_not_instances_and_a_global_service_has_as_many_as_tasks(
    registry: Registry,
) -> None:
    alone = ServiceView(name="lone", mode=Mode.STANDALONE, labels=SILVER)
    everywhere = ServiceView(name="web", mode=Mode.GLOBAL, labels=SILVER)
    tasks = (*(task(number) for number in (1, 2)), TaskView(service="lone", container="c", node="alpha"))
    state = OrchestratorState(services=(alone, everywhere), tasks=tasks)
    for at in (START + 10, START + 20):
        registry.part(PromiseTracker).put_services(state, at)
    assert seconds(registry.part(PromiseTracker).standings(START + 20)).keys() <= {("web", "1"), ("web", "2")}
