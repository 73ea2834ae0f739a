"""Starts and ends that nodes report, without an orchestrator."""

import msgspec
import numpy as np
import pytest

from collector.config import LimitsConfig
from collector.features.promises.live import PromiseTracker
from collector.features.promises.snapshot import NO_PROMISE, TaskPromises
from collector.observe.registry import Registry
from collector.observe.updates import Succession
from tests.collector.builders import START, container
from tests.collector.features.promises.tracking.builders import (
    BEACON_SECONDS,
    SILVER,
    config,
    node,
    note_silence,
    promised,
    seconds,
)
from wire.messages import Event, EventKind

SHOP = "shop", "1"
DOWN_SECONDS = 10 * BEACON_SECONDS


@pytest.fixture
def registry() -> Registry:
    return Registry(config())


def test_running_and_waiting_time_add_up_over_the_runs_of_a_container(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("web"), startup_seconds=2.0)
    alpha.stop(START + 40, "web", exit_code=1)
    assert seconds(registry.part(PromiseTracker).standings(START + 50)) == {SHOP: (30, 10)}
    alpha.start(START + 60, promised("web"))
    assert seconds(registry.part(PromiseTracker).standings(START + 100)) == {SHOP: (70, 20)}
    standings = registry.part(PromiseTracker).standings(START + 100)
    assert standings.instances.columns.startup_seconds.tolist() == [2.0]
    assert [each.target_ratio for each in standings.services] == [0.9]


@pytest.mark.parametrize("skew_seconds", [-7200.0, 0.0, 7200.0])
def test_the_clock_of_a_node_does_not_matter(registry: Registry, skew_seconds: float) -> None:
    alpha = node(registry, skew_seconds=skew_seconds)
    alpha.start(START + 10, promised("web"))
    alpha.stop(START + 40, "web", exit_code=1)
    assert seconds(registry.part(PromiseTracker).standings(START + 50)) == {SHOP: (30, 10)}


def test_a_container_that_was_running_before_counts_from_the_first_report_of_its_node_on(
    registry: Registry,
) -> None:
    alpha = node(registry)
    web = promised("web", started_at=START - 1e6)
    alpha.restart("second")
    alpha.containers[web.id] = web
    alpha.heartbeat(START + 5)
    assert seconds(registry.part(PromiseTracker).standings(START + 50)) == {SHOP: (50, 0)}
    beta = promised("other", service="found", started_at=START - 1e6)
    found = node(registry, "beta", START + 20)
    assert not found.containers
    registry.apply(
        msgspec.structs.replace(found.heartbeat(START + 21), node="gamma", containers=(beta,)), START + 30
    )
    assert seconds(registry.part(PromiseTracker).standings(START + 50))["found", "1"] == (20, 0)


def test_an_end_without_an_event_and_the_event_of_the_next_report_are_one_end(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("web"))
    alpha.stop(START + 40, "web", event=False)
    alpha.report(START + 43, events=(Event(EventKind.DIED, START + 39, "id-of-web", exit_code=1),))
    assert seconds(registry.part(PromiseTracker).standings(START + 49)) == {SHOP: (29, 10)}


def test_a_container_that_restarts_between_two_samples_waits_in_between(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("web"))
    events = (
        Event(EventKind.DIED, START + 20, "id-of-web", exit_code=1),
        Event(EventKind.STARTED, START + 22, "id-of-web"),
    )
    web = promised("web", started_at=START + 22)
    alpha.report(START + 23, gone=("id-of-web",), containers=(web,), events=events)
    assert seconds(registry.part(PromiseTracker).standings(START + 30)) == {SHOP: (18, 2)}


