import random
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import pytest

from agent.config import ReportingConfig
from agent.reporting.reporter import Reporter
from agent.sources.docker import ContainerInfo, RuntimeEvent
from tests.agent.samples import IDLE, Clock, Container, cpu, die, node_sample, oom, start
from wire.messages import Alert, Event, EventKind, Report, encode, parse_batch
from wire.resources import Quantities, Resource
from wire.sketch import Sketch
from wire.version import __version__


class Node:
    """A node that speaks, on simulated time."""

    def __init__(self, push: ReportingConfig, name: str = "node1", sample_seconds: float = 3.0) -> None:
        self.clock = Clock()
        self.reporter = Reporter(name, "b00t", push, sample_seconds)
        self.reported: list[Report] = []

    def tick(
        self,
        containers: dict[str, Container] | None = None,
        events: Sequence[RuntimeEvent] = (),
        alerts: Sequence[Alert] = (),
        *,
        seconds: float = 3.0,
        images: tuple[str, ...] | None = None,
        **host: Quantities,
    ) -> Report | None:
        self.clock.advance(seconds)
        shown = node_sample(self.clock, containers, watts=50.0, **host)
        report = self.reporter.report(shown, events, alerts, images)
        if report is not None:
            assert parse_batch(b"[" + encode(report) + b"]") == (report,), "the collector would refuse it"
            self.reported.append(report)
        return report

    def ticks(
        self, count: int, containers_at: Callable[[int], dict[str, Container]] | None = None
    ) -> list[Report | None]:
        return [self.tick(containers_at(number) if containers_at else None) for number in range(count)]


def quiet(**given: float) -> ReportingConfig:
    """Settings with which nothing but the given ones causes a report."""
    settings = {
        "window_seconds": 3600.0,
        "beacon_seconds": 3600.0,
        "heartbeat_seconds": 86_400.0,
    }
    return ReportingConfig(**{**settings, **given})


def the(report: Report | None) -> Report:
    assert report is not None
    return report


# --- Joining --------------------------------------------------------------------------------


def test_first_report_is_full() -> None:
    node = Node(ReportingConfig())
    report = the(node.tick({"a": Container(cpu(0.5)), "b": Container()}, used=cpu(1.5)))
    assert (report.node, report.boot, report.sequence) == ("node1", "b00t", 1)
    assert report.at == node.clock.unix_seconds
    assert report.events == (Event(EventKind.JOINED, report.at),)
    assert report.heartbeat is not None
    assert report.heartbeat.agent_version == __version__
    assert (report.heartbeat.sample_seconds, report.heartbeat.beacon_seconds) == (3.0, 30.0)
    assert report.state is not None
    assert (report.state.used.cpu_cores, report.state.window_seconds) == (1.5, 3.0)
    assert [(each.id, each.used.cpu_cores, each.window_seconds) for each in report.containers] == [
        ("a", 0.5, 3.0),
        ("b", 0.0, 3.0),
    ]


def test_reports_are_counted_from_one() -> None:
    node = Node(quiet(beacon_seconds=3.0))
    node.ticks(4)
    assert [report.sequence for report in node.reported] == [1, 2, 3, 4]


def test_announced_beacon_interval_is_at_least_the_sample_interval() -> None:
    heartbeat = the(Node(quiet(beacon_seconds=30.0), sample_seconds=60.0).tick()).heartbeat
    assert heartbeat is not None
    assert heartbeat.beacon_seconds == 60.0


# --- Windows --------------------------------------------------------------------------------


def test_host_window_is_reported_first_and_then_only_after_a_change() -> None:
    node = Node(quiet(window_seconds=30.0))
    levels = [1.0] * 10 + [1.0] * 10 + [1.3] * 10 + [1.5] * 10 + [1.5] * 10 + [1.2] * 10 + [1.1] * 10
    reported = {}
    for number, cores in enumerate(levels, start=1):
        report = node.tick(used=cpu(cores))
        if report is not None and number > 1:
            assert report.state is not None
            assert report.state.window_seconds == 30.0
            reported[3 * number] = report.state.used.cpu_cores
    # Of four cores, ten points are 0.4: 1.3 is not enough, 1.5 is after 1.0 was reported; then 1.1 after 1.5.
    assert reported == {30: 1.0, 120: 1.5, 210: 1.1}


