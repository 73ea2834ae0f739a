import pytest

from collector.features.promises.ledger.events import Ending
from collector.features.promises.ledger.promises import ServiceMode
from tests.collector.features.promises.ledger.builders import (
    by_service,
    by_slot,
    completed,
    ended,
    ledger_of,
    preempted,
    started,
    waiting,
    withdrawn,
)


def test_an_instance_waits_from_its_creation_and_from_the_end_of_each_incarnation() -> None:
    ledger = ledger_of(
        [waiting(0, "a"), started(10, "a", node="n1"), preempted(60, "a"), waiting(60, "b"), started(80, "b")]
    )
    standings = ledger.standings(100)
    instance = by_slot(standings)["web", "1"]
    assert instance["is_running"]
    assert instance["incarnations"] == "b"
    assert instance["running_seconds"] == 70
    assert instance["waiting_seconds"] == 30
    assert instance["availability"] == pytest.approx(0.7)
    assert instance["admitted_seconds"] == 100
    assert by_service(standings)["web"]["preemptions"] == 1


def test_a_waiting_instance_shows_how_long_it_waits() -> None:
    ledger = ledger_of([started(0, "a", node="n1"), ended(60, "a"), waiting(60, "b")])
    instance = by_slot(ledger.standings(75))["web", "1"]
    assert not instance["is_running"]
    assert (instance["incarnations"], instance["waiting_seconds"]) == ("b", 15)


def test_slack_is_what_is_left_after_the_expected_start() -> None:
    ledger = ledger_of([started(0, "a", node="n1", startup_seconds=3.0)])
    instance = by_slot(ledger.standings(90))["web", "1"]
    assert instance["slack_seconds"] == pytest.approx(90 / 0.9 - 90 - 3)
    assert instance["startup_seconds"] == 3


def test_start_up_times_are_learnt_apart_for_the_same_node_and_for_others() -> None:
    events = [
        started(0, "a", node="n1", startup_seconds=5.0),
        ended(10, "a"),
        started(20, "b", node="n1", startup_seconds=2.0),
        ended(30, "b"),
        started(40, "c", node="n2", startup_seconds=8.0),
        started(0, "x", service="api"),
    ]
    services = by_slot(ledger_of(events).standings(100))
    for key in (("web", "1"), ("api", "1")):
        # A service without measurements takes those of the cluster.
        assert services[key]["startup_seconds"] == 8


def test_slack_is_what_is_left_after_the_longer_of_a_start_and_a_restart() -> None:
    ledger = ledger_of(
        [
            started(0, "a", node="n1", startup_seconds=3.0),
            started(10, "b", node="n1", startup_seconds=7.0),
        ]
    )
    assert by_slot(ledger.standings(90))["web", "1"]["slack_seconds"] == pytest.approx(90 / 0.9 - 90 - 7)


def test_a_node_that_reports_absurd_start_up_times_changes_none_of_services_elsewhere() -> None:
    honest = [
        started(0, f"web-{node}", slot=node, node=node, startup_seconds=3.0) for node in ("n1", "n2", "n3")
    ]
    absurd = [
        started(0, f"x-{number}", service=f"x-{number}", node="liar", startup_seconds=1e11)
        for number in range(100)
    ]
    ledger = ledger_of([*honest, *absurd, started(0, "a", service="api")])
    assert by_slot(ledger.standings(100))["api", "1"]["startup_seconds"] == 3


def test_before_anything_is_measured_a_start_takes_no_time() -> None:
    instance = by_slot(ledger_of([waiting(0, "a")]).standings(0))["web", "1"]
    assert (instance["startup_seconds"], instance["slack_seconds"]) == (0, 0)


def test_the_availability_of_an_independent_service_is_the_lowest_of_its_instances() -> None:
    ledger = ledger_of([started(0, "a", "1"), waiting(0, "b", "2"), started(50, "b", "2")])
    standings = ledger.standings(100)
    assert by_service(standings)["web"]["availability_ratio"] == pytest.approx(0.5)
    assert by_slot(standings)["web", "1"]["availability"] == 1