def test_repeated_states_and_late_reports_change_nothing_that_they_should_not(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("web"))
    alpha.heartbeat(START + 20)
    alpha.heartbeat(START + 30)
    alpha.stop(START + 40, "web", exit_code=1)
    # A start that was reported before the last heartbeat, and arrives only now.
    late = Event(EventKind.STARTED, START + 9, "id-of-web", startup_seconds=4.0)
    registry.apply(alpha.heartbeat(START + 41), START + 41)
    alpha.report(START + 42, received_at=START + 60, events=(late,))
    running, waiting = seconds(registry.part(PromiseTracker).standings(START + 50))[SHOP]
    assert running == pytest.approx(30, abs=4)
    assert waiting == pytest.approx(10, abs=1e-6)


def test_containers_without_a_promise_are_not_in_the_ledger(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 1, container("plain"), container("odd", labels={"wattpack.slo": "platinum"}))
    assert registry.part(PromiseTracker).standings(START + 10).names == ()
    assert registry.tables.snapshot(START + 10).part(TaskPromises) is None


def test_a_container_whose_labels_are_known_later_counts_as_well(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, container("web", service=None))
    alpha.heartbeat(START + 11)
    alpha.containers["id-of-web"] = promised("web", started_at=START + 10)
    alpha.heartbeat(START + 13)
    assert seconds(registry.part(PromiseTracker).standings(START + 20)) == {SHOP: (10, 0)}
    alpha.stop(START + 20, "web", exit_code=1)
    assert seconds(registry.part(PromiseTracker).standings(START + 30)) == {SHOP: (10, 10)}


def test_a_node_cannot_fill_the_memory_with_ever_new_names() -> None:
    limits = LimitsConfig(max_containers=2)
    registry = Registry(msgspec.structs.replace(config(), limits=limits))
    alpha = node(registry)
    for number in range(10):
        alpha.start(START + 10 * number, promised(f"c{number}", f"service-{number}"))
        alpha.stop(START + 10 * number + 5, f"c{number}")
    assert len(registry.part(PromiseTracker).standings(START + 200).names) == 4
    registry.part(PromiseTracker).forget(START + 100)
    registry.part(PromiseTracker).forget(START + 100)
    alpha.start(START + 200, promised("new", "new"))
    assert registry.part(PromiseTracker).standings(START + 200).names == ("new",)


def test_the_default_class_is_for_all_but_daemons() -> None:
    registry = Registry(config(default_class="bronze"))
    alpha = node(registry)
    alpha.start(
        START + 1,
        container("plain", service=None),
        container("gold", service="gold", labels={"wattpack.slo": "gold"}),
        container("agent", service="agent", labels={"wattpack.kind": "daemon"}),
        container("job", service="job", labels={"wattpack.kind": "job"}),
    )
    standings = registry.part(PromiseTracker).standings(START + 10)
    names = [each.slo_class for each in standings.services]
    assert dict(zip(standings.names, names, strict=True)) == {
        "plain": "bronze",
        "gold": "gold",
        "job": "bronze",
    }


def test_a_silent_node_lets_its_instances_wait_from_its_last_report_on(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("web"))
    alpha.report(START + 20)
    note_silence(registry, START + 22)
    assert seconds(registry.part(PromiseTracker).standings(START + 22)) == {SHOP: (12, 0)}
    now = START + 20 + DOWN_SECONDS
    note_silence(registry, now)
    note_silence(registry, now + 1)
    assert seconds(registry.part(PromiseTracker).standings(now)) == {SHOP: (10, DOWN_SECONDS)}
    # It comes back, and the container ran all along.
    alpha.report(now + 10)
    assert seconds(registry.part(PromiseTracker).standings(now + 10)) == {SHOP: (20 + DOWN_SECONDS, 0)}


def test_a_container_that_is_gone_when_its_silent_node_comes_back_does_not_run_on(registry: Registry) -> None:
    """The report of its end was made before the last one was received: the end must not be its start."""
    alpha = node(registry)
    alpha.start(START + 5, promised("a"))
    alpha.report(START + 10, received_at=START + 13)
    note_silence(registry, START + 2000)
    alpha.report(START + 12, received_at=START + 2100, gone=("id-of-a",))
    [(running, waiting)] = seconds(registry.part(PromiseTracker).standings(START + 3000)).values()
    assert running == pytest.approx(8, abs=1)
    assert running + waiting == pytest.approx(2995)


