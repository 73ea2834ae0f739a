import json
import math
import threading
from dataclasses import fields, replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.api.nodes import list_nodes
from collector.common.liveness import Liveness
from collector.config import CollectorConfig, LivenessConfig, NodeRule, PlacementConfig
from collector.live.registry import Registry
from collector.live.updates import Allocation, NodeStatus
from collector.snapshot.columns import Four, ServiceFacts
from collector.snapshot.tables import NOWHERE, Generation, Region, Snapshot, TaskKind
from tests.collector.builders import CURVE, HEARTBEAT, START, container, report, said, state
from tests.collector.live.reference import afresh, assert_same
from tests.collector.speaking import clusters, deliveries, patient
from wire.messages import Alert, Event, EventKind, Report
from wire.resources import Quantities, Resource

NAN = math.nan
EAGER = CollectorConfig(
    placement=PlacementConfig(snapshot_seconds=0.0),
    liveness=LivenessConfig(forget_after_hours=1.0),
    nodes={"al*": NodeRule(labels={"zone": "a"}, generation="old"), "beta": NodeRule(accepts=False)},
)


def put_envelope(known: Registry, node: str, container: str, envelope: Four, samples: int) -> None:
    """One container's need, which was its mean as well."""
    row = np.array([envelope])
    known.tables.put_envelopes(node, [container], row, row, np.full((1, 4), 0.5), [samples])


def registry(config: CollectorConfig = EAGER) -> Registry:
    return Registry(config)


def row_of(snapshot: Snapshot, container: str) -> int:
    return snapshot.tasks.index[container]


# --- The columns are what was said -----------------------------------------------------------


@patient
@given(clusters(), st.data())
def test_after_any_reports_in_any_order_the_columns_are_those_made_afresh(
    spoken: list[Report], data: st.DataObject
) -> None:
    known, now = registry(), START
    seen: set[tuple[str, str, int]] = set()
    lost = data.draw(st.sets(st.integers(0, len(spoken) - 1), max_size=3))
    left = [each for number, each in enumerate(spoken) if number not in lost]
    for request in data.draw(deliveries(left)):
        now += data.draw(st.sampled_from([0.0, 3.0, 40.0]))
        for each in request:
            if (key := (each.node, each.boot, each.sequence)) not in seen:
                seen.add(key)
                known.apply(each, now)
        assert_same(known.tables.snapshot(now), afresh(known, EAGER, now))
    now += data.draw(st.sampled_from([0.0, 60.0, 4000.0]))
    known.drop_old(now)
    assert_same(known.tables.snapshot(now), afresh(known, EAGER, now))


def test_rows_of_those_that_left_are_used_again_and_nothing_of_them_is_left() -> None:
    known = registry()
    known.apply(report(containers=[container("old", labels={"wattpack.class": "4"})]), START)
    put_envelope(known, "alpha", "id-of-old", (1.0,) * 4, samples=99)
    known.tables.put_groups({("alpha", "id-of-old"): 3})
    known.tables.put_allocations(
        [Allocation(node="alpha", container="id-of-old", requested=(9.0,) * 4, allocated=(9.0,) * 4)]
    )
    size = known.tables._tasks.table.size
    for number in range(3 * size):
        gone = (f"id-of-{number - 1}",) if number else ("id-of-old",)
        new = container(str(number), service=None)
        known.apply(said(sequence=number + 2, containers=(new,), gone=gone), START + number)
    assert known.tables._tasks.table.size == size
    assert_same(known.tables.snapshot(START + 300), afresh(known, EAGER, START + 300))


def test_a_container_that_two_nodes_claim_is_told_apart_while_they_do() -> None:
    known = registry()
    known.apply(report("alpha", containers=[container()]), START)
    assert known.tables.snapshot(START).tasks.ids == ("id-of-web",)
    known.apply(report("beta", containers=[container()]), START)
    assert known.tables.snapshot(START).tasks.ids == ("alpha/id-of-web", "beta/id-of-web")
    known.apply(said("alpha", sequence=2, gone=("id-of-web",)), START)
    taken = known.tables.snapshot(START)
    assert (taken.tasks.ids, taken.tasks.node.tolist()) == (("id-of-web",), [1])


