import json
import math
import threading
from dataclasses import fields, replace
from unittest.mock import MagicMock

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.liveness import Liveness
from collector.common.orchestrator import NodeView
from collector.config import CollectorConfig, LivenessConfig, PlacementConfig
from collector.history.interface import StoredUsage
from collector.history.timeline import BucketSums
from collector.observe import live_tables
from collector.observe.registry import Registry
from collector.observe.updates import Allocation
from collector.observe.windows import BUCKET_SECONDS
from collector.snapshot.columns import Four
from collector.snapshot.tables import NOWHERE, Generation, Region, Snapshot, TaskKind
from tests.collector.builders import (
    CURVE,
    HEARTBEAT,
    START,
    apply_report,
    container,
    partial_report,
    report,
    state,
)
from tests.collector.listed import list_nodes
from tests.collector.observe.reference import assert_same, reference_snapshot
from tests.collector.report_strategies import clusters, deliveries, patient
from tests.collector.snapshot.builders import ServiceFacts, service_table
from wire.messages import Alert, Event, EventKind, Report
from wire.resources import Quantities, Resource

NAN = math.nan
EAGER = CollectorConfig(
    placement=PlacementConfig(snapshot_seconds=0.0),
    liveness=LivenessConfig(forget_after_hours=1.0),
    nodes={"al*": {"zone": "a", "wattpack.generation": "old"}, "beta": {"wattpack.accept": "never"}},
)


def put_envelope(
    registry: Registry, node: str, container: str, envelope: Four, observed_seconds: float
) -> None:
    """One container's need, which was its mean as well."""
    row = np.array([envelope])
    registry.tables.put_envelopes(node, [container], row, row, np.full((1, 4), 0.5), [observed_seconds])


def make_registry(config: CollectorConfig = EAGER) -> Registry:
    return Registry(config)


def row_of(snapshot: Snapshot, container: str) -> int:
    return snapshot.tasks.index[container]


# --- The columns are what was reported -----------------------------------------------------------


def test_a_capacity_that_is_only_the_highest_use_seen_is_marked_until_it_is_declared() -> None:
    registry = make_registry()
    for sequence, learned in enumerate([(Resource.DISK, Resource.NETWORK), (Resource.DISK,), ()], start=1):
        registry.apply(
            partial_report(sequence=sequence, state=state(learned_capacities=learned), heartbeat=HEARTBEAT),
            START,
        )
        row = registry.tables.snapshot(START).nodes.learned[0].tolist()
        assert row == [False, False, Resource.DISK in learned, Resource.NETWORK in learned]


@patient
@given(clusters(), st.data())
def test_columns_after_any_reports_equal_those_built_from_the_registry(
    reports: list[Report], data: st.DataObject
) -> None:
    registry, now = make_registry(), START
    applied: set[tuple[str, str, int]] = set()
    lost = data.draw(st.sets(st.integers(0, len(reports) - 1), max_size=3))
    left = [each for number, each in enumerate(reports) if number not in lost]
    for request in data.draw(deliveries(left)):
        now += data.draw(st.sampled_from([0.0, 3.0, 40.0]))
        for each in request:
            if (key := (each.node, each.boot, each.sequence)) not in applied:
                applied.add(key)
                registry.apply(each, now)
        assert_same(registry.tables.snapshot(now), reference_snapshot(registry, EAGER, now))
    now += data.draw(st.sampled_from([0.0, 60.0, 4000.0]))
    registry.drop_old(now)
    assert_same(registry.tables.snapshot(now), reference_snapshot(registry, EAGER, now))


def test_rows_are_reused_and_blank() -> None:
    registry = make_registry()
    registry.apply(report(containers=[container("old", labels={"wattpack.class": "4"})]), START)
    put_envelope(registry, "alpha", "id-of-old", (1.0,) * 4, observed_seconds=99)
    registry.tables.put_groups({("alpha", "id-of-old"): 3})
    registry.tables.put_allocations(
        [Allocation(node="alpha", container="id-of-old", requested=(9.0,) * 4, allocated=(9.0,) * 4)]
    )
    size = registry.tables._tasks.table.size
    for number in range(3 * size):
        gone = (f"id-of-{number - 1}",) if number else ("id-of-old",)
        new = container(str(number), service=None)
        registry.apply(partial_report(sequence=number + 2, containers=(new,), gone=gone), START + number)
    assert registry.tables._tasks.table.size == size
    assert_same(registry.tables.snapshot(START + 300), reference_snapshot(registry, EAGER, START + 300))