def test_a_spike_within_a_window_does_not_look_like_load() -> None:
    node = Node(quiet(window_seconds=30.0))
    node.ticks(10)
    reports = [node.tick(used=cpu(3.9 if number == 4 else 0.0)) for number in range(10)]
    assert reports == [None] * 10


@pytest.mark.parametrize(
    "moved",
    [
        Quantities(cpu_cores=0.4, memory_bytes=0, disk_bytes_per_second=0.0, network_bytes_per_second=0.0),
        Quantities(cpu_cores=0.0, memory_bytes=800, disk_bytes_per_second=0.0, network_bytes_per_second=0.0),
        Quantities(cpu_cores=0.0, memory_bytes=0, disk_bytes_per_second=1e5, network_bytes_per_second=0.0),
        Quantities(cpu_cores=0.0, memory_bytes=0, disk_bytes_per_second=0.0, network_bytes_per_second=1e5),
    ],
)
def test_any_of_the_four_resources_moves_the_host(moved: Quantities) -> None:
    node = Node(quiet(window_seconds=3.0))
    node.ticks(3)
    report = the(node.tick(used=moved))
    assert report.state is not None
    assert report.state.used == moved
    assert report.containers == ()
    assert node.tick(used=moved) is None


def test_threshold_zero_reports_every_window() -> None:
    node = Node(quiet(window_seconds=6.0, threshold_points=0.0))
    reports = node.ticks(18, lambda _: {"a": Container()})
    assert [number for number, each in enumerate(reports, 1) if each and each.state] == [
        1,
        *range(2, 19, 2),
    ]
    assert [number for number, each in enumerate(reports, 1) if each and each.containers] == [
        1,
        *range(3, 19, 3),
    ]


def test_windows_that_close_together_share_a_message() -> None:
    node = Node(quiet(window_seconds=6.0, threshold_points=0.0))
    node.ticks(5, lambda _: {"a": Container()})
    report = the(node.tick({"a": Container()}))
    assert report.state is not None
    assert len(report.containers) == 1


def test_a_containers_points_are_of_its_limit_or_else_of_the_host() -> None:
    node = Node(quiet(window_seconds=2.0))
    unlimited = Quantities()

    def containers_at(cores: float) -> dict[str, Container]:
        return {"small": Container(cpu(cores)), "free": Container(cpu(cores), limit=unlimited)}

    node.tick(containers_at(0.0))
    node.tick(containers_at(0.0))
    assert [each.id for each in the(node.tick(containers_at(0.1))).containers] == ["small"]
    assert node.tick(containers_at(0.15)) is None
    assert [each.id for each in the(node.tick(containers_at(0.4))).containers] == ["small", "free"]


def _among_ten(cores: float) -> dict[str, Container]:
    """One container that uses some of the 4 cores, among ten without a limit."""
    steady = {f"steady{number}": Container(cpu(0.05), limit=Quantities()) for number in range(9)}
    return {"grows": Container(cpu(cores), limit=Quantities()), **steady}


def test_a_container_without_a_limit_that_doubles_is_reported_before_it_used_ten_points_of_the_host() -> None:
    node = Node(quiet(window_seconds=2.0))
    node.ticks(3, lambda _: _among_ten(0.1))
    assert node.tick(_among_ten(0.19)) is None
    assert [each.id for each in the(node.tick(_among_ten(0.2))).containers] == ["grows"]
    # Of ten containers, each may hide a tenth of the threshold: 0.04 cores.
    node = Node(quiet(window_seconds=2.0))
    node.ticks(3, lambda _: _among_ten(0.001))
    assert node.tick(_among_ten(0.079)) is None
    assert [each.id for each in the(node.tick(_among_ten(0.08))).containers] == ["grows"]