def test_containers_are_found_by_what_they_are_wherever_they_run() -> None:
    known = registry()
    web, other = container("web", service="shop"), container("db", service="data")
    known.apply(report("alpha", containers=[web, other]), START)
    known.apply(report("beta", containers=[web, container("lone", service=None)]), START)
    find = known.tables.find
    assert find(services=["shop"]) == {"alpha": ["id-of-web"], "beta": ["id-of-web"]}
    assert find(services=["data", "none"]) == {"alpha": ["id-of-db"]}
    assert find(services=[]) == find(services=["none"]) == find(name="none") == {}
    assert find(name="lone") == {"beta": ["id-of-lone"]}
    known.tables.put_groups({("beta", "id-of-web"): 2})
    assert find(services=["shop"], group=2) == {"beta": ["id-of-web"]}
    known.apply(said("beta", sequence=2, gone=("id-of-web",)), START)
    assert find(name="web") == {"alpha": ["id-of-web"]}
    assert find(group=2) == {}
    known.tables.remove("alpha")
    assert find(services=["shop", "data"]) == {}


# --- A snapshot is left alone ----------------------------------------------------------------


def copied(snapshot: Snapshot) -> list[np.ndarray]:
    tables = (snapshot.nodes, snapshot.tasks, snapshot.services)
    columns = [getattr(table, column.name) for table in tables for column in fields(table)]
    return [column.copy() for column in columns if isinstance(column, np.ndarray)]


def test_a_snapshot_does_not_change_while_writers_go_on() -> None:
    known = registry()
    for node in ("alpha", "beta"):
        known.apply(report(node, containers=[container("a"), container("b")]), START)
    taken = known.tables.snapshot(START)
    before = copied(taken)
    busy = state(used=Quantities(4.0, 1, 1.0, 1.0))
    known.apply(said(sequence=2, state=busy, gone=("id-of-a",), containers=(container("c"),)), START + 1)
    put_envelope(known, "beta", "id-of-a", (7.0,) * 4, samples=7)
    known.tables.put_services([ServiceFacts(name="shop", profiled=True)])
    known.tables.put_status(NodeStatus(node="beta", on=False))
    known.tables.remove("alpha")
    known.tables.snapshot(START + 1)
    for column, earlier in zip(copied(taken), before, strict=True):
        np.testing.assert_array_equal(column, earlier)


def test_a_snapshot_made_in_a_thread_never_shows_half_a_report() -> None:
    """Each report gives all containers of the node the same use: no snapshot may see two different ones."""
    known, stop = registry(), threading.Event()
    names = [f"c{number}" for number in range(30)]

    def told(sequence: int) -> Report:
        used = Quantities(cpu_cores=float(sequence))
        each = tuple(container(name, used=used) for name in names[: 10 + sequence % 20])
        return said(sequence=sequence, containers=each, state=state(used=used), heartbeat=HEARTBEAT)

    known.apply(told(1), START)
    torn: list[object] = []

    def look() -> None:
        while not stop.is_set():
            taken = known.tables.snapshot(START)
            uses = {*taken.tasks.used[:, 0].tolist(), *taken.nodes.used[:, 0].tolist()}
            if len(uses) != 1 or taken.tasks.ids != tuple(sorted(taken.tasks.ids)):
                torn.append(uses)

    reader = threading.Thread(target=look)
    reader.start()
    for sequence in range(2, 400):
        known.apply(told(sequence), START)
    stop.set()
    reader.join()
    assert torn == []