@pytest.mark.parametrize("claimed_first", [True, False])
def test_a_claim_does_not_take_the_id_of_a_container_that_an_orchestrator_lists(claimed_first: bool) -> None:  # noqa: FBT001 - a parameter
    registry = make_registry()
    promise = Allocation(node="alpha", container="id-of-web", requested=(1.0,) * 4, allocated=(1.0,) * 4)
    claim = report("mallory", containers=[container()])
    if claimed_first:
        registry.apply(claim, START)
    registry.apply(report("alpha", containers=[container()]), START)
    registry.tables.put_allocations([promise])
    registry.apply(claim, START)
    snapshot = registry.tables.snapshot(START)
    assert snapshot.tasks.ids == ("id-of-web", "mallory/id-of-web")
    assert snapshot.nodes.names[snapshot.tasks.node[0]] == "alpha"
    assert [
        each.node for node in ("alpha", "mallory") for each in registry.usage.observed_containers(node)
    ] == ["alpha"], "a service of the orchestrator is described by its own containers only"


def test_a_container_that_two_nodes_report_is_named_by_node_and_id() -> None:
    registry = make_registry()
    registry.apply(report("alpha", containers=[container()]), START)
    assert registry.tables.snapshot(START).tasks.ids == ("id-of-web",)
    registry.apply(report("beta", containers=[container()]), START)
    assert registry.tables.snapshot(START).tasks.ids == ("alpha/id-of-web", "beta/id-of-web")
    registry.apply(partial_report("alpha", sequence=2, gone=("id-of-web",)), START)
    taken = registry.tables.snapshot(START)
    assert (taken.tasks.ids, taken.tasks.node.tolist()) == (("id-of-web",), [1])


def test_containers_are_found_by_service_name_and_group() -> None:
    registry = make_registry()
    web, other = container("web", service="shop"), container("db", service="data")
    registry.apply(report("alpha", containers=[web, other]), START)
    registry.apply(report("beta", containers=[web, container("lone", service=None)]), START)
    find = registry.tables.find
    assert find(services=["shop"]) == {"alpha": ["id-of-web"], "beta": ["id-of-web"]}
    assert find(services=["data", "none"]) == {"alpha": ["id-of-db"]}
    assert find(services=[]) == find(services=["none"]) == find(name="none") == {}
    assert find(name="lone") == {"beta": ["id-of-lone"]}
    registry.tables.put_groups({("beta", "id-of-web"): 2})
    assert find(services=["shop"], group=2) == {"beta": ["id-of-web"]}
    registry.apply(partial_report("beta", sequence=2, gone=("id-of-web",)), START)
    assert find(name="web") == {"alpha": ["id-of-web"]}
    assert find(group=2) == {}
    registry.tables.remove("alpha")
    assert find(services=["shop", "data"]) == {}


# --- A snapshot is left alone ----------------------------------------------------------------


def copied(snapshot: Snapshot) -> list[np.ndarray]:
    tables = (snapshot.nodes, snapshot.tasks, snapshot.services)
    columns = [getattr(table, column.name) for table in tables for column in fields(table)]
    return [column.copy() for column in columns if isinstance(column, np.ndarray)]


def test_a_snapshot_does_not_change_when_tables_do() -> None:
    registry = make_registry()
    for node in ("alpha", "beta"):
        registry.apply(report(node, containers=[container("a"), container("b")]), START)
    taken = registry.tables.snapshot(START)
    before = copied(taken)
    busy = state(used=Quantities(4.0, 1, 1.0, 1.0))
    registry.apply(
        partial_report(sequence=2, state=busy, gone=("id-of-a",), containers=(container("c"),)), START + 1
    )
    put_envelope(registry, "beta", "id-of-a", (7.0,) * 4, observed_seconds=7)
    registry.tables.put_services(service_table([ServiceFacts(name="shop", profiled=True)]))
    registry.tables.put_status(NodeView(name="beta", on=False))
    registry.tables.remove("alpha")
    registry.tables.snapshot(START + 1)
    for column, earlier in zip(copied(taken), before, strict=True):
        np.testing.assert_array_equal(column, earlier)