def test_a_value_that_goes_up_and_down_is_reported_a_few_times_per_heartbeat() -> None:
    node = Node(quiet(window_seconds=2.0, heartbeat_seconds=300.0))
    node.ticks(3, lambda _: _among_ten(0.01))
    began = len(node.reported)
    node.ticks(300, lambda number: _among_ten(0.01 if number % 2 else 0.39))
    told = [each.heartbeat is not None for each in node.reported[began:] if each.containers]
    heartbeats = [place for place, full in enumerate(told) if full]
    assert len(heartbeats) == 3
    # It is ten times of what counts: it doubles three times.
    assert [after - before - 1 for before, after in pairwise(heartbeats)] == [3, 3]


def test_only_changed_containers_are_reported() -> None:
    node = Node(quiet(window_seconds=2.0))
    node.ticks(3, lambda _: {name: Container(cpu(0.5)) for name in "abc"})
    report = the(node.tick({"a": Container(cpu(0.5)), "b": Container(cpu(0.7)), "c": Container(cpu(0.5))}))
    assert [each.id for each in report.containers] == ["b"]
    assert report.state is None


def test_report_contains_the_means_over_the_window() -> None:
    node = Node(quiet(window_seconds=4.0))
    node.tick({"a": Container(cpu(0.2, 100), watts=1.0)})
    (reported,) = the(node.tick({"a": Container(cpu(0.4, 200), watts=2.0)})).containers
    assert reported.used.cpu_cores == pytest.approx(0.3)
    assert reported.used.memory_bytes == 150
    assert reported.power is not None
    assert reported.power.watts == pytest.approx(1.5)
    assert reported.window_seconds == 6.0


def test_resource_that_becomes_known_or_unknown_is_reported() -> None:
    node = Node(quiet(window_seconds=2.0))
    blind = Quantities(cpu_cores=0.0, memory_bytes=0)
    node.ticks(3, lambda _: {"a": Container(blind)})
    (reported,) = the(node.tick({"a": Container(IDLE)})).containers
    assert reported.used == IDLE
    assert node.tick({"a": Container(IDLE)}) is None
    (reported,) = the(node.tick({"a": Container(blind)})).containers
    assert reported.used == blind


def test_a_limit_that_changes_moves_what_is_used_of_it() -> None:
    node = Node(quiet(window_seconds=2.0))
    node.ticks(3, lambda _: {"a": Container(cpu(0.5))})
    (reported,) = the(
        node.tick({"a": Container(cpu(0.5), limit=Quantities(cpu_cores=2.0, memory_bytes=1000))})
    ).containers
    assert reported.limit.cpu_cores == 2.0


def test_changed_limit_is_reported_at_once_with_the_last_whole_window() -> None:
    node = Node(quiet(window_seconds=6.0))
    node.ticks(5, lambda number: {"a": Container(cpu(0.5 if number < 3 else 1.5)), "b": Container()})
    lowered = {
        "a": Container(cpu(1.5), limit=Quantities(cpu_cores=2.0, memory_bytes=1000)),
        "b": Container(),
    }
    (reported,) = the(node.tick(lowered, seconds=0.5)).containers
    assert (reported.id, reported.limit.cpu_cores, reported.used.cpu_cores) == ("a", 2.0, 0.5)
    assert node.tick(lowered, seconds=0.5) is None


def test_without_a_capacity_nothing_moves_until_there_is_one() -> None:
    node = Node(quiet(window_seconds=3.0))
    unknown = Quantities(cpu_cores=4.0, memory_bytes=8000)
    busy = Quantities(cpu_cores=0.0, memory_bytes=0, disk_bytes_per_second=9e9, network_bytes_per_second=0.0)
    node.tick(capacity=unknown)
    node.tick(capacity=unknown)
    assert node.tick(used=busy, capacity=unknown) is None
    assert the(node.tick(used=busy)).state is not None


