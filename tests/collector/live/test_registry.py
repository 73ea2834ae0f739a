import msgspec
import pytest

from collector.api.nodes import list_nodes
from collector.common.liveness import Liveness
from collector.config import CollectorConfig, LivenessConfig
from collector.live.registry import Registry
from collector.live.updates import NodeStatus
from collector.reports.alerts import AlertState, ReportedAlert
from tests.collector.builders import HEARTBEAT, START, container, report, said, take_in
from tests.collector.listed import list_alerts, list_containers
from wire.messages import Alert, ContainerUsage, Report
from wire.resources import Quantities, Resource
from wire.sketch import Sketch


def registry() -> Registry:
    patience = LivenessConfig(suspect_after_beacons=3.0, down_after_beacons=6.0, forget_after_hours=1.0)
    return Registry(CollectorConfig(liveness=patience))


def test_a_container_that_stopped_is_gone_at_once() -> None:
    known = registry()
    known.apply(report(sequence=1, containers=[container("stays"), container("stops")]), START)
    known.apply(said(sequence=2, at=START + 3, gone=("id-of-stops",)), START + 3)
    assert [each.name for each in list_containers(known, START + 3)] == ["stays"]
    assert list_nodes(known, START + 3)[0].containers == 1


def test_a_late_report_does_not_overwrite_a_newer_one_but_proves_life() -> None:
    known = registry()
    known.apply(report(sequence=5, at=START), START)
    known.apply(report(sequence=4, at=START - 3), START + 14)
    (node,) = list_nodes(known, START + 20)
    assert (node.sampled_at, node.state, node.last_seen_seconds_ago) == (START, "up", 6.0)


def test_a_restarted_agent_replaces_the_earlier_run_though_it_counts_from_one_again() -> None:
    known = registry()
    known.apply(report(boot="zzz", sequence=900, at=START), START)
    known.apply(report(boot="aaa", sequence=1, at=START + 3), START + 3)
    assert list_nodes(known, START + 3)[0].boot == "aaa"


def test_the_spooled_words_of_an_earlier_run_do_not_replace_the_present_one() -> None:
    known = registry()
    known.apply(report(boot="new", sequence=1, at=START), START)
    known.apply(report(boot="old", sequence=900, at=START - 60), START + 1)
    assert list_nodes(known, START + 1)[0].boot == "new"


def test_a_node_that_comes_back_with_its_clock_reset_is_not_shut_out() -> None:
    known = registry()
    known.apply(report(boot="before", sequence=900, at=START), START)
    known.apply(report(boot="after", sequence=1, at=5.0), START + 30)
    assert list_nodes(known, START + 30)[0].boot == "after"


def test_a_clock_stepped_back_within_one_run_does_not_freeze_the_node() -> None:
    known = registry()
    known.apply(report(sequence=1, at=START), START)
    known.apply(report(sequence=2, at=START - 3600), START + 3)
    assert list_nodes(known, START + 3)[0].sampled_at == START - 3600


def test_a_node_that_falls_silent_is_suspect_then_down_then_forgotten() -> None:
    known = registry()
    known.apply(report("quiet", containers=[container()]), START)
    assert known.node_count(START + 15) == {Liveness.UP: 1, Liveness.SUSPECT: 0, Liveness.DOWN: 0}
    assert known.node_count(START + 16) == {Liveness.UP: 0, Liveness.SUSPECT: 1, Liveness.DOWN: 0}
    assert known.node_count(START + 31) == {Liveness.UP: 0, Liveness.SUSPECT: 0, Liveness.DOWN: 1}
    assert list_containers(known, START + 31)[0].node_state == "down"
    known.drop_old(START + 3600)
    assert len(list_nodes(known, START + 3600)) == 1
    known.drop_old(START + 3601)
    assert list_nodes(known, START + 3601) == []
    assert known.container_count() == 0


def test_a_node_told_to_speak_seldom_is_not_suspect_in_between() -> None:
    known = registry()
    seldom = msgspec.structs.replace(HEARTBEAT, beacon_seconds=60.0)
    known.apply(said(heartbeat=seldom), START)
    assert list_nodes(known, START + 180)[0].state == "up"
    assert list_nodes(known, START + 181)[0].state == "suspect"
    # Until a new run says how often it speaks, it is taken to do as the one before.
    known.apply(said(boot="second", at=START + 200), START + 200)
    assert list_nodes(known, START + 380)[0].state == "up"