@pytest.mark.slow
def test_a_snapshot_made_in_a_thread_never_shows_half_a_report() -> None:
    """Each report gives all containers of the node the same use: no snapshot may see two different ones."""
    registry, stop = make_registry(), threading.Event()
    names = [f"c{number}" for number in range(30)]

    def report_of(sequence: int) -> Report:
        used = Quantities(cpu_cores=float(sequence))
        each = tuple(container(name, used=used) for name in names[: 10 + sequence % 20])
        return partial_report(sequence=sequence, containers=each, state=state(used=used), heartbeat=HEARTBEAT)

    registry.apply(report_of(1), START)
    torn: list[object] = []

    def look() -> None:
        while not stop.is_set():
            taken = registry.tables.snapshot(START)
            uses = {*taken.tasks.used[:, 0].tolist(), *taken.nodes.used[:, 0].tolist()}
            if len(uses) != 1 or taken.tasks.ids != tuple(sorted(taken.tasks.ids)):
                torn.append(uses)

    reader = threading.Thread(target=look)
    reader.start()
    for sequence in range(2, 400):
        registry.apply(report_of(sequence), START)
    stop.set()
    reader.join()
    assert torn == []


def test_a_snapshot_is_kept_for_as_long_as_it_is_set() -> None:
    registry = make_registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=2.0)))
    first = registry.tables.snapshot(START)
    registry.apply(report(), START + 1)
    assert registry.tables.snapshot(START + 1.9) is first
    assert registry.tables.snapshot(START + 2).nodes.names == ("alpha",)
    assert registry.tables.snapshot(START - 60).at == START - 60, "a clock that was set back is believed"


# --- What others put into the live tables ----------------------------------------------------


def test_envelopes_outlive_agent_runs_and_end_with_their_container() -> None:
    registry = make_registry()
    registry.apply(report(containers=[container("a"), container("b")]), START)
    put_envelope(registry, "alpha", "id-of-a", (2.0, 5e7, NAN, 9.0), observed_seconds=12)
    put_envelope(registry, "alpha", "id-of-z", (2.0,) * 4, observed_seconds=12)
    registry.tables.put_groups({("alpha", "id-of-b"): 2, ("alpha", "id-of-z"): 1})
    registry.apply(
        report(boot="second", at=START + 9, containers=[container("a"), container("b")]), START + 9
    )
    tasks = registry.tables.snapshot(START + 9).tasks
    assert tasks.envelope[0].tolist() == [2.0, 5e7, 1000.0, 9.0], "what is not learnt is what is used"
    assert (tasks.observed_seconds.tolist(), tasks.group.tolist()) == ([12, 0], [NOWHERE, 2])
    registry.apply(partial_report(boot="second", sequence=2, gone=("id-of-a",)), START + 9)
    registry.apply(partial_report(boot="second", sequence=3, containers=(container("a"),)), START + 9)
    assert registry.tables.snapshot(START + 9).tasks.observed_seconds.tolist() == [0, 0]


def test_the_services_are_the_running_and_the_profiled_ones() -> None:
    registry = make_registry()
    registry.tables.put_services(service_table([ServiceFacts(name="asleep", profiled=True, image="x:1")]))
    registry.apply(report(containers=[container("a", service="shop"), container("b", service=None)]), START)
    taken = registry.tables.snapshot(START)
    assert taken.services.names == ("asleep", "shop")
    assert taken.services.profiled.tolist() == [True, False]
    assert taken.tasks.service.tolist() == [1, NOWHERE]
    registry.apply(partial_report(sequence=2, containers=(container("a", service="bank"),)), START)
    taken = registry.tables.snapshot(START)
    assert (taken.services.names, taken.tasks.service.tolist()) == (("asleep", "bank"), [1, NOWHERE])