def test_a_long_gap_makes_one_window_of_its_true_length_and_the_next_are_as_ever() -> None:
    node = Node(quiet(window_seconds=30.0, threshold_points=0.0))
    node.ticks(12)
    node.tick(used=cpu(1.0), seconds=3600.0)
    report = node.reported[-1]
    assert report.state is not None
    assert report.state.window_seconds == pytest.approx(3606.0)
    assert report.state.used.cpu_cores == pytest.approx(3600 / 3606, rel=1e-5)
    closed = [number for number in range(1, 25) if node.tick() is not None]
    assert [later - earlier for earlier, later in pairwise(closed)] == [10]
    assert [report.state.window_seconds for report in node.reported[-1:] if report.state] == [30.0]


def test_ticks_that_are_late_by_moments_do_not_shift_the_windows() -> None:
    node = Node(quiet(window_seconds=30.0, threshold_points=0.0))
    late = [0.05, 0.0, 0.02, 0.08, 0.0, 0.01, 0.03, 0.0, 0.0, 0.0] * 12
    now = node.clock.monotonic_seconds - 0.06  # the very first look was late, too
    closed = []
    for number, lateness in enumerate(late, 1):
        report = node.tick(seconds=now + 3 * number + lateness - node.clock.monotonic_seconds)
        if report is not None and number > 1:
            closed.append(number)
    assert closed == list(range(10, 121, 10))


# --- Coming and going -----------------------------------------------------------------------


def test_container_is_reported_at_start_first_measurement_and_first_whole_window() -> None:
    node = Node(quiet(window_seconds=20.0))
    node.ticks(3)
    report = the(node.tick({"a": Container(cpu(None, 100))}))
    assert [(event.kind, event.container) for event in report.events] == [(EventKind.STARTED, "a")]
    (reported,) = report.containers
    assert (reported.used, reported.window_seconds) == (Quantities(memory_bytes=100), 3.0)
    (reported,) = the(node.tick({"a": Container(cpu(0.5, 100))})).containers
    assert (reported.used.cpu_cores, reported.window_seconds) == (0.5, 3.0)
    rest = node.ticks(20, lambda _: {"a": Container(cpu(0.5, 100))})
    assert [number for number, report in enumerate(rest, 6) if report and report.containers] == [20]
    assert the(rest[14]).containers[0].window_seconds == 30.0


def test_partial_first_window_is_reported_after_a_large_change() -> None:
    node = Node(quiet(window_seconds=20.0))
    node.ticks(3)
    node.tick({"a": Container(cpu(None))})
    node.tick({"a": Container(cpu(0.9))})
    reports = node.ticks(5, lambda _: {"a": Container(cpu(0.0))})
    assert not [report for report in reports[:4] if report and report.containers]
    (reported,) = the(reports[4]).containers
    assert reported.used.cpu_cores == pytest.approx(0.9 / 6)


def test_vanished_container_is_gone_at_once_and_its_end_is_reported() -> None:
    node = Node(quiet())
    node.tick({"a": Container(), "b": Container()})
    report = the(node.tick({"b": Container()}, [die("a", node.clock, ago_seconds=-2.5, code=137)]))
    assert report.gone == ("a",)
    (event,) = report.events
    assert (event.kind, event.exit_code, event.container) == (EventKind.DIED, 137, "a")
    assert report.containers == ()


def test_restart_is_reported_and_sets_a_new_baseline() -> None:
    node = Node(quiet(window_seconds=20.0))
    node.ticks(2, lambda _: {"a": Container(cpu(0.9), cpu_seconds_total=50.0)})
    restarted = [die("a", node.clock, -1.0, 1), start("a", node.clock, -2.0)]
    report = the(node.tick({"a": Container(cpu(None), cpu_seconds_total=0.1)}, restarted))
    assert [event.kind for event in report.events] == [EventKind.DIED, EventKind.STARTED]
    assert report.gone == ()
    assert report.containers[0].used.cpu_cores is None
    assert (
        the(node.tick({"a": Container(cpu(0.1), cpu_seconds_total=0.2)})).containers[0].used.cpu_cores == 0.1
    )
    reports = node.ticks(16, lambda _: {"a": Container(cpu(0.1), cpu_seconds_total=0.3)})
    # Nothing of the first life is in the mean of the window in which the second began.
    assert [number for number, each in enumerate(reports, 5) if each and each.containers] == [20]


