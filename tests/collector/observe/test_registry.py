from collections.abc import Sequence

import msgspec
import pytest

from collector.analysis.histograms import add_usage, pack
from collector.analysis.usage import bucket_at
from collector.common.liveness import Liveness
from collector.common.orchestrator import NodeView
from collector.common.reported_alerts import AlertState, ReportedAlert
from collector.config import CollectorConfig, LivenessConfig
from collector.history.interface import StoredHistograms, UsageTotal
from collector.observe.registry import Registry
from collector.observe.updates import Succession
from collector.observe.usage import cluster
from tests.collector.builders import HEARTBEAT, START, apply_report, container, partial_report, report
from tests.collector.listed import list_alerts, list_containers, list_nodes
from wire.messages import Alert, ContainerUsage, Report
from wire.resources import Quantities, Resource
from wire.sketch import Sketch


def make_registry() -> Registry:
    patience = LivenessConfig(down_after_beacons=6.0, forget_after_hours=1.0)
    return Registry(CollectorConfig(liveness=patience))


def test_a_container_that_stopped_is_gone_at_once() -> None:
    registry = make_registry()
    registry.apply(report(sequence=1, containers=[container("stays"), container("stops")]), START)
    registry.apply(partial_report(sequence=2, at=START + 3, gone=("id-of-stops",)), START + 3)
    assert [each.name for each in list_containers(registry, START + 3)] == ["stays"]
    assert list_nodes(registry, START + 3)[0].containers == 1


def test_a_late_report_does_not_overwrite_a_newer_one_but_proves_life() -> None:
    registry = make_registry()
    registry.apply(report(sequence=5, at=START), START)
    registry.apply(report(sequence=4, at=START - 3), START + 14)
    (node,) = list_nodes(registry, START + 20)
    assert (node.sampled_at, node.state, node.last_seen_seconds_ago) == (START, "up", 6.0)


def test_a_restarted_agent_replaces_the_earlier_run_though_it_counts_from_one_again() -> None:
    registry = make_registry()
    registry.apply(report(boot="zzz", sequence=900, at=START), START)
    registry.apply(report(boot="aaa", sequence=1, at=START + 3), START + 3)
    assert list_nodes(registry, START + 3)[0].boot == "aaa"


def test_spooled_reports_of_an_earlier_run_do_not_replace_the_present_one() -> None:
    registry = make_registry()
    registry.apply(report(boot="new", sequence=1, at=START), START)
    registry.apply(report(boot="old", sequence=900, at=START - 60), START + 1)
    assert list_nodes(registry, START + 1)[0].boot == "new"


def test_a_node_that_comes_back_with_its_clock_reset_is_not_shut_out() -> None:
    registry = make_registry()
    registry.apply(report(boot="before", sequence=900, at=START), START)
    registry.apply(report(boot="after", sequence=1, at=5.0), START + 30)
    assert list_nodes(registry, START + 30)[0].boot == "after"


def test_a_clock_stepped_back_within_one_run_does_not_freeze_the_node() -> None:
    registry = make_registry()
    registry.apply(report(sequence=1, at=START), START)
    registry.apply(report(sequence=2, at=START - 3600), START + 3)
    assert list_nodes(registry, START + 3)[0].sampled_at == START - 3600


def test_a_node_that_falls_silent_is_suspect_then_down_then_forgotten() -> None:
    registry = make_registry()
    registry.apply(report("quiet", containers=[container()]), START)
    assert registry.node_count(START + 15) == {Liveness.UP: 1, Liveness.SUSPECT: 0, Liveness.DOWN: 0}
    assert registry.node_count(START + 16) == {Liveness.UP: 0, Liveness.SUSPECT: 1, Liveness.DOWN: 0}
    assert registry.node_count(START + 31) == {Liveness.UP: 0, Liveness.SUSPECT: 0, Liveness.DOWN: 1}
    assert list_containers(registry, START + 31)[0].node_state == "down"
    registry.drop_old(START + 3600)
    assert len(list_nodes(registry, START + 3600)) == 1
    registry.drop_old(START + 3601)
    assert list_nodes(registry, START + 3601) == []
    assert registry.container_count() == 0