def test_concurrent_time_counts_while_all_instances_run() -> None:
    ledger = ledger_of(
        [started(0, "a", "1"), waiting(0, "b", "2"), started(50, "b", "2"), ended(80, "a", "1")],
        ServiceMode.CONCURRENT,
    )
    standings = ledger.standings(100)
    assert by_service(standings)["web"]["availability_ratio"] == pytest.approx(60 / 200)
    first, second = by_slot(standings)["web", "1"], by_slot(standings)["web", "2"]
    assert (first["running_seconds"], first["discarded_seconds"], first["waiting_seconds"]) == (30, 50, 20)
    assert (second["running_seconds"], second["discarded_seconds"], second["waiting_seconds"]) == (30, 20, 50)
    assert second["is_spare"]
    assert not first["is_spare"]


def test_an_instance_that_joins_running_siblings_counts_its_own_time_only() -> None:
    ledger = ledger_of([started(0, "a", "1"), started(60, "b", "2")], ServiceMode.CONCURRENT)
    instances = by_slot(ledger.standings(100))
    assert [columns["running_seconds"] for columns in instances.values()] == [100, 40]


def test_aggregated_time_is_the_sum_over_all_instances() -> None:
    ledger = ledger_of(
        [started(0, "a", "1"), waiting(0, "b", "2"), started(50, "b", "2")], ServiceMode.AGGREGATED
    )
    standings = ledger.standings(100)
    assert by_service(standings)["web"]["availability_ratio"] == pytest.approx(0.75)
    assert by_slot(standings)["web", "1"]["availability"] == pytest.approx(0.75)


def test_batch_work_is_lost_unless_it_completes() -> None:
    ledger = ledger_of(
        [started(0, "a", "1"), preempted(40, "a", "1"), started(50, "b", "1"), started(0, "c", "2")],
        ServiceMode.BATCH,
    )
    standings = ledger.standings(100)
    assert by_service(standings)["web"]["availability_ratio"] == pytest.approx(150 / 200)
    assert by_slot(standings)["web", "1"]["discarded_seconds"] == 40


def test_a_batch_instance_that_completed_is_over_and_still_counts() -> None:
    ledger = ledger_of(
        [started(0, "a", "1"), completed(40, "a", "1"), waiting(0, "b", "2")], ServiceMode.BATCH
    )
    standings = ledger.standings(100)
    assert list(by_slot(standings)) == [("web", "2")]
    assert by_service(standings)["web"]["availability_ratio"] == pytest.approx(40 / 140)


def test_a_service_instance_that_completed_waits_again() -> None:
    ledger = ledger_of([started(0, "a"), completed(40, "a")])
    assert by_slot(ledger.standings(100))["web", "1"]["waiting_seconds"] == 60


def test_the_pause_between_two_batch_runs_is_no_waiting() -> None:
    ledger = ledger_of(
        [started(0, "a"), completed(40, "a"), waiting(500, "b"), started(510, "b")], ServiceMode.BATCH
    )
    instance = by_slot(ledger.standings(550))["web", "1"]
    assert (instance["running_seconds"], instance["waiting_seconds"]) == (80, 10)


def test_a_withdrawn_instance_counts_only_once_its_service_is_over() -> None:
    events = [started(0, "a", "1"), waiting(0, "b", "2"), withdrawn(50, "2")]
    ledger = ledger_of(events)
    standings = ledger.standings(100)
    assert list(by_slot(standings)) == [("web", "1")]
    assert by_service(standings)["web"]["availability_ratio"] == 1
    ledger.apply(withdrawn(100, "1"))
    over = by_service(ledger.standings(300))["web"]
    assert over["availability_ratio"] == 0
    assert over["instances"] == 0
    assert over["time_to_violation_seconds"] is None


def test_a_slot_that_is_wanted_again_is_a_new_instance() -> None:
    ledger = ledger_of([waiting(0, "a"), withdrawn(50), started(200, "b")])
    instance = by_slot(ledger.standings(300))["web", "1"]
    assert (instance["admitted_seconds"], instance["running_seconds"]) == (100, 100)


def test_one_container_may_be_stopped_and_started_again() -> None:
    ledger = ledger_of([started(0, "a"), preempted(30, "a"), started(50, "a"), preempted(70, "a")])
    instance = by_slot(ledger.standings(100))["web", "1"]
    assert (instance["running_seconds"], instance["waiting_seconds"]) == (50, 50)
    assert by_service(ledger.standings(100))["web"]["preemptions"] == 2