def test_cgroup_of_an_ended_container_is_not_reported() -> None:
    node = Node(quiet(window_seconds=2.0, threshold_points=0.0))
    node.tick({"a": Container()})
    report = the(node.tick({"a": Container()}, [die("a", node.clock, -2.0)]))
    assert (report.gone, report.containers) == (("a",), ())


def test_out_of_memory_kill_is_reported_at_once() -> None:
    node = Node(quiet())
    node.tick({"a": Container()})
    report = the(node.tick({"a": Container()}, [oom("a", node.clock)]))
    assert [event.kind for event in report.events] == [EventKind.OUT_OF_MEMORY]


def test_an_alert_comes_with_the_present_state_of_its_node_and_of_the_container_it_names() -> None:
    node = Node(quiet(window_seconds=30.0))
    calm = {name: Container(cpu(0.1)) for name in ("hog", "steady")}
    for _ in range(30):
        node.tick(calm, used=cpu(0.2))
    busy = {**calm, "hog": Container(cpu(3.8))}
    alert = Alert(Resource.CPU, node.clock.unix_seconds, "CPU at 97 %", container="hog")
    report = the(node.tick(busy, alerts=[alert], used=cpu(3.9)))
    assert report.state is not None
    assert (report.state.used.cpu_cores, report.state.window_seconds) == (3.9, 3.0)
    assert [(each.id, each.used.cpu_cores) for each in report.containers] == [("hog", 3.8)]

    # A heartbeat before the next window closes does not take it back.
    full = Reporter("node1", "b00t", quiet(heartbeat_seconds=6.0), 3.0)
    clock = Clock()
    for number in range(8):
        clock.advance()
        alerts = [alert] if number == 3 else []
        reported = full.report(node_sample(clock, busy if number >= 3 else calm, cpu(3.9)), (), alerts)
        if reported is not None and number >= 3:
            assert {each.id: each.used.cpu_cores for each in reported.containers}["hog"] == 3.8


def test_alert_is_reported_at_once() -> None:
    node = Node(quiet())
    node.tick()
    alert = Alert(Resource.CPU, node.clock.unix_seconds, "CPU at 97 %")
    report = the(node.tick(alerts=[alert]))
    assert report.alerts == (alert,)
    assert node.tick() is None


# --- Beacons and heartbeats -----------------------------------------------------------------


def test_beacon_is_sent_when_nothing_changes() -> None:
    node = Node(quiet(beacon_seconds=30.0))
    reports = node.ticks(25)
    assert [number for number, report in enumerate(reports, 1) if report] == [1, 11, 21]
    beacon = the(reports[10])
    assert beacon == Report("node1", "b00t", 2, beacon.at)


def test_any_report_postpones_the_beacon() -> None:
    node = Node(quiet(beacon_seconds=30.0))
    node.ticks(6)
    node.tick(alerts=[Alert(Resource.CPU, 1.0, "CPU")])
    assert [number for number, report in enumerate(node.ticks(12), 8) if report] == [17]


def test_heartbeat_repeats_open_alerts() -> None:
    node = Node(quiet(heartbeat_seconds=60.0))
    cpu_alert, memory_alert = Alert(Resource.CPU, 1.0, "CPU"), Alert(Resource.MEMORY, 2.0, "memory")
    node.tick(alerts=[cpu_alert, memory_alert])
    node.tick(alerts=[msgspec.structs.replace(memory_alert, closed_at=5.0)])
    heartbeats = [report for report in node.ticks(40) if report and report.heartbeat]
    assert [report.alerts for report in heartbeats] == [(cpu_alert,)] * len(heartbeats)
    assert heartbeats
    node.tick(alerts=[msgspec.structs.replace(cpu_alert, closed_at=9.0)])
    assert [report.alerts for report in node.ticks(40) if report and report.heartbeat][-1] == ()