def test_a_node_with_rare_beacons_is_not_suspect_in_between() -> None:
    registry = make_registry()
    seldom = msgspec.structs.replace(HEARTBEAT, beacon_seconds=60.0)
    registry.apply(partial_report(heartbeat=seldom), START)
    assert list_nodes(registry, START + 180)[0].state == "up"
    assert list_nodes(registry, START + 181)[0].state == "suspect"
    # Until a new run says how often it speaks, it is taken to do as the one before.
    registry.apply(partial_report(boot="second", at=START + 200), START + 200)
    assert list_nodes(registry, START + 380)[0].state == "up"


def test_a_renamed_machine_is_recognised_by_its_containers() -> None:
    registry = make_registry()
    runs = [container("a"), container("b")]
    apply_report(registry, heartbeat_with(1.0), START)
    registry.apply(report("alpha", sequence=2, containers=[container(), *runs]), START)
    registry.apply(
        report("omega", boot="second", at=START + 9, containers=[container(), *runs[1:]]), START + 9
    )
    assert registry.drop_old(START + 9) == {}, "as long as the old name may report again, they are two"
    registry.apply(partial_report("omega", boot="second", sequence=2, at=START + 40), START + 40)
    assert registry.drop_old(START + 40) == {"alpha": "omega"}
    assert [node.name for node in list_nodes(registry, START + 40)] == ["omega"]
    assert registry.tables.snapshot(START + 40).tasks.ids == ("id-of-b", "id-of-web")
    assert {each.name: each.samples for each in list_containers(registry, START + 40)} == {
        "b": 0,
        "web": 1,
    }
    assert registry.tables.snapshot(START + 41).tasks.observed_seconds.tolist() == [0, 3]


@pytest.mark.parametrize(("claimed", "is_taken"), [("a" * 32, True), ("b" * 32, False), (None, False)])
def test_the_containers_of_a_node_are_not_taken_over_by_a_claim(
    claimed: str | None,
    is_taken: bool,  # noqa: FBT001 - a parameter
) -> None:
    registry = make_registry()
    for node, machine, at in (("alpha", "a" * 32, START), ("mallory", claimed, START + 9)):
        whole = report(node, boot=node, at=at, containers=[container(), container("a")])
        heartbeat = msgspec.structs.replace(HEARTBEAT, machine=machine)
        registry.apply(msgspec.structs.replace(whole, heartbeat=heartbeat), at)
    registry.apply(partial_report("mallory", boot="mallory", sequence=2, at=START + 40), START + 40)
    assert registry.drop_old(START + 40) == ({"alpha": "mallory"} if is_taken else {})


def test_a_container_that_comes_back_keeps_its_usage() -> None:
    registry = make_registry()
    apply_report(registry, heartbeat_with(1.0, 1.0), START)
    registry.apply(partial_report(sequence=2, at=START + 3, gone=("id-of-web",)), START + 3)
    registry.apply(partial_report(sequence=3, at=START + 6, containers=(container(),)), START + 6)
    assert registry.tables.snapshot(START + 6).tasks.observed_seconds.tolist() == [6]


def test_a_node_that_is_down_is_no_renamed_one_where_another_ran_the_same_before() -> None:
    registry = make_registry()
    registry.apply(report("omega", containers=[container()]), START)
    registry.apply(report("alpha", containers=[container()]), START)
    registry.apply(partial_report("omega", sequence=2, at=START + 40), START + 40)
    assert registry.drop_old(START + 40) == {}


def test_a_node_that_was_switched_off_is_not_forgotten() -> None:
    registry = make_registry()
    registry.apply(report("asleep"), START)
    registry.apply(report("lost"), START)
    registry.tables.put_status(NodeView(name="asleep", on=False))
    registry.drop_old(START + 4000)
    assert [node.name for node in list_nodes(registry, START + 4000)] == ["asleep"]


def test_a_node_that_comes_back_is_up_with_its_new_state() -> None:
    registry = make_registry()
    registry.apply(report(containers=[container("before")]), START)
    assert list_nodes(registry, START + 100)[0].state == "down"
    registry.apply(report(boot="second", at=START + 100, containers=[container("after")]), START + 100)
    assert list_nodes(registry, START + 100)[0].state == "up"
    assert [each.name for each in list_containers(registry, START + 100)] == ["after"]


def test_alerts_that_are_restored_are_bottlenecks_again() -> None:
    registry = make_registry()
    registry.apply(report(), START)
    registry.restore([ReportedAlert("alpha", "first", 1, Alert(Resource.DISK, START, "busy"))])
    assert registry.tables.snapshot(START).nodes.bottleneck[0].tolist() == [False, False, True, False]