def test_a_snapshot_is_kept_for_as_long_as_it_is_set() -> None:
    known = registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=2.0)))
    first = known.tables.snapshot(START)
    known.apply(report(), START + 1)
    assert known.tables.snapshot(START + 1.9) is first
    assert known.tables.snapshot(START + 2).nodes.names == ("alpha",)
    assert known.tables.snapshot(START - 60).at == START - 60, "a clock that was set back is believed"


# --- What others put on the board ------------------------------------------------------------


def test_what_was_learnt_of_a_container_stays_with_it_over_runs_and_goes_with_it() -> None:
    known = registry()
    known.apply(report(containers=[container("a"), container("b")]), START)
    put_envelope(known, "alpha", "id-of-a", (2.0, 5e7, NAN, 9.0), samples=12)
    put_envelope(known, "alpha", "id-of-z", (2.0,) * 4, samples=12)
    known.tables.put_groups({("alpha", "id-of-b"): 2, ("alpha", "id-of-z"): 1})
    known.apply(report(boot="second", at=START + 9, containers=[container("a"), container("b")]), START + 9)
    tasks = known.tables.snapshot(START + 9).tasks
    assert tasks.envelope[0].tolist() == [2.0, 5e7, 1000.0, 9.0], "what is not learnt is what is used"
    assert (tasks.samples.tolist(), tasks.group.tolist()) == ([12, 0], [NOWHERE, 2])
    known.apply(said(boot="second", sequence=2, gone=("id-of-a",)), START + 9)
    known.apply(said(boot="second", sequence=3, containers=(container("a"),)), START + 9)
    assert known.tables.snapshot(START + 9).tasks.samples.tolist() == [0, 0]


def test_services_are_those_that_run_and_those_that_are_known() -> None:
    known = registry()
    known.tables.put_services([ServiceFacts(name="asleep", profiled=True, image="x:1")])
    known.apply(report(containers=[container("a", service="shop"), container("b", service=None)]), START)
    taken = known.tables.snapshot(START)
    assert taken.services.names == ("asleep", "shop")
    assert taken.services.profiled.tolist() == [True, False]
    assert taken.tasks.service.tolist() == [1, NOWHERE]
    known.apply(said(sequence=2, containers=(container("a", service="bank"),)), START)
    taken = known.tables.snapshot(START)
    assert (taken.services.names, taken.tasks.service.tolist()) == (("asleep", "bank"), [1, NOWHERE])


def test_what_an_orchestrator_promised_counts_more_than_limits() -> None:
    known = registry()
    known.apply(report(containers=[container("a"), container("b")]), START)
    known.apply(report("beta"), START)
    promise = Allocation(
        node="alpha",
        container="id-of-a",
        requested=(2.0, 4e8, NAN, NAN),
        allocated=(1.5, 3e8, NAN, NAN),
        came_from="beta",
    )
    known.tables.put_allocations([promise])
    raised = container("a", limit=Quantities(8.0, 800_000_000))
    known.apply(said(sequence=2, containers=(raised,)), START)
    taken = known.tables.snapshot(START)
    assert taken.tasks.requested[:, 0].tolist() == [2.0, 1.0]
    assert taken.tasks.allocated[:, 0].tolist() == [1.5, 1.0]
    assert taken.nodes.allocated[0, :2].tolist() == [2.5, 4e8]
    assert taken.nodes.overbooking[0] == pytest.approx(2.5 / 4)
    assert taken.tasks.came_from.tolist() == [1, NOWHERE]
    assert taken.tasks.kind.tolist() == [TaskKind.SERVICE, TaskKind.SERVICE]
    known.tables.put_allocations([replace(promise, everywhere=True)])
    assert known.tables.snapshot(START).tasks.kind.tolist() == [TaskKind.DAEMON, TaskKind.SERVICE]
    known.tables.remove("beta")
    known.apply(report("gamma"), START)
    assert known.tables.snapshot(START).tasks.came_from.tolist() == [NOWHERE, NOWHERE]