def test_a_restart_within_one_instant_changes_nothing() -> None:
    ledger = ledger_of([started(0, "a"), started(30, "a"), ended(30, "a")])
    instance = by_slot(ledger.standings(100))["web", "1"]
    assert instance["is_running"]
    assert instance["running_seconds"] == 100


def test_a_start_and_an_end_within_one_instant_leave_it_waiting() -> None:
    ledger = ledger_of([waiting(0, "a"), ended(30, "a"), started(30, "a")])
    assert by_slot(ledger.standings(100))["web", "1"]["waiting_seconds"] == 100


def test_a_missing_end_is_that_of_the_creation_of_the_next_incarnation() -> None:
    ledger = ledger_of([started(0, "a"), waiting(60, "b"), started(90, "b")])
    instance = by_slot(ledger.standings(100))["web", "1"]
    assert (instance["running_seconds"], instance["waiting_seconds"]) == (70, 30)


def test_an_incarnation_that_runs_until_the_next_one_runs_leaves_no_gap() -> None:
    ledger = ledger_of([started(0, "a"), waiting(60, "b"), started(70, "b"), ended(75, "a")])
    assert by_slot(ledger.standings(100))["web", "1"]["running_seconds"] == 100


def test_a_beginning_that_lies_ahead_is_an_empty_interval_so_far() -> None:
    ledger = ledger_of([waiting(0, "a"), started(101, "a")])
    instance = by_slot(ledger.standings(100))["web", "1"]
    assert instance["running_seconds"] == 0


def test_services_without_a_promise_have_no_row() -> None:
    ledger = ledger_of([started(0, "a")], promise="")
    assert by_service(ledger.standings(10)) == {}
    assert by_slot(ledger.standings(10)) == {}


def test_an_empty_ledger_has_no_rows() -> None:
    standings = ledger_of([]).standings(10)
    assert by_service(standings) == {}
    assert by_slot(standings) == {}


def test_without_a_named_slot_an_incarnation_takes_the_one_that_has_waited_longest() -> None:
    ledger = ledger_of(
        [
            started(0, "a", None),
            started(0, "b", None),
            started(0, "c", None),
            ended(20, "b", None),
            ended(10, "c", None),
            waiting(30, "d", None),
        ]
    )
    assert ledger.slot_of("web", "d") == ledger.slot_of("web", "c") == "3"
    waiting_seconds = {
        slot: columns["waiting_seconds"] for (_, slot), columns in by_slot(ledger.standings(40)).items()
    }
    assert waiting_seconds == {"1": 0, "2": 20, "3": 30}


def test_without_a_vacant_slot_an_incarnation_takes_a_new_one() -> None:
    ledger = ledger_of(
        [waiting(0, "a", None), started(5, "b", None), started(5, "c", "3"), started(6, "d", None)]
    )
    assert [ledger.slot_of("web", each) for each in "abcd"] == ["1", "2", "3", "4"]


def test_the_end_of_an_unknown_incarnation_changes_nothing() -> None:
    ledger = ledger_of([started(0, "a", None)])
    assert not ledger.apply(ended(5, "z", None))
    assert ledger.live_slots("web") == ["1"]


def test_vacant_slots_are_those_without_an_incarnation_the_newest_first() -> None:
    ledger = ledger_of(
        [
            started(0, "a", "1"),
            started(1, "b", "2"),
            started(2, "c", "3"),
            ended(9, "a", "1"),
            ended(8, "b", "2"),
        ]
    )
    assert ledger.vacant_slots("web") == ["2", "1"]
    ledger.apply(withdrawn(10, "2"))
    assert ledger.vacant_slots("web") == ["1"]
    assert ledger.live_slots("web") == ["1", "3"]
    assert not ledger.live_slots("api")
    assert not ledger.vacant_slots("api")


