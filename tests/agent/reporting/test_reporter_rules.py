"""What holds whatever a node goes through, seen from the collector's side."""

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config import ReportingConfig
from agent.reporting.reporter import Reporter
from agent.reporting.windows import Mean
from agent.sources.docker import RuntimeEvent
from tests.agent.samples import Clock, Container, cpu, node_sample
from wire.messages import ContainerState, NodeState, Report
from wire.resources import Quantities
from wire.sketch import Sketch, merged

HOST_TICKS, CONTAINER_TICKS = 4, 6
CORES, MEMORY_BYTES = 2.0, 10**9
LIMIT = Quantities(cpu_cores=CORES, memory_bytes=MEMORY_BYTES)

Looks = dict[str, tuple[float | None, int]]

use = st.tuples(st.one_of(st.none(), st.floats(0, CORES)), st.integers(0, MEMORY_BYTES))
steady = st.tuples(st.floats(0, CORES), st.integers(0, MEMORY_BYTES)).flatmap(
    lambda level: st.tuples(st.floats(level[0] * 0.9, level[0]), st.integers(int(level[1] * 0.9), level[1]))
)
tick = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.one_of(use, steady), max_size=3)
lives = st.lists(tick.flatmap(lambda each: st.lists(st.just(each), min_size=1, max_size=9)), max_size=14).map(
    lambda runs: [each for run in runs for each in run]
)
pushes = st.builds(
    ReportingConfig,
    window_seconds=st.just(3.0 * HOST_TICKS),
    threshold_points=st.sampled_from([0.0, 1.0, 10.0, 10.0, 40.0]),
    beacon_seconds=st.sampled_from([6.0, 30.0]),
    heartbeat_seconds=st.sampled_from([15.0, 48.0, 300.0]),
)
names = st.text("abcdefgh0123", min_size=1, max_size=8)


@dataclass
class Receiver:
    """A collector in its simplest form."""

    state: NodeState | None = None
    containers: dict[str, ContainerState] = field(default_factory=dict)
    usage: dict[str, list[tuple[Sketch, ...]]] = field(default_factory=lambda: defaultdict(list))
    beats: int = 0

    def take(self, report: Report) -> None:
        self.state = report.state or self.state
        for container_id in report.gone:
            del self.containers[container_id]
        self.containers |= {each.id: each for each in report.containers}
        if report.heartbeat is not None:
            self.beats += 1
            assert {each.id for each in report.containers} == set(self.containers)
            for each in report.heartbeat.usage:
                sketches = (each.cpu, each.memory, each.disk, each.network)
                self.usage[each.id].append(tuple(sketch or Sketch() for sketch in sketches))


def shown(seen: Looks) -> dict[str, Container]:
    return {name: Container(cpu(cores, memory), limit=LIMIT) for name, (cores, memory) in seen.items()}


def points_off(held: Quantities, mean: tuple[float | None, ...]) -> float:
    """How far what is held is from a mean, in the worst resource; infinitely if only one of both is known."""
    worst = 0.0
    for value, average, capacity in zip(
        (held.cpu_cores, held.memory_bytes), mean, (CORES, MEMORY_BYTES), strict=True
    ):
        if value is None or average is None:
            worst = max(worst, 0.0 if value is average else float("inf"))
        else:
            worst = max(worst, 100 * abs(value - average) / capacity)
    return worst


@settings(max_examples=300)
@given(lives, pushes, names)
def test_reported_usage_is_within_the_threshold_of_the_last_window(
    samples_seen: list[Looks], push: ReportingConfig, name: str
) -> None:
    clock, receiver = Clock(), Receiver()
    reporter = Reporter(name, "b00t", push, 3.0)
    whole: dict[str, tuple[float | None, ...]] = {}
    for number, seen in enumerate(samples_seen, 1):
        clock.advance()
        report = reporter.report(node_sample(clock, shown(seen)), (), ())
        if report is not None:
            receiver.take(report)
        assert receiver.containers.keys() == seen.keys(), "who runs is known at every tick"
        whole = {each: mean for each, mean in whole.items() if each in seen}
        if number % CONTAINER_TICKS == 0:
            window = samples_seen[number - CONTAINER_TICKS : number]
            before = samples_seen[number - CONTAINER_TICKS - 1] if number > CONTAINER_TICKS else window[0]
            for each in set(before).intersection(*window):
                mean = Mean(2)
                for tick in window:
                    mean.add(tick[each], 3.0)
                whole[each] = mean.values()
        for each, values in whole.items():
            off = points_off(receiver.containers[each].used, values)
            assert off < push.threshold_points or off < 1e-3