def test_a_node_that_comes_back_with_another_run_continues_what_ran_all_along(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("web"), promised("db", "store"), promised("old", "legacy"))
    now = START + 10 + DOWN_SECONDS
    note_silence(registry, now)
    alpha.restart("second")
    del alpha.containers["id-of-old"]
    again = msgspec.structs.replace(alpha.containers["id-of-db"], started_at=now - 5)
    alpha.containers["id-of-db"] = again
    alpha.heartbeat(now + 10)
    assert seconds(registry.part(PromiseTracker).standings(now + 10)) == {
        SHOP: (DOWN_SECONDS + 10, 0),
        ("store", "1"): (15, DOWN_SECONDS - 5),
        ("legacy", "1"): (0, DOWN_SECONDS + 10),
    }


def test_a_renamed_node_continues_what_ran_all_along(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("web"))
    now = START + 10 + DOWN_SECONDS
    note_silence(registry, now)
    renamed = node(registry, "renamed", now)
    renamed.containers = alpha.containers
    renamed.heartbeat(now + 3)
    assert seconds(registry.part(PromiseTracker).standings(now + 10)) == {SHOP: (DOWN_SECONDS + 10, 0)}


def test_a_moved_container_takes_the_slot_of_its_predecessor(registry: Registry) -> None:
    alpha, beta = node(registry), node(registry, "beta")
    alpha.start(START + 10, promised("one"))
    alpha.start(START + 20, promised("two"))
    alpha.stop(START + 30, "one")
    alpha.stop(START + 40, "two")
    registry.add_successions(
        [Succession(node="beta", container="id-of-next", from_node="alpha", predecessor="id-of-two")]
    )
    beta.start(START + 50, promised("next"))
    # Without the succession, it would take the slot that has waited longest.
    assert seconds(registry.part(PromiseTracker).standings(START + 60)) == {
        SHOP: (20, 30),
        ("shop", "2"): (30, 10),
    }


def test_what_the_collector_stopped_was_preempted_and_did_not_complete() -> None:
    registry = Registry(config())
    alpha = node(registry)
    job = promised("job", "job", labels={**SILVER, "wattpack.kind": "job"})
    alpha.start(START + 10, job, startup_seconds=5.0)
    registry.part(PromiseTracker).expect_stop("id-of-job")
    alpha.stop(START + 40, "job", exit_code=0)
    standings = registry.part(PromiseTracker).standings(START + 50)
    assert [each.preemptions for each in standings.services] == [1]
    assert standings.instances.waiting_seconds.tolist() == [10]
    alpha.start(START + 60, job)
    alpha.stop(START + 90, "job", exit_code=0)
    assert not registry.part(PromiseTracker).standings(START + 100).instances.slots


def test_a_stopped_container_that_nobody_starts_is_withdrawn_unless_it_is_in_the_queue(
    registry: Registry,
) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("left", "left"), promised("queued", "queued"))
    alpha.stop(START + 20, "left", "queued")
    registry.part(PromiseTracker).put_queue(["id-of-queued"])
    registry.part(PromiseTracker).forget(START + 15)
    assert seconds(registry.part(PromiseTracker).standings(START + 30)).keys() == {
        ("left", "1"),
        ("queued", "1"),
    }
    registry.part(PromiseTracker).forget(START + 25)
    assert seconds(registry.part(PromiseTracker).standings(START + 30)).keys() == {("queued", "1")}