def test_a_machine_under_a_new_name_is_known_by_its_containers() -> None:
    known = registry()
    runs = [container("a"), container("b")]
    take_in(known, heartbeat_with(1.0), START)
    known.apply(report("alpha", sequence=2, containers=[container(), *runs]), START)
    known.apply(report("omega", boot="second", at=START + 9, containers=[container(), *runs[1:]]), START + 9)
    assert known.drop_old(START + 9) == {}, "as long as the old name may be heard of again, they are two"
    known.apply(said("omega", boot="second", sequence=2, at=START + 40), START + 40)
    assert known.drop_old(START + 40) == {"alpha": "omega"}
    assert [node.name for node in list_nodes(known, START + 40)] == ["omega"]
    assert known.tables.snapshot(START + 40).tasks.ids == ("id-of-b", "id-of-web")
    assert {each.name: each.p90_samples for each in list_containers(known, START + 40)} == {"b": 0, "web": 1}
    assert known.tables.snapshot(START + 41).tasks.samples.tolist() == [0, 1]


def test_a_container_that_comes_back_starts_with_what_is_known_of_it() -> None:
    known = registry()
    take_in(known, heartbeat_with(1.0, 1.0), START)
    known.apply(said(sequence=2, at=START + 3, gone=("id-of-web",)), START + 3)
    known.apply(said(sequence=3, at=START + 6, containers=(container(),)), START + 6)
    assert known.tables.snapshot(START + 6).tasks.samples.tolist() == [2]


def test_a_node_that_is_down_is_no_renamed_one_where_another_ran_the_same_before() -> None:
    known = registry()
    known.apply(report("omega", containers=[container()]), START)
    known.apply(report("alpha", containers=[container()]), START)
    known.apply(said("omega", sequence=2, at=START + 40), START + 40)
    assert known.drop_old(START + 40) == {}


def test_a_node_that_was_switched_off_is_not_forgotten() -> None:
    known = registry()
    known.apply(report("asleep"), START)
    known.apply(report("lost"), START)
    known.tables.put_status(NodeStatus(node="asleep", on=False))
    known.drop_old(START + 4000)
    assert [node.name for node in list_nodes(known, START + 4000)] == ["asleep"]


def test_a_node_that_comes_back_is_up_again_with_what_it_says_now() -> None:
    known = registry()
    known.apply(report(containers=[container("before")]), START)
    assert list_nodes(known, START + 100)[0].state == "down"
    known.apply(report(boot="second", at=START + 100, containers=[container("after")]), START + 100)
    assert list_nodes(known, START + 100)[0].state == "up"
    assert [each.name for each in list_containers(known, START + 100)] == ["after"]


def test_alerts_that_are_restored_are_bottlenecks_again() -> None:
    known = registry()
    known.apply(report(), START)
    known.restore([ReportedAlert("alpha", "first", 1, Alert(Resource.DISK, START, "busy"))], [])
    assert known.tables.snapshot(START).nodes.bottleneck[0].tolist() == [False, False, True, False]


def test_a_beacon_proves_life_and_leaves_all_else_as_it_was() -> None:
    known = registry()
    known.apply(report(containers=[container()]), START)
    known.apply(said(sequence=2, at=START + 14), START + 14)
    (node,), (one,) = list_nodes(known, START + 28), list_containers(known, START + 28)
    assert (node.state, node.last_seen_seconds_ago, node.complete) == ("up", 14.0, True)
    assert (node.sampled_at, one.sampled_at) == (START, START)


def test_what_an_earlier_run_said_of_containers_is_not_believed() -> None:
    known = registry()
    known.apply(report(boot="old", containers=[container("before")]), START)
    known.apply(said(boot="new", sequence=2, at=START + 3), START + 3)
    (node,) = list_nodes(known, START + 3)
    assert (node.boot, node.complete, node.containers) == ("new", False, 0)
    assert (node.used, node.sampled_at, node.agent_version) == (Quantities(), None, None)
    late_first_word = report(boot="new", sequence=1, at=START + 2, containers=[container("now")])
    known.apply(late_first_word, START + 4)
    assert [each.name for each in list_containers(known, START + 4)] == ["now"]
    assert list_nodes(known, START + 4)[0].complete