def test_a_node_whose_stored_usage_is_not_valid_starts_without_and_the_others_have_theirs() -> None:
    registry = make_registry()
    for node in ("alpha", "beta"):
        registry.apply(report(node, containers=[container(node)]), START)
    usage = ContainerUsage("id-of-beta", cpu=Sketch({100: 7}))
    (valid,) = pack(*add_usage([None], [usage], [0]), 1)
    bucket = bucket_at(START)
    totals = [
        UsageTotal("alpha", bucket, {"id-of-alpha": b"?"}),
        UsageTotal("beta", bucket, {"id-of-beta": valid}),
    ]
    registry.usage.restore(["alpha", "beta"], StoredHistograms(totals, []))
    samples = {each.name: dict(each.usage) for each in registry.nodes(START)}
    assert samples["alpha"] == {}
    assert samples["beta"]["id-of-beta"].samples == 7


def test_a_beacon_proves_life_and_leaves_all_else_as_it_was() -> None:
    registry = make_registry()
    registry.apply(report(containers=[container()]), START)
    registry.apply(partial_report(sequence=2, at=START + 14), START + 14)
    (node,), (one,) = list_nodes(registry, START + 28), list_containers(registry, START + 28)
    assert (node.state, node.last_seen_seconds_ago, node.complete) == ("up", 14.0, True)
    assert (node.sampled_at, one.sampled_at) == (START, START)


def test_containers_of_an_earlier_run_are_dropped() -> None:
    registry = make_registry()
    registry.apply(report(boot="old", containers=[container("before")]), START)
    registry.apply(partial_report(boot="new", sequence=2, at=START + 3), START + 3)
    (node,) = list_nodes(registry, START + 3)
    assert (node.boot, node.complete, node.containers) == ("new", False, 0)
    assert (node.used, node.sampled_at, node.agent_version) == (Quantities(), None, None)
    late_heartbeat = report(boot="new", sequence=1, at=START + 2, containers=[container("now")])
    registry.apply(late_heartbeat, START + 4)
    assert [each.name for each in list_containers(registry, START + 4)] == ["now"]
    assert list_nodes(registry, START + 4)[0].complete


def test_a_sequence_gap_differs_from_a_first_report_and_from_another_run() -> None:
    registry = make_registry()
    assert not registry.apply(partial_report(sequence=5), START)
    assert registry.apply(partial_report(sequence=7), START)
    assert not registry.apply(partial_report(boot="second", sequence=9, at=START + 3), START + 3)
    assert not registry.apply(partial_report(boot="first", sequence=99, at=START - 3), START + 3)


def heartbeat_with(*values: float, boot: str = "first", sequence: int = 1, at: float = START) -> Report:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    usage = ContainerUsage("id-of-web", cpu=sketch)
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(usage,))
    return partial_report(boot=boot, sequence=sequence, at=at, containers=(container(),), heartbeat=heartbeat)


def test_usage_adds_up_over_heartbeats_and_runs() -> None:
    registry = make_registry()
    registry.apply(report(containers=[container()]), START)
    (one,) = list_containers(registry, START)
    assert (one.envelope.p90, one.samples) == (Quantities(), 0)
    apply_report(registry, heartbeat_with(*[0.0] * 8, 1.0, sequence=2), START)
    apply_report(registry, heartbeat_with(2.0, boot="second", at=START + 3), START + 3)
    (one,) = list_containers(registry, START + 3)
    assert one.samples == 10
    assert one.envelope.p90.cpu_cores == pytest.approx(1.0, rel=0.01)


def test_usage_of_a_container_is_kept_through_a_restart_and_dropped_long_after_its_end() -> None:
    registry = Registry(CollectorConfig(liveness=LivenessConfig(forget_after_hours=24.0)))
    apply_report(registry, heartbeat_with(1.0), START)
    registry.apply(partial_report(sequence=2, at=START + 3, gone=("id-of-web",)), START + 3)
    registry.drop_old(START + 60)
    registry.apply(partial_report(sequence=3, at=START + 90, containers=(container(),)), START + 90)
    assert list_containers(registry, START + 90)[0].samples == 1
    registry.apply(partial_report(sequence=4, at=START + 95, gone=("id-of-web",)), START + 95)
    registry.drop_old(START + 9 * 3600)
    registry.apply(partial_report(sequence=5, at=START + 99, containers=(container(),)), START + 99)
    assert list_containers(registry, START + 99)[0].samples == 0