def test_a_node_changes_nothing_of_what_runs_elsewhere(registry: Registry) -> None:
    alpha, liar = node(registry), node(registry, "liar")
    alpha.start(START + 10, promised("web"))
    before = seconds(registry.part(PromiseTracker).standings(START + 100))
    # The same container, another class, ends of containers that it does not have.
    liar.start(START + 20, promised("web", labels={"wattpack.slo": "gold"}))
    liar.report(START + 30, events=(Event(EventKind.DIED, START + 30, "id-of-web", exit_code=1),))
    liar.report(START + 40, gone=("id-of-web",))
    standings = registry.part(PromiseTracker).standings(START + 100)
    assert seconds(standings) == before
    liar.start(START + 50, promised("another", labels={"wattpack.slo": "gold"}))
    standings = registry.part(PromiseTracker).standings(START + 100)
    assert seconds(standings)[SHOP] == before[SHOP]
    # What it runs under that name is a service of its own.
    targets = {each.service: each.target_ratio for each in standings.services}
    assert targets == {"shop": 0.9, "shop@liar": 1.0}


def test_a_snapshot_has_the_promises_of_its_tasks(registry: Registry) -> None:
    alpha = node(registry)
    alpha.start(START + 10, promised("a"), container("b"), promised("c", "other"))
    slo = registry.tables.snapshot(START + 110).part(TaskPromises)
    assert slo is not None
    assert [NO_PROMISE if code < 0 else slo.promises[code].name for code in slo.promise.tolist()] == [
        "silver",
        NO_PROMISE,
        "silver",
    ]
    np.testing.assert_allclose(slo.slack_seconds, [100 / 0.9 - 100, np.nan, 100 / 0.9 - 100])
    assert slo.admitted_seconds.tolist() == [100, 0, 100]


def test_a_node_does_not_change_the_promise_of_a_service_that_another_one_runs(registry: Registry) -> None:
    alpha, beta = node(registry), node(registry, "beta")
    alpha.start(START + 10, promised("web"))
    for turn in range(5):
        beta.start(START + 20 + 2 * turn, promised("foreign", labels={"wattpack.slo": "gold"}))
        beta.stop(START + 21 + 2 * turn, "foreign", exit_code=1)
    alpha.stop(START + 40, "web")
    beta.start(START + 41, promised("another", labels={"wattpack.slo": "gold"}))
    alpha.start(START + 50, promised("web"))
    found = seconds(registry.part(PromiseTracker).standings(START + 60))
    assert found[SHOP] == (40, 10)
    assert {service for service, _ in found} == {"shop", "shop@beta"}
    standings = registry.part(PromiseTracker).standings(START + 60)
    names = [each.slo_class for each in standings.services]
    assert dict(zip(standings.names, names, strict=True)) == {"shop": "silver", "shop@beta": "gold"}


def test_a_name_that_looks_like_that_of_another_node_gives_no_access_to_its_services(
    registry: Registry,
) -> None:
    alpha, beta, evil = node(registry), node(registry, "beta"), node(registry, "evil")
    alpha.start(START + 10, promised("one"))
    evil.start(START + 11, promised("squatter", "shop@beta"))
    beta.start(START + 12, promised("two"))
    evil.stop(START + 13, "squatter", exit_code=1)
    found = seconds(registry.part(PromiseTracker).standings(START + 22))
    assert found["shop@beta@beta", "1"] == (10, 0)


def test_a_container_that_is_reported_before_its_move_ends_continues_its_predecessor(
    registry: Registry,
) -> None:
    alpha, beta = node(registry), node(registry, "beta")
    alpha.start(START + 10, promised("web"))
    alpha.stop(START + 30, "web")
    beta.start(START + 40, promised("next"))
    assert {service for service, _ in seconds(registry.part(PromiseTracker).standings(START + 41))} == {
        "shop",
        "shop@beta",
    }
    move = Succession(node="beta", container="id-of-next", from_node="alpha", predecessor="id-of-web")
    for _ in range(2):
        registry.add_successions([move])
        assert seconds(registry.part(PromiseTracker).standings(START + 60)) == {SHOP: (40, 10)}
    beta.start(START + 60, promised("later"))
    assert set(seconds(registry.part(PromiseTracker).standings(START + 61))) == {SHOP, ("shop", "2")}