def test_a_limit_that_leaves_a_container_the_whole_node_promises_it_nothing() -> None:
    known = registry()
    whole = container("a", limit=Quantities(4.0, 1 << 40))
    known.apply(report(containers=[whole, container("b")], capacity=Quantities(4.0, 1 << 34)), START)
    taken = known.tables.snapshot(START)
    assert np.isnan(taken.tasks.requested[0]).all()
    assert np.isnan(taken.tasks.allocated[0]).all()
    assert taken.nodes.allocated[0].tolist()[:2] == taken.tasks.allocated[1].tolist()[:2]
    # The node grew, and what it says is said anew: now the same limit is one.
    grown = report(sequence=2, containers=[whole, container("b")], capacity=Quantities(8.0, 1 << 34))
    known.apply(grown, START + 10)
    assert known.tables.snapshot(START + 10).tasks.allocated[0, 0] == 4.0


def test_settings_and_orchestrators_say_what_a_node_is_for() -> None:
    known = registry()
    for name in ("alpha", "beta", "gamma"):
        known.apply(report(name), START)
    young = (("wattpack.generation", "young"), ("zone", "z"))
    known.tables.put_status(NodeStatus(node="alpha", labels=young))
    known.tables.put_status(NodeStatus(node="gamma", labels=young, on=False, accepts=False))
    known.tables.put_status(NodeStatus(node="later", labels=young))
    known.apply(report("later"), START)
    nodes = known.tables.snapshot(START)
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


def test_deaths_of_late_fade() -> None:
    known = registry()
    died = [Event(EventKind.DIED, START), Event(EventKind.OUT_OF_MEMORY, START)]
    harmless = [Event(EventKind.STOPPED, START), Event(EventKind.STARTED, START)]
    known.apply(said(events=(*died, *died, *harmless)), START)
    counted = [int(known.tables.snapshot(START + hours * 3600).nodes.failures[0]) for hours in (0, 1, 2, 9)]
    assert counted == [4, 2, 1, 0]
    known.apply(said(sequence=2, events=tuple(died)), START + 3600)
    assert known.tables.snapshot(START + 3600).nodes.failures[0] == 4


def test_an_open_alert_is_a_bottleneck_until_it_closes_or_its_run_ends() -> None:
    known = registry()
    alert = Alert(Resource.MEMORY, START, "full")
    known.apply(said(alerts=(alert,)), START)
    assert known.tables.snapshot(START).nodes.bottleneck[0].tolist() == [False, True, False, False]
    known.apply(said(sequence=2, alerts=(msgspec.structs.replace(alert, closed_at=START),)), START)
    assert not known.tables.snapshot(START).nodes.bottleneck.any()
    known.apply(said(sequence=3, alerts=(Alert(Resource.CPU, START + 1, "busy"),)), START)
    known.apply(report(boot="second", at=START + 5), START + 5)
    assert not known.tables.snapshot(START + 5).nodes.bottleneck.any()


def test_a_power_curve_is_as_last_told() -> None:
    known = registry()
    heartbeat = msgspec.structs.replace(HEARTBEAT, power_curve=CURVE)
    known.apply(said(state=state(used=Quantities(2.0)), heartbeat=heartbeat), START)
    assert known.tables.snapshot(START).nodes.watts[0] == pytest.approx(50.0)
    known.apply(report(boot="second", at=START + 3), START + 3)
    assert not known.tables.snapshot(START + 3).nodes.power.has_curve[0]


def test_liveness_goes_by_the_node_s_own_beacons() -> None:
    known = registry()
    seldom = msgspec.structs.replace(HEARTBEAT, beacon_seconds=60.0)
    known.apply(said("seldom", heartbeat=seldom), START)
    known.apply(said("often", heartbeat=HEARTBEAT), START)
    alive = [known.tables.snapshot(START + after).nodes.liveness.tolist() for after in (10, 11, 21, 121, 241)]
    assert alive == [
        [Liveness.UP, Liveness.UP],
        [Liveness.SUSPECT, Liveness.UP],
        [Liveness.DOWN, Liveness.UP],
        [Liveness.DOWN, Liveness.SUSPECT],
        [Liveness.DOWN, Liveness.DOWN],
    ]