def test_a_gap_is_told_apart_from_a_first_word_and_from_another_run() -> None:
    known = registry()
    assert not known.apply(said(sequence=5), START)
    assert known.apply(said(sequence=7), START)
    assert not known.apply(said(boot="second", sequence=9, at=START + 3), START + 3)
    assert not known.apply(said(boot="first", sequence=99, at=START - 3), START + 3)


def heartbeat_with(*values: float, boot: str = "first", sequence: int = 1, at: float = START) -> Report:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    usage = ContainerUsage("id-of-web", cpu=sketch)
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(usage,))
    return said(boot=boot, sequence=sequence, at=at, containers=(container(),), heartbeat=heartbeat)


def test_usage_adds_up_over_heartbeats_and_runs() -> None:
    known = registry()
    known.apply(report(containers=[container()]), START)
    (one,) = list_containers(known, START)
    assert (one.p90, one.p90_samples) == (Quantities(), 0)
    take_in(known, heartbeat_with(*[0.0] * 8, 1.0, sequence=2), START)
    take_in(known, heartbeat_with(2.0, boot="second", at=START + 3), START + 3)
    (one,) = list_containers(known, START + 3)
    assert one.p90_samples == 10
    assert one.p90.cpu_cores == pytest.approx(1.0, rel=0.01)


def test_usage_of_a_container_is_kept_through_a_restart_and_dropped_long_after_its_end() -> None:
    known = Registry(CollectorConfig(liveness=LivenessConfig(forget_after_hours=24.0)))
    take_in(known, heartbeat_with(1.0), START)
    known.apply(said(sequence=2, at=START + 3, gone=("id-of-web",)), START + 3)
    known.drop_old(START + 60)
    known.apply(said(sequence=3, at=START + 90, containers=(container(),)), START + 90)
    assert list_containers(known, START + 90)[0].p90_samples == 1
    known.apply(said(sequence=4, at=START + 95, gone=("id-of-web",)), START + 95)
    known.drop_old(START + 9 * 3600)
    known.apply(said(sequence=5, at=START + 99, containers=(container(),)), START + 99)
    assert list_containers(known, START + 99)[0].p90_samples == 0


def test_alerts_are_listed_with_the_open_ones_first_and_end_with_their_run() -> None:
    known = registry()
    cpu, disk = Alert(Resource.CPU, START - 60, "busy"), Alert(Resource.DISK, START - 9, "busy")
    over = msgspec.structs.replace(disk, closed_at=START)
    known.apply(said(alerts=(cpu, disk)), START)
    known.apply(said(sequence=2, at=START, alerts=(over,)), START)
    listed = [(each.resource, each.state, each.closed_at) for each in list_alerts(known, START)]
    assert listed == [
        (Resource.CPU, AlertState.OPEN, None),
        (Resource.DISK, AlertState.CLOSED, START),
    ]
    assert [each.resource for each in list_alerts(known, START, state=AlertState.CLOSED)] == [Resource.DISK]
    assert known.alert_count() == {AlertState.OPEN: 1, AlertState.CLOSED: 1}
    known.apply(report(boot="second", at=START + 3), START + 3)
    assert list_alerts(known, START + 3, state=AlertState.OPEN) == []


def test_lists_are_in_a_stable_order() -> None:
    known = registry()
    for name in ("beta", "alpha", "gamma"):
        known.apply(report(name, containers=[container("z"), container("a")]), START)
    assert [node.name for node in list_nodes(known, START)] == ["alpha", "beta", "gamma"]
    order = [(each.name, each.node) for each in list_containers(known, START)]
    assert order == sorted(order)
    assert len(order) == 6


def test_ratios_are_taken_where_the_capacity_is_known() -> None:
    known = registry()
    known.apply(report(), START)
    ratios = list_nodes(known, START)[0].used_ratio
    assert (ratios.cpu_ratio, ratios.memory_ratio, ratios.disk_ratio) == (0.25, 0.25, None)