def test_allocations_of_an_orchestrator_override_limits() -> None:
    registry = make_registry()
    registry.apply(report(containers=[container("a"), container("b")]), START)
    registry.apply(report("beta"), START)
    promise = Allocation(
        node="alpha",
        container="id-of-a",
        requested=(2.0, 4e8, NAN, NAN),
        allocated=(1.5, 3e8, NAN, NAN),
        came_from="beta",
    )
    registry.tables.put_allocations([promise])
    raised = container("a", limit=Quantities(8.0, 800_000_000))
    registry.apply(partial_report(sequence=2, containers=(raised,)), START)
    taken = registry.tables.snapshot(START)
    assert taken.tasks.requested[:, 0].tolist() == [2.0, 1.0]
    assert taken.tasks.allocated[:, 0].tolist() == [1.5, 1.0]
    assert taken.nodes.allocated[0, :2].tolist() == [2.5, 4e8]
    assert taken.nodes.overbooking[0] == pytest.approx(2.5 / 4)
    assert registry.tables.reservation("alpha", "id-of-a") == Quantities(1.5, 300_000_000)
    assert registry.tables.reservation("beta", "id-of-a") == Quantities()
    assert taken.tasks.came_from.tolist() == [1, NOWHERE]
    assert taken.tasks.kind.tolist() == [TaskKind.SERVICE, TaskKind.SERVICE]
    registry.tables.put_allocations([replace(promise, everywhere=True)])
    assert registry.tables.snapshot(START).tasks.kind.tolist() == [TaskKind.DAEMON, TaskKind.SERVICE]
    registry.tables.remove("beta")
    registry.apply(report("gamma"), START)
    assert registry.tables.snapshot(START).tasks.came_from.tolist() == [NOWHERE, NOWHERE]


def test_a_limit_of_the_whole_node_promises_nothing() -> None:
    registry = make_registry()
    whole = container("a", limit=Quantities(4.0, 1 << 40))
    registry.apply(report(containers=[whole, container("b")], capacity=Quantities(4.0, 1 << 34)), START)
    taken = registry.tables.snapshot(START)
    assert np.isnan(taken.tasks.requested[0]).all()
    assert np.isnan(taken.tasks.allocated[0]).all()
    assert taken.nodes.allocated[0].tolist()[:2] == taken.tasks.allocated[1].tolist()[:2]
    # The node grew, and reports again: now the same limit is one.
    grown = report(sequence=2, containers=[whole, container("b")], capacity=Quantities(8.0, 1 << 34))
    registry.apply(grown, START + 10)
    assert registry.tables.snapshot(START + 10).tasks.allocated[0, 0] == 4.0


def test_settings_override_the_labels_from_an_orchestrator() -> None:
    registry = make_registry()
    for name in ("alpha", "beta", "gamma"):
        registry.apply(report(name), START)
    young = {"wattpack.generation": "young", "zone": "z"}
    registry.tables.put_status(NodeView(name="alpha", labels=young))
    registry.tables.put_status(NodeView(name="gamma", labels=young, on=False, accepts=False))
    registry.tables.put_status(NodeView(name="later", labels=young))
    registry.apply(report("later"), START)
    nodes = registry.tables.snapshot(START)
    assert nodes.domain_names == ("a", "z")
    assert nodes.nodes.domain.tolist() == [0, NOWHERE, 1, 1]
    assert nodes.nodes.generation.tolist() == [
        Generation.OLD,
        Generation.ANY,
        Generation.YOUNG,
        Generation.YOUNG,
    ]
    assert nodes.nodes.accepts.tolist() == [True, False, False, True]
    assert nodes.nodes.on.tolist() == [True, True, False, True]


# --- Nodes -----------------------------------------------------------------------------------


def test_failures_decay() -> None:
    registry = make_registry()
    died = [Event(EventKind.DIED, START), Event(EventKind.OUT_OF_MEMORY, START)]
    harmless = [Event(EventKind.STOPPED, START), Event(EventKind.STARTED, START)]
    registry.apply(partial_report(events=(*died, *died, *harmless)), START)
    counted = [
        int(registry.tables.snapshot(START + hours * 3600).nodes.failures[0]) for hours in (0, 1, 2, 9)
    ]
    assert counted == [4, 2, 1, 0]
    registry.apply(partial_report(sequence=2, events=tuple(died)), START + 3600)
    assert registry.tables.snapshot(START + 3600).nodes.failures[0] == 4


def test_an_open_alert_is_a_bottleneck_until_it_closes_or_its_run_ends() -> None:
    registry = make_registry()
    alert = Alert(Resource.MEMORY, START, "full")
    registry.apply(partial_report(alerts=(alert,)), START)
    assert registry.tables.snapshot(START).nodes.bottleneck[0].tolist() == [False, True, False, False]
    registry.apply(
        partial_report(sequence=2, alerts=(msgspec.structs.replace(alert, closed_at=START),)), START
    )
    assert not registry.tables.snapshot(START).nodes.bottleneck.any()
    registry.apply(partial_report(sequence=3, alerts=(Alert(Resource.CPU, START + 1, "busy"),)), START)
    registry.apply(report(boot="second", at=START + 5), START + 5)
    assert not registry.tables.snapshot(START + 5).nodes.bottleneck.any()