def test_ended_instances_are_forgotten() -> None:
    ledger = ledger_of(
        [started(0, "a", "1"), withdrawn(50, "1"), started(0, "b", "2"), started(0, "c", service="api")]
    )
    ledger.apply(withdrawn(70, "1", service="api"))
    assert ledger.forget(60) == {"web": {"1"}}
    assert sorted(by_service(ledger.standings(100))) == ["api", "web"]
    assert ledger.forget(80) == {"api": {"1"}}
    assert list(by_service(ledger.standings(100))) == ["web"]
    ledger.apply(waiting(90, "d", service="db"))
    ledger.set_service("db", "gold", ServiceMode.INDEPENDENT)
    assert sorted(by_slot(ledger.standings(100))) == [("db", "1"), ("web", "2")]


def test_a_lost_node_leaves_its_instances_waiting_since_its_last_beacon() -> None:
    ledger = ledger_of([started(0, "a", node="n1"), ended(50, "a", ending=Ending.LOST)])
    assert by_slot(ledger.standings(80))["web", "1"]["waiting_seconds"] == 30
    ledger.apply(started(60, "a", node="n1"))
    assert by_slot(ledger.standings(80))["web", "1"]["waiting_seconds"] == 10


def test_the_overhead_of_preemptions_counts_the_starts_that_were_preempted() -> None:
    ledger = ledger_of(
        [
            started(0, "a", startup_seconds=4.0),
            preempted(50, "a"),
            started(60, "b", startup_seconds=9.0),
            ended(96, "b", ending=Ending.FAILED),
        ]
    )
    assert by_slot(ledger.standings(100))["web", "1"]["preemption_ratio"] == pytest.approx(4 / 90)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ServiceMode)
def test_what_is_folded_into_sums_still_counts(mode: ServiceMode) -> None:
    turns = 500
    events = [started(0, "x", "2")]
    for turn in range(turns):
        name = f"a{turn}"
        events += [waiting(turn * 10, name), started(turn * 10 + 4, name), preempted(turn * 10 + 10, name)]
    ledger = ledger_of(events, mode)
    instance = by_slot(ledger.standings(turns * 10))["web", "1"]
    assert instance["waiting_seconds"] == turns * 4
    assert by_service(ledger.standings(turns * 10))["web"]["preemptions"] == turns
    assert instance["running_seconds"] == (0 if mode is ServiceMode.BATCH else turns * 6)
    sibling = by_slot(ledger.standings(turns * 10))["web", "2"]
    assert sibling["running_seconds"] == (turns * 6 if mode is ServiceMode.CONCURRENT else turns * 10)
    # The first incarnations have retired: reports of them change nothing.
    assert not ledger.apply(started(2, "a0"))
    assert not ledger.apply(started(9_000, f"a{turns - 40}", None))


@pytest.mark.parametrize("later", [0, 30])
def test_many_transitions_at_one_time_do_not_accumulate(later: int) -> None:
    names = [f"a{turn}" for turn in range(300)]
    events = [event for name in names for event in (started(10, name), ended(10, name))]
    for turn, name in enumerate(names[:later]):
        events += [started(20 + 2 * turn, f"late-{name}"), ended(21 + 2 * turn, f"late-{name}")]
    ledger = ledger_of(events)
    record = ledger.record("web", "1")
    assert record is not None
    assert len(record.transitions) <= 32
    instance = by_slot(ledger.standings(100))["web", "1"]
    assert (instance["running_seconds"], instance["waiting_seconds"]) == (later, 90 - later)


def test_a_service_that_has_one_instance_left_continues_with_it() -> None:
    ledger = ledger_of([started(0, "a", "1"), started(0, "b", "2"), withdrawn(10, "1"), ended(20, "b", "2")])
    assert ledger.forget(15) == {"web": {"1"}}
    assert ledger.slot_of("web", "b") == "2"
    assert ledger.vacant_slots("web") == ["2"]
    assert ledger.apply(started(30, "c", None))
    assert ledger.slot_of("web", "c") == "2"
    assert ledger.apply(started(30, "d", None))
    assert ledger.live_slots("web") == ["2", "3"]


def test_a_forgotten_service_leaves_nothing() -> None:
    ledger = ledger_of([started(0, "a", startup_seconds=5.0), ended(5, "a"), withdrawn(10)])
    ledger.forget(20)
    ledger.apply(started(30, "b"))
    assert by_service(ledger.standings(40)) == {}
    ledger.set_service("web", "gold", ServiceMode.INDEPENDENT)
    assert by_slot(ledger.standings(40))["web", "1"]["running_seconds"] == 10