def test_final_report_contains_all_samples_since_the_last_heartbeat() -> None:
    node = Node(quiet())
    assert node.reporter.final_report(node_sample(node.clock, {"a": Container()})) is None
    node.ticks(5, lambda _: {"a": Container(cpu(0.5, 500))})
    report = the(node.reporter.final_report(node_sample(node.clock, {"a": Container(cpu(0.5, 500))})))
    assert report.heartbeat is not None
    (usage,) = report.heartbeat.usage
    assert usage.cpu is not None
    assert usage.cpu.count == 4, "the first tick was reported by the first heartbeat"
    assert [container.id for container in report.containers] == ["a"]


def test_heartbeat_contains_the_full_state_and_all_samples() -> None:
    node = Node(quiet(heartbeat_seconds=300.0))
    reports = node.ticks(
        201,
        lambda number: {
            "a": Container(cpu(number / 100, 500)),
            "b": Container(cpu(0.1, 700)),
            "c": Container(),
        },
    )
    beats = [(number, report) for number, report in enumerate(reports) if report and report.heartbeat]
    assert len(beats) == 3
    (first, _), (second, _), (third, last) = beats
    assert third - second == 100
    assert last.state is not None
    assert [each.id for each in last.containers] == ["a", "b", "c"]
    assert last.heartbeat is not None
    usage = {each.id: each for each in last.heartbeat.usage}
    expected = Sketch()
    for number in range(second + 1, third + 1):
        expected.add(number / 100)
    assert usage["a"].cpu == expected
    assert usage["c"].memory == Sketch(zeros=100)
    assert last.heartbeat.top == {Resource.CPU: ("a", "b"), Resource.MEMORY: ("b", "a")}
    assert first == 0


def test_a_heartbeat_holds_the_last_whole_window_rather_than_a_moment() -> None:
    node = Node(quiet(heartbeat_seconds=300.0, window_seconds=30.0))
    reports = node.ticks(
        150, lambda number: {"a": Container(cpu(0.5 if number % 15 else 1.4), limit=Quantities())}
    )
    for report in [each for each in reports if each and each.heartbeat][1:]:
        (reported,) = report.containers
        assert reported.window_seconds == 45.0
        assert reported.used.cpu_cores == pytest.approx((14 * 0.5 + 1.4) / 15)


def test_heartbeat_counts_as_the_last_report() -> None:
    # 1.3 after 1.0 is no news; but after a heartbeat reported 1.3, neither is 1.6, and 1.0 again would be.
    push = quiet(window_seconds=30.0, heartbeat_seconds=300.0)
    node = Node(push)
    while not (len(node.reported) > 2 and node.reported[-1].heartbeat):
        node.tick(used=cpu(1.0 if len(node.reported) < 2 else 1.3))
    assert node.reported[-1].state is not None
    assert node.reported[-1].state.used.cpu_cores == 1.3
    assert [node.tick(used=cpu(1.6)) for _ in range(30)] == [None] * 30


def test_samples_of_a_container_that_ended_are_in_the_next_heartbeat() -> None:
    node = Node(quiet(heartbeat_seconds=300.0))
    node.tick()
    node.ticks(5, lambda _: {"a": Container(cpu(0.5))})
    node.ticks(200)
    (usage,) = [usage for each in node.reported if each.heartbeat for usage in each.heartbeat.usage]
    assert usage.id == "a"
    assert usage.cpu is not None
    assert usage.cpu.count == 5