def test_what_an_open_alert_needs_to_close_is_in_the_snapshot() -> None:
    registry = make_registry()
    memory = Alert(Resource.MEMORY, START, "full", excess_ratio=0.12)
    registry.apply(partial_report(alerts=(memory, Alert(Resource.DISK, START, "busy"))), START)
    nodes = registry.tables.snapshot(START).nodes
    assert nodes.excess[0, 1] == 0.12
    assert np.isnan(nodes.excess[0, 2])
    assert nodes.by_time[0].tolist() == [False, False, True, False]


def test_the_last_reported_power_curve_counts() -> None:
    registry = make_registry()
    heartbeat = msgspec.structs.replace(HEARTBEAT, power_curve=CURVE)
    registry.apply(partial_report(state=state(used=Quantities(2.0)), heartbeat=heartbeat), START)
    assert registry.tables.snapshot(START).nodes.watts[0] == pytest.approx(50.0)
    registry.apply(report(boot="second", at=START + 3), START + 3)
    assert np.isnan(registry.tables.snapshot(START + 3).nodes.power.idle_watts[0])


def test_liveness_goes_by_the_node_s_own_beacons() -> None:
    registry = make_registry()
    seldom = msgspec.structs.replace(HEARTBEAT, beacon_seconds=60.0)
    registry.apply(partial_report("seldom", heartbeat=seldom), START)
    registry.apply(partial_report("often", heartbeat=HEARTBEAT), START)
    alive = [
        registry.tables.snapshot(START + after).nodes.liveness.tolist() for after in (10, 11, 21, 121, 241)
    ]
    assert alive == [
        [Liveness.UP, Liveness.UP],
        [Liveness.SUSPECT, Liveness.UP],
        [Liveness.DOWN, Liveness.UP],
        [Liveness.DOWN, Liveness.SUSPECT],
        [Liveness.DOWN, Liveness.DOWN],
    ]


# --- Tasks -----------------------------------------------------------------------------------


def test_labels_set_class_kind_and_movable() -> None:
    registry = make_registry(
        CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0, default_class=2))
    )
    labels = {"wattpack.class": "4", "wattpack.kind": "job", "wattpack.move": "never"}
    registry.apply(report(containers=[container("a", labels=labels), container("b")]), START)
    tasks = registry.tables.snapshot(START).tasks
    assert tasks.task_class.tolist() == [4, 2]
    assert tasks.kind.tolist() == [TaskKind.JOB, TaskKind.SERVICE]
    assert tasks.movable.tolist() == [False, True]
    registry.apply(partial_report(sequence=2, containers=(container("a"),)), START)
    assert registry.tables.snapshot(START).tasks.task_class.tolist() == [2, 2]


def test_age_counts_from_the_start_and_settled_from_the_first_report() -> None:
    registry = make_registry()
    started = container("a", started_at=START - 100)
    registry.apply(report(containers=[started, container("b", started_at=None)]), START)
    registry.apply(
        partial_report(sequence=2, containers=(container("a", started_at=START + 50),)), START + 50
    )
    tasks = registry.tables.snapshot(START + 60).tasks
    assert tasks.age_seconds.tolist() == [10.0, 60.0]
    assert tasks.settled_seconds.tolist() == [60.0, 60.0]


# --- Strangers -------------------------------------------------------------------------------


def test_absurd_numbers_affect_only_their_node() -> None:
    registry = make_registry()
    huge = Quantities(1.7e308, 2**63 - 1, math.inf, 1e308)
    wild = [container(name, used=huge, limit=huge) for name in "abc"]
    registry.apply(report(containers=wild, used=huge, capacity=Quantities(5e-324, 1, math.inf, 0.0)), START)
    registry.apply(report("beta", containers=[container("d")]), START)
    registry.apply(report(sequence=2, containers=wild, used=Quantities(), capacity=huge), START + 400)
    taken = registry.tables.snapshot(START + 800)
    assert taken.nodes.index == {"alpha": 0, "beta": 1}
    assert registry.tables.nodes_by_region() == ["beta", "alpha"]
    placement = list_nodes(registry, START)[0].placement
    assert placement.allocated.memory_bytes == 2**63 - 1
    json.loads(msgspec.json.encode(list_nodes(registry, START)))