# --- Tasks -----------------------------------------------------------------------------------


def test_labels_say_what_may_be_done_with_a_container() -> None:
    known = registry(CollectorConfig(placement=PlacementConfig(snapshot_seconds=0.0, default_class=2)))
    labels = {"wattpack.class": "4", "wattpack.kind": "job", "wattpack.move": "never"}
    known.apply(report(containers=[container("a", labels=labels), container("b")]), START)
    tasks = known.tables.snapshot(START).tasks
    assert tasks.task_class.tolist() == [4, 2]
    assert tasks.kind.tolist() == [TaskKind.JOB, TaskKind.SERVICE]
    assert tasks.movable.tolist() == [False, True]
    known.apply(said(sequence=2, containers=(container("a"),)), START)
    assert known.tables.snapshot(START).tasks.task_class.tolist() == [2, 2]


def test_age_is_since_its_start_and_settled_since_it_was_first_seen_there() -> None:
    known = registry()
    started = container("a", started_at=START - 100)
    known.apply(report(containers=[started, container("b", started_at=None)]), START)
    known.apply(said(sequence=2, containers=(container("a", started_at=START + 50),)), START + 50)
    tasks = known.tables.snapshot(START + 60).tasks
    assert tasks.age_seconds.tolist() == [10.0, 60.0]
    assert tasks.settled_seconds.tolist() == [60.0, 60.0]


# --- Strangers -------------------------------------------------------------------------------


def test_absurd_numbers_harm_nobody() -> None:
    known = registry()
    huge = Quantities(1.7e308, 2**63 - 1, math.inf, 1e308)
    wild = [container(name, used=huge, limit=huge) for name in "abc"]
    known.apply(report(containers=wild, used=huge, capacity=Quantities(5e-324, 1, math.inf, 0.0)), START)
    known.apply(report("beta", containers=[container("d")]), START)
    known.apply(report(sequence=2, containers=wild, used=Quantities(), capacity=huge), START + 400)
    taken = known.tables.snapshot(START + 800)
    assert taken.nodes.index == {"alpha": 0, "beta": 1}
    assert known.tables.nodes_by_region() == ["beta", "alpha"]
    placement = list_nodes(known, START)[0].placement
    assert placement.allocated.memory_bytes == 2**63 - 1
    json.loads(msgspec.json.encode(list_nodes(known, START)))


def test_the_record_of_a_node_is_what_the_snapshot_says() -> None:
    known = registry()
    known.tables.put_status(NodeStatus(node="beta", labels=(("disk", "ssd"),), on=False))
    some = [container("a", labels={"wattpack.class": "3"}), container("b", labels={"wattpack.class": "2"})]
    known.apply(report("alpha", containers=some, used=Quantities(3.0, 0)), START)
    known.apply(said("beta", events=(Event(EventKind.DIED, START),)), START)
    taken, listed = known.tables.snapshot(START).nodes, [node.placement for node in list_nodes(known, START)]
    assert [each.region for each in listed] == [Region(code).name for code in taken.region] == ["DEE", "LEE"]
    assert [each.task_class or 0 for each in listed] == taken.strictest_class.tolist() == [2, 0]
    assert [each.overbooking_ratio for each in listed] == taken.overbooking.tolist() == [0.5, 0.0]
    assert listed[0].allocated == Quantities(2.0, 200_000_000)
    assert [each.failures for each in listed] == taken.failures.tolist() == [0, 1]
    assert [each.generation for each in listed] == ["old", "any"]
    assert [(each.accepts, each.on) for each in listed] == [(True, True), (False, False)]
    assert [each.labels for each in listed] == [{"zone": "a"}, {"disk": "ssd"}]