def test_restarted_container_keeps_its_histogram() -> None:
    node = Node(quiet(heartbeat_seconds=300.0))
    node.tick()
    node.ticks(2, lambda _: {"a": Container(cpu(0.5), cpu_seconds_total=9.0)})
    node.ticks(2, lambda _: {"a": Container(cpu(0.5), cpu_seconds_total=1.0)})
    node.ticks(3)
    node.ticks(200, lambda number: {"a": Container(cpu(0.5))} if number < 4 else {})
    (usage,) = [usage for each in node.reported if each.heartbeat for usage in each.heartbeat.usage]
    assert usage.cpu is not None
    assert usage.cpu.count == 8


def test_heartbeats_of_nodes_that_were_started_together_are_spread() -> None:
    seconds = []
    for number in range(40):
        node = Node(quiet(heartbeat_seconds=300.0), name=f"node{number}")
        reports = node.ticks(102)
        seconds.append(next(3 * at for at, report in enumerate(reports[1:], 1) if report))
    assert len(set(seconds)) > 25
    assert max(seconds) - min(seconds) > 200


def test_many_ended_containers_cause_an_early_heartbeat() -> None:
    node = Node(quiet())
    node.tick()
    for number in range(30):
        node.tick({f"{number}-{each}": Container() for each in range(50)})
    beats = [report for report in node.reported[1:] if report.heartbeat]
    assert len(beats) == 1
    assert beats[0].heartbeat is not None
    assert len(beats[0].heartbeat.usage) == 1050


def test_ended_containers_are_not_among_the_top_containers() -> None:
    node = Node(quiet(heartbeat_seconds=300.0))
    node.tick()
    node.tick({"a": Container(cpu(3.0)), "b": Container(cpu(0.1))})
    node.ticks(110, lambda _: {"b": Container(cpu(0.1))})
    heartbeat = next(each.heartbeat for each in node.reported[1:] if each.heartbeat)
    assert heartbeat.top == {Resource.CPU: ("b",)}


# --- Time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step_seconds", [3600.0, -3600.0])
def test_a_clock_that_is_set_disturbs_nothing(step_seconds: float) -> None:
    def run(step: float) -> list[Report | None]:
        node = Node(ReportingConfig())
        reports = []
        for number in range(300):
            if number == 100:
                node.clock.set(step)
            info = ContainerInfo("web", started_at=1_700_000_000.0)
            containers = {"a": Container(cpu(number % 70 / 100), info=info)} if number < 250 else {}
            reports.append(node.tick(containers, used=cpu(number % 50 / 20)))
        return reports

    def without_times(report: Report | None) -> object:
        if report is None:
            return None
        events = [(each.kind, each.lifetime_seconds, each.exit_code) for each in report.events]
        return (report.sequence, report.state, report.containers, report.gone, events, report.heartbeat)

    stepped, straight = run(step_seconds), run(0.0)
    assert [without_times(each) for each in stepped] == [without_times(each) for each in straight]


# --- Cost -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_state_of_a_hundred_containers_fits_in_two_megabytes() -> None:
    node = Node(quiet())
    rng = random.Random(1)  # noqa: S311 - the same at every run, and not a secret

    def containers_at() -> dict[str, Container]:
        return {
            f"{number:064x}": Container(
                Quantities(rng.random(), rng.randrange(10**9), rng.random() * 1e6, rng.random() * 1e6)
            )
            for number in range(100)
        }

    node.tick(containers_at())
    tracemalloc.start()
    try:
        for _ in range(99):
            node.tick(containers_at())
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 2e6


# --- Images ---------------------------------------------------------------------------------


def test_images_are_reported_when_they_change_and_every_hour() -> None:
    node = Node(quiet())
    assert the(node.tick()).images is None, "the engine has not listed them"
    assert the(node.tick(images=("a:1",))).images == ("a:1",)
    assert node.tick(images=("a:1",)) is None
    assert the(node.tick(images=("a:1", "b:2"))).images == ("a:1", "b:2")
    assert node.tick(images=None) is None, "an engine that is lost keeps its images"
    assert the(node.tick(images=())).images == ()
    assert the(node.tick(images=(), seconds=3600.0)).images == ()