def test_the_record_of_a_node_equals_its_row_in_the_snapshot() -> None:
    registry = make_registry()
    registry.tables.put_status(NodeView(name="beta", labels={"disk": "ssd"}, on=False))
    some = [container("a", labels={"wattpack.class": "3"}), container("b", labels={"wattpack.class": "2"})]
    registry.apply(report("alpha", containers=some, used=Quantities(3.0, 0)), START)
    registry.apply(partial_report("beta", events=(Event(EventKind.DIED, START),)), START)
    taken, listed = (
        registry.tables.snapshot(START).nodes,
        [node.placement for node in list_nodes(registry, START)],
    )
    assert [each.region for each in listed] == [Region(code).name for code in taken.region] == ["DEE", "LEE"]
    assert [each.task_class or 0 for each in listed] == taken.strictest_class.tolist() == [2, 0]
    assert [each.overbooking_ratio for each in listed] == taken.overbooking.tolist() == [0.5, 0.0]
    assert listed[0].allocated == Quantities(2.0, 200_000_000)
    assert [each.failures for each in listed] == taken.failures.tolist() == [0, 1]
    assert [each.generation for each in listed] == ["old", "any"]
    assert [(each.accepts, each.on) for each in listed] == [(True, True), (False, False)]
    assert [each.labels.get("zone", each.labels.get("disk")) for each in listed] == ["a", "ssd"]


def test_labels_of_a_service_override_those_of_its_containers() -> None:
    registry = make_registry()
    own = container("web", labels={"wattpack.class": "2", "wattpack.move": "never"})
    registry.apply(report("alpha", containers=(own,)), START)
    promise = Allocation(
        node="alpha",
        container="id-of-web",
        requested=(1.0,) * 4,
        allocated=(1.0,) * 4,
        labels={"wattpack.class": "4", "wattpack.kind": "daemon"},
    )
    registry.tables.put_allocations([promise])

    def traits(now: float) -> tuple[int, int, bool]:
        tasks = registry.tables.snapshot(now).tasks
        return int(tasks.task_class[0]), int(tasks.kind[0]), bool(tasks.movable[0])

    assert traits(START) == (4, TaskKind.DAEMON, False)
    # A new label of the container does not take them back.
    relabelled = container("web", labels={"wattpack.class": "1"})
    registry.apply(report("alpha", sequence=2, containers=(relabelled,)), START + 5)
    assert traits(START + 5) == (4, TaskKind.DAEMON, True)
    registry.tables.put_allocations([replace(promise, labels={})])
    assert traits(START + 10) == (1, TaskKind.SERVICE, True)


def test_restored_windows_are_written_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    containers, first = [f"c{number}" for number in range(7)], int(START // BUCKET_SECONDS) - 3
    rows = [(subject, first + bucket) for subject in range(len(containers) + 1) for bucket in range(3)]
    subject, bucket = np.array(rows).T
    seconds = np.full(len(rows), BUCKET_SECONDS)
    totals = np.array([[(1 + each) * BUCKET_SECONDS] * 4 for each in range(len(rows))])
    sums = BucketSums(subject, bucket, seconds, totals, np.ones((len(rows), 0)))
    usage = StoredUsage([("alpha", None), *(("alpha", f"id-of-{each}") for each in containers)], sums)

    def restored() -> tuple[Snapshot, int]:
        registry, turns = make_registry(), MagicMock(wraps=threading.Lock())
        apply_report(registry, report(containers=[container(each) for each in containers]), START)
        monkeypatch.setattr(registry.tables, "_lock", turns)
        turns.__enter__.side_effect = turns.acquire
        turns.__exit__.side_effect = lambda *_: turns.release()
        registry.tables.restore_windows(usage, {})
        count = turns.acquire.call_count
        return registry.tables.snapshot(START), count

    whole, few = restored()
    monkeypatch.setattr(live_tables, "_ROWS_AT_ONCE", 2)
    parts, many = restored()
    np.testing.assert_array_equal(whole.tasks.windows.amounts, parts.tasks.windows.amounts)
    assert np.unique(parts.tasks.windows.amounts[:, -3:]).size == 3 * len(containers)
    # In each bucket, the node and four parts of its containers; before, all rows are found one by one.
    assert (few, many) == (8 + 3 * 2, 8 + 3 * (1 + 4))