@settings(max_examples=100)
@given(st.lists(use, max_size=60), pushes, names)
def test_reported_usage_of_the_host_is_within_the_threshold(
    samples_seen: list[tuple[float | None, int]], push: ReportingConfig, name: str
) -> None:
    clock, receiver = Clock(), Receiver()
    reporter = Reporter(name, "b00t", push, 3.0)
    last: tuple[float | None, ...] | None = None
    for number, (cores, memory) in enumerate(samples_seen, 1):
        clock.advance()
        report = reporter.report(node_sample(clock, used=cpu(cores, memory), capacity=LIMIT), (), ())
        if report is not None:
            receiver.take(report)
        if number % HOST_TICKS == 0:
            mean = Mean(2)
            for each in samples_seen[number - HOST_TICKS : number]:
                mean.add(each, 3.0)
            last = mean.values()
        if last is not None:
            assert receiver.state is not None
            off = points_off(receiver.state.used, last)
            assert off < push.threshold_points or off < 1e-3


@given(lives, pushes, names)
def test_heartbeats_contain_every_sample(samples_seen: list[Looks], push: ReportingConfig, name: str) -> None:
    clock, receiver = Clock(), Receiver()
    reporter = Reporter(name, "b00t", push, 3.0)
    expected: dict[str, tuple[Sketch, Sketch]] = defaultdict(lambda: (Sketch(), Sketch()))
    for seen in samples_seen:
        clock.advance()
        if report := reporter.report(node_sample(clock, shown(seen)), (), ()):
            receiver.take(report)
        for each, (cores, memory) in seen.items():
            if cores is not None:
                expected[each][0].add(cores, 1e-4)
            expected[each][1].add(memory, 1.0)
    beats = receiver.beats
    while receiver.beats == beats:
        clock.advance()
        if report := reporter.report(node_sample(clock), (), ()):
            receiver.take(report)
    assert receiver.usage.keys() == expected.keys()
    for each, sketches in receiver.usage.items():
        assert merged(sketch[0] for sketch in sketches) == expected[each][0]
        assert merged(sketch[1] for sketch in sketches) == expected[each][1]


events = st.lists(
    st.tuples(st.sampled_from(["start", "die", "oom"]), st.sampled_from(["a", "b", "c"]), st.floats(0, 3)),
    max_size=3,
)


@given(st.lists(st.tuples(tick, events), max_size=40), pushes, names)
def test_vanished_containers_are_gone_and_reports_are_frequent_for_any_events(
    samples_seen: list[tuple[Looks, list[tuple[str, str, float]]]], push: ReportingConfig, name: str
) -> None:
    clock, receiver = Clock(), Receiver()
    reporter = Reporter(name, "b00t", push, 3.0)
    reports: list[Report] = []
    spoke_seconds = clock.monotonic_seconds
    for seen, words in [*samples_seen, ({}, []), ({}, [])]:
        clock.advance()
        runtime = [
            RuntimeEvent(kind, each, each, clock.unix_seconds - ago)  # type: ignore[arg-type]
            for kind, each, ago in words
        ]
        report = reporter.report(node_sample(clock, shown(seen)), runtime, ())
        if report is not None:
            assert len({each.id for each in report.containers}) == len(report.containers)
            receiver.take(report)
            reports.append(report)
            spoke_seconds = clock.monotonic_seconds
        assert receiver.containers.keys() <= seen.keys()
        assert clock.monotonic_seconds - spoke_seconds <= push.beacon_seconds
    assert not receiver.containers
    assert [report.sequence for report in reports] == list(range(1, len(reports) + 1))