def run_in_turn(registry: Registry, names: Sequence[str], first: int = 1, most: int = 1000) -> None:
    """One container after another runs on a node, for two seconds each."""
    for sequence, name in enumerate(names, first):
        usage = (ContainerUsage(name, cpu=Sketch({100: 7})),)
        new = report(sequence=sequence, at=START + 2 * sequence, containers=[container(id=name)])
        heartbeat = msgspec.structs.replace(HEARTBEAT, usage=usage)
        gone = tuple(names[sequence - first - 1 : sequence - first])
        apply_report(registry, msgspec.structs.replace(new, gone=gone, heartbeat=heartbeat), new.at)
        assert len(usage_kept(registry)) <= most


def usage_kept(registry: Registry) -> set[str]:
    tracker = registry._entries["alpha"].usage
    return {*tracker.rings, *tracker._new}


def test_of_containers_that_come_and_go_the_usage_of_the_last_ones_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "KEPT_ENDED", 3)
    registry = make_registry()
    run_in_turn(registry, [f"web{number}" for number in range(30)], most=8)
    registry.drop_old(START + 60)
    assert usage_kept(registry) == {"web26", "web27", "web28", "web29"}
    move = Succession(node="beta", container="web26~1", from_node="alpha", predecessor="web26")
    registry.add_successions([move])
    run_in_turn(registry, ["web29", *(f"web{number}" for number in range(30, 60))], first=31, most=9)
    registry.drop_old(START + 120)
    # What a container replaced in a move is stored with the samples of that one, and read after a restart.
    assert usage_kept(registry) == {"web26", "web56", "web57", "web58", "web59"}


def test_container_inherits_samples_of_one_that_ended_while_others_came_and_went() -> None:
    registry = make_registry()
    apply_report(registry, report(node="beta", containers=()), START)
    run_in_turn(registry, ["moved", *(f"web{number}" for number in range(30))])
    new = container(id="moved~1")
    registry.apply(partial_report(node="beta", sequence=2, at=START + 99, containers=(new,)), START + 99)
    move = Succession(node="beta", container="moved~1", from_node="alpha", predecessor="moved")
    registry.add_successions([move])
    assert next(each.samples for each in list_containers(registry, START + 99) if each.id == "moved~1") == 7


def test_alerts_are_listed_with_the_open_ones_first_and_end_with_their_run() -> None:
    registry = make_registry()
    cpu, disk = Alert(Resource.CPU, START - 60, "busy"), Alert(Resource.DISK, START - 9, "busy")
    over = msgspec.structs.replace(disk, closed_at=START)
    registry.apply(partial_report(alerts=(cpu, disk)), START)
    registry.apply(partial_report(sequence=2, at=START, alerts=(over,)), START)
    listed = [(each.resource, each.state, each.closed_at) for each in list_alerts(registry, START)]
    assert listed == [
        (Resource.CPU, AlertState.OPEN, None),
        (Resource.DISK, AlertState.CLOSED, START),
    ]
    assert [each.resource for each in list_alerts(registry, START, state=AlertState.CLOSED)] == [
        Resource.DISK
    ]
    assert registry.alert_count() == {AlertState.OPEN: 1, AlertState.CLOSED: 1}
    registry.apply(report(boot="second", at=START + 3), START + 3)
    assert list_alerts(registry, START + 3, state=AlertState.OPEN) == []


def test_lists_are_in_a_stable_order() -> None:
    registry = make_registry()
    for name in ("beta", "alpha", "gamma"):
        registry.apply(report(name, containers=[container("z"), container("a")]), START)
    assert [node.name for node in list_nodes(registry, START)] == ["alpha", "beta", "gamma"]
    order = [(each.name, each.node) for each in list_containers(registry, START)]
    assert order == sorted(order)
    assert len(order) == 6


def test_ratios_need_a_known_capacity() -> None:
    registry = make_registry()
    registry.apply(report(), START)
    ratios = list_nodes(registry, START)[0].used_ratio
    assert (ratios.cpu_ratio, ratios.memory_ratio, ratios.disk_ratio) == (0.25, 0.25, None)
