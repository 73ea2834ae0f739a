from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import BottleneckConfig
from agent.sampling.node_sample import ContainerSample, NodeSample
from agent.sampling.rates import ContainerRates, HostRates
from agent.sources.docker import ContainerInfo
from wire.messages import MAX_NAME_LENGTH, MAX_TEXT_LENGTH, Alert, Pressure
from wire.resources import Quantities, Resource

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20
PERIOD = 3.0
NO_PRESSURE = Pressure()
START = 1_700_000_000.0
SETTINGS = BottleneckConfig()
FOREVER = SETTINGS.samples * 10
UNHURRIED = settings(deadline=None)
"""What holds is asked here, and not how fast: a busy machine may stop us for a while."""


def container(name: str, used: Quantities) -> ContainerSample:
    return ContainerSample(
        ContainerRates(name.ljust(64, "0"), "docker", 1.0, used, Quantities(), Pressure()),
        ContainerInfo(name),
    )


def cpu_user(name: str, cores: float) -> ContainerSample:
    return container(name, Quantities(cpu_cores=cores))


def host(  # noqa: PLR0913 - a test names what it is about, and leaves the rest
    *containers: ContainerSample,
    cpu: float | None = 0.1,
    memory: float = 0.1,
    network: float | None = 0.0,
    pressure: Pressure = NO_PRESSURE,
    busy: float | None = None,
    iowait: float | None = None,
    learned: tuple[Resource, ...] = (),
) -> NodeSample:
    """A node of four cores, 8 GiB and a link of 100 MiB/s; use as a share of that."""
    return NodeSample(
        monotonic_seconds=0.0,
        rates=HostRates(
            unix_seconds=START,
            interval_seconds=PERIOD,
            used=Quantities(
                cpu_cores=None if cpu is None else cpu * 4,
                memory_bytes=int(memory * 8 * GIBIBYTE),
                network_bytes_per_second=None if network is None else network * 100 * MEBIBYTE,
            ),
            capacity=Quantities(
                cpu_cores=4.0, memory_bytes=8 * GIBIBYTE, network_bytes_per_second=100.0 * MEBIBYTE
            ),
            pressure=pressure,
            learned_capacities=learned,
            iowait_ratio=iowait,
            disk_busy_ratio=busy,
            containers=tuple(each.rates for each in containers),
        ),
        containers=containers,
    )


class Detection:
    """A detector with samples one interval apart."""

    def __init__(self, settings: BottleneckConfig = SETTINGS) -> None:
        self.detector = BottleneckDetector(settings)
        self._ticks = 0

    def update(self, *samples: NodeSample) -> list[Alert]:
        raised: list[Alert] = []
        for sample in samples:
            self._ticks += 1
            elapsed = self._ticks * PERIOD
            timed = NodeSample(
                monotonic_seconds=elapsed,
                rates=_at(sample.rates, START + elapsed),
                containers=sample.containers,
            )
            raised += self.detector.update(timed)
        return raised


def _at(rates: HostRates, unix_seconds: float) -> HostRates:
    return replace(rates, unix_seconds=unix_seconds)


def watched(samples: Iterable[NodeSample], settings: BottleneckConfig = SETTINGS) -> list[Alert]:
    return Detection(settings).update(*samples)


def times(count: int, sample: NodeSample) -> list[NodeSample]:
    return [sample] * count


# --- Content of an alert ---------------------------------------------------------------------


def test_cpu_bottleneck_opens_an_alert_with_container_and_usage() -> None:
    busy = host(cpu_user("web", 0.5), cpu_user("hog", 3.25), cpu=0.75, pressure=Pressure(cpu_ratio=0.61))
    detection = Detection()
    assert detection.update(*times(3, busy)) == []
    (alert,) = detection.update(busy)
    assert alert == Alert(
        resource=Resource.CPU,
        opened_at=START + 4 * PERIOD,
        evidence="CPU at 75% of 4 cores for 12 s; tasks waited for a CPU 61% of the time;"
        " highest usage: hog, 3.25 cores",
        ratio=0.75,
        pressure_ratio=0.61,
        excess_ratio=1.0 - 0.5 / 0.61,
        by_time=True,
        container="hog".ljust(64, "0"),
        name="hog",
    )
    assert detection.detector.open_alerts == (alert,)
    assert detection.update(*times(100, busy)) == []


@pytest.mark.parametrize(
    ("open_at", "by_time"),
    [
        (lambda part: host(cpu=0.97 * part), False),
        (lambda part: host(memory=0.93 * part), False),
        (lambda part: host(network=0.99 * part), False),
        (lambda part: host(busy=0.96 * part), True),
        (lambda part: host(busy=0.7 * part, iowait=0.4 * part), True),
        (lambda part: host(cpu=0.95 * part, pressure=Pressure(cpu_ratio=0.9 * part)), True),
        (lambda part: host(cpu=0.75 * part, pressure=Pressure(cpu_ratio=0.9 * part)), True),
    ],
    ids=["cpu", "memory", "network", "busy disk", "I/O wait", "CPU pressure", "CPU pressure, few in use"],
)
def test_an_alert_closes_once_its_excess_is_gone_and_not_before(
    open_at: Callable[[float], NodeSample], *, by_time: bool
) -> None:
    detection = Detection()
    (alert,) = detection.update(*times(4, open_at(1.0)))
    assert alert.by_time is by_time
    assert alert.excess_ratio is not None
    later = detection.update(*times(10, open_at(1.0 - alert.excess_ratio + 0.01)))
    assert [each.closed_at for each in later] in ([], [None])
    (closed,) = detection.update(*times(4, open_at(1.0 - alert.excess_ratio - 0.01)))
    assert closed.closed_at is not None


@pytest.mark.parametrize(("memory", "lowest"), [(0.95, 0.95), (0.6, 0.9)])
def test_where_tasks_wait_for_memory_a_share_of_the_memory_must_go(memory: float, lowest: float) -> None:
    """Not of the time that they wait: that ends as soon as there is enough."""
    (alert,) = watched(times(4, host(memory=memory, pressure=Pressure(memory_ratio=0.5))))
    assert alert.excess_ratio == pytest.approx(1 - 0.8 / lowest)
    assert not alert.by_time


def test_closed_alert_is_the_same_with_its_end_time() -> None:
    detection = Detection()
    (opened,) = detection.update(*times(10, host(cpu_user("hog", 3.8), cpu=0.97)))
    (closed,) = detection.update(*times(10, host(cpu_user("hog", 0.1), cpu=0.2)))
    assert (closed.resource, closed.opened_at, closed.name) == (Resource.CPU, opened.opened_at, "hog")
    assert closed.closed_at == START + 14 * PERIOD
    assert closed.ratio == pytest.approx(0.2)
    assert closed.evidence == f"{opened.evidence}; closed after 30 s"
    assert detection.detector.open_alerts == ()


@pytest.mark.parametrize(
    ("sample", "resource", "evidence"),
    [
        (host(memory=0.95), Resource.MEMORY, "memory at 95% of 8.00 GiB for 12 s"),
        (
            host(memory=0.4, pressure=Pressure(memory_ratio=0.25)),
            Resource.MEMORY,
            "memory at 40% of 8.00 GiB for 12 s; tasks waited for memory 25% of the time",
        ),
        (host(busy=0.96), Resource.DISK, "busiest disk active 96% of the time for 12 s"),
        (
            host(busy=0.7, iowait=0.4),
            Resource.DISK,
            "busiest disk active 70% of the time for 12 s; 40% of the CPU time spent waiting for disks",
        ),
        (
            host(busy=0.7, pressure=Pressure(disk_ratio=0.6)),
            Resource.DISK,
            "busiest disk active 70% of the time for 12 s; tasks waited for a disk 60% of the time",
        ),
        (host(iowait=0.4), Resource.DISK, "40% of the CPU time spent waiting for disks for 12 s"),
        (host(network=0.93), Resource.NETWORK, "network at 93% of 100.00 MiB/s for 12 s"),
        (
            host(cpu=0.75, pressure=Pressure(cpu_ratio=0.8)),
            Resource.CPU,
            "CPU at 75% of 4 cores for 12 s; tasks waited for a CPU 80% of the time",
        ),
    ],
)
def test_each_indicator_opens_an_alert_of_its_resource(
    sample: NodeSample, resource: Resource, evidence: str
) -> None:
    (alert,) = watched(times(4, sample))
    assert alert.resource is resource
    assert alert.evidence == evidence
    assert alert.container is None


def test_evidence_contains_the_mean_over_all_samples() -> None:
    (alert,) = watched([host(cpu=share) for share in (0.90, 0.92, 0.94, 1.0)])
    assert alert.evidence == "CPU at 94% of 4 cores for 12 s"
    assert alert.ratio == 1.0


@pytest.mark.parametrize(
    ("sample", "resource", "top"),
    [
        (host(cpu=0.99), Resource.CPU, "by-cpu"),
        (host(memory=0.99), Resource.MEMORY, "by-memory"),
        (host(busy=0.99), Resource.DISK, "by-disk"),
        (host(network=0.99), Resource.NETWORK, "by-network"),
    ],
)
def test_alert_names_the_container_with_the_highest_usage(
    sample: NodeSample, resource: Resource, top: str
) -> None:
    some = {
        "cpu_cores": 1.0,
        "memory_bytes": GIBIBYTE,
        "disk_bytes_per_second": 1e6,
        "network_bytes_per_second": 1e6,
    }
    most = {
        "by-cpu": "cpu_cores",
        "by-memory": "memory_bytes",
        "by-disk": "disk_bytes_per_second",
        "by-network": "network_bytes_per_second",
    }
    containers = tuple(
        container(name, Quantities(**(some | {key: some[key] * 2})))  # type: ignore[arg-type]
        for name, key in most.items()
    )
    (alert,) = watched(times(4, NodeSample(0.0, sample.rates, containers=containers)))
    assert (alert.resource, alert.name) == (resource, top)


def test_highest_usage_is_over_all_samples_among_running_containers() -> None:
    gone, steady, burst = cpu_user("gone", 4.0), cpu_user("steady", 2.0), cpu_user("burst", 0.1)
    (alert,) = watched(
        [
            host(gone, steady, burst, cpu=0.97),
            *times(2, host(steady, burst, cpu=0.97)),
            host(steady, cpu_user("burst", 2.1), cpu=0.97),
        ]
    )
    assert alert.name == "steady"


def test_the_longest_names_still_make_a_message() -> None:
    worst = host(cpu_user("x" * 9999, 3.0), cpu=1.0, pressure=Pressure(cpu_ratio=1.0))
    (alert,) = watched(times(4, worst))
    assert alert.name == "x" * MAX_NAME_LENGTH
    assert len(alert.evidence) <= MAX_TEXT_LENGTH


# --- When to be silent -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(host(cpu=0.5, pressure=Pressure(cpu_ratio=1.0)), id="throttled by quotas of their own"),
        pytest.param(host(busy=0.1, pressure=Pressure(disk_ratio=1.0)), id="throttled by an I/O limit"),
        pytest.param(host(busy=0.0, iowait=0.9), id="an idle io_uring"),
        pytest.param(host(network=1.0, learned=(Resource.NETWORK,)), id="a capacity that is only learned"),
        pytest.param(host(cpu=None, network=None), id="nothing known"),
        pytest.param(host(cpu=0.89, memory=0.89, busy=0.89, network=0.89), id="almost"),
    ],
)
def test_other_causes_of_pressure_open_no_alert(sample: NodeSample) -> None:
    assert watched(times(FOREVER, sample)) == []


def test_limit_of_zero_disables_an_indicator() -> None:
    deaf = BottleneckConfig(
        usage_ratio=0, cpu_pressure_ratio=0, memory_pressure_ratio=0, disk_pressure_ratio=0
    )
    worst = host(cpu=1.0, memory=1.0, network=1.0, busy=1.0, iowait=1.0, pressure=Pressure(1.0, 1.0, 1.0))
    assert watched(times(FOREVER, worst), deaf) == []
    assert {alert.resource for alert in watched(times(4, worst))} == set(Resource)


# --- Not flapping ----------------------------------------------------------------------------

SHARES = st.one_of(st.none(), st.floats(0, 1))
SETTINGS_TRIED = st.builds(
    BottleneckConfig,
    usage_ratio=st.floats(0.01, 1),
    cpu_pressure_ratio=st.floats(0, 1),
    samples=st.integers(1, 6),
)


def cpu_series(shares: Sequence[float | None]) -> list[NodeSample]:
    return [host(cpu=share) for share in shares]


@UNHURRIED
@given(st.lists(st.tuples(SHARES, SHARES), max_size=80), SETTINGS_TRIED)
def test_opens_and_closes_alternate(
    series: list[tuple[float | None, float | None]], settings: BottleneckConfig
) -> None:
    detection = Detection(settings)
    open_since: float | None = None
    for cpu, waiting in series:
        for alert in detection.update(host(cpu=cpu, pressure=Pressure(cpu_ratio=waiting))):
            if alert.resource is not Resource.CPU:
                continue
            if alert.closed_at is None:
                assert open_since in (None, alert.opened_at)
                open_since = alert.opened_at
            else:
                assert open_since == alert.opened_at <= alert.closed_at
                open_since = None
        now_open = [each for each in detection.detector.open_alerts if each.resource is Resource.CPU]
        assert [alert.opened_at for alert in now_open] == ([] if open_since is None else [open_since])


@UNHURRIED
@given(
    st.lists(st.floats(0.8001, 1), max_size=60),
    st.lists(st.floats(0.8001, 1), max_size=60),
)
def test_a_value_that_hovers_about_its_limit_opens_once(before: list[float], after: list[float]) -> None:
    series = cpu_series([*before, *[0.95] * SETTINGS.samples, *after])
    raised = watched(series)
    assert len({each.opened_at for each in raised}) == 1
    assert {each.closed_at for each in raised} == {None}


@UNHURRIED
@given(
    st.integers(2, 6),
    st.lists(st.integers(1, 20), min_size=1, max_size=10),
    st.floats(0.9, 1),
)
def test_spikes_shorter_than_samples_never_open(samples: int, pauses: list[int], height: float) -> None:
    series: list[float | None] = []
    for pause in pauses:
        series += [height] * (samples - 1) + [0.3] * pause
    assert watched(cpu_series(series), BottleneckConfig(samples=samples)) == []


@UNHURRIED
@given(st.integers(2, 6), st.lists(st.integers(1, 20), min_size=1, max_size=10), st.floats(0, 0.79))
def test_lulls_shorter_than_samples_never_close(samples: int, runs: list[int], depth: float) -> None:
    series: list[float | None] = [1.0] * samples
    for run in runs:
        series += [depth] * (samples - 1) + [0.85] * run
    raised = watched(cpu_series(series), BottleneckConfig(samples=samples))
    assert {each.closed_at for each in raised} == {None}


@UNHURRIED
@given(st.data())
def test_samples_without_values_neither_open_nor_close(data: st.DataObject) -> None:
    seen = data.draw(st.lists(st.floats(0, 1), max_size=30))
    short = st.integers(0, SETTINGS.samples - 1)
    with_holes: list[float | None] = []
    for share in seen:
        with_holes += [share, *[None] * data.draw(short)]

    def transitions(shares: Sequence[float | None]) -> list[tuple[Resource, bool]]:
        return [(each.resource, each.closed_at is None) for each in watched(cpu_series(shares))]

    assert transitions(with_holes) == transitions(seen)


def test_pending_samples_are_dropped_after_unreadable_ones() -> None:
    blind = [None] * SETTINGS.samples
    assert watched(cpu_series([1.0, 1.0, 1.0, *blind, 1.0])) == []


def test_alert_without_values_closes_after_a_while_with_the_reason() -> None:
    detection = Detection()
    (opened,) = detection.update(*times(4, host(busy=1.0)))
    assert detection.update(*times(FOREVER - 1, host(busy=None))) == []
    (closed,) = detection.update(host(busy=None))
    assert closed.opened_at == opened.opened_at
    assert closed.evidence == f"{opened.evidence}; closed without measurements after 120 s"


def test_open_alert_waits_for_the_indicator_that_opened_it() -> None:
    detection = Detection()
    (opened,) = detection.update(*times(4, host(memory=0.4, pressure=Pressure(memory_ratio=0.5))))
    assert detection.update(*times(10, host(memory=0.4))) == [], "low use does not tell that nothing waits"
    (closed,) = detection.update(*times(4, host(memory=0.4, pressure=Pressure(memory_ratio=0.0))))
    assert closed.opened_at == opened.opened_at


def test_a_limit_lower_than_the_hysteresis_can_be_left_again() -> None:
    settings = BottleneckConfig(memory_pressure_ratio=0.05)
    detection = Detection(settings)
    assert len(detection.update(*times(4, host(pressure=Pressure(memory_ratio=0.06))))) == 1
    assert detection.update(*times(10, host(pressure=Pressure(memory_ratio=0.03)))) == []
    (closed,) = detection.update(*times(4, host(pressure=Pressure(memory_ratio=0.01))))
    assert closed.closed_at is not None


def test_a_clock_that_is_set_back_ends_no_alert_before_it_began() -> None:
    detector = BottleneckDetector(BottleneckConfig(samples=1))
    (opened,) = detector.update(host(cpu=1.0))
    earlier = host(cpu=0.1)
    (closed,) = detector.update(NodeSample(PERIOD, _at(earlier.rates, START - 3600)))
    assert closed.closed_at == opened.opened_at


# --- While it lasts --------------------------------------------------------------------------


def test_alert_names_another_container_after_enough_samples() -> None:
    detection = Detection()
    detection.update(*times(4, host(cpu_user("first", 3.0), cpu_user("second", 0.5), cpu=0.97)))
    moved = host(cpu_user("first", 0.5), cpu_user("second", 3.0), cpu=0.97)
    assert detection.update(*times(3, moved)) == []
    (update,) = detection.update(moved)
    assert (update.name, update.opened_at, update.closed_at) == ("second", START + 4 * PERIOD, None)
    assert update.evidence == "CPU at 97% of 4 cores for 12 s; highest usage: second, 3.00 cores"
    assert detection.update(*times(20, moved)) == []


@UNHURRIED
@given(st.lists(st.floats(1.5, 1.79), max_size=60))
def test_containers_of_similar_usage_do_not_alternate(uses: list[float]) -> None:
    steady = cpu_user("steady", 1.5)
    detection = Detection()
    detection.update(*times(4, host(steady, cpu=0.97)))
    assert detection.update(*(host(steady, cpu_user("other", use), cpu=0.97) for use in uses)) == []


def test_what_keeps_the_alert_open_counts_though_another_indicator_opened_it() -> None:
    (alert,) = watched(times(4, host(cpu=0.9, pressure=Pressure(cpu_ratio=0.59))))
    assert alert.excess_ratio == pytest.approx(1 - 0.5 / 0.59)
    assert alert.by_time


def test_alert_says_how_much_is_left_after_enough_samples() -> None:
    """A part of the load moved away; later more came."""
    detection = Detection()
    (opened,) = detection.update(*times(4, host(cpu_user("hog", 3.0), cpu=1.0)))
    partly = host(cpu_user("hog", 3.0), cpu=0.88)
    assert detection.update(*times(3, partly)) == []
    (update,) = detection.update(partly)
    assert update == replace(opened, ratio=0.88, excess_ratio=1 - 0.8 / 0.88)
    assert detection.detector.open_alerts == (update,)
    assert detection.update(*times(20, partly)) == []
    (grown,) = detection.update(*times(4, host(cpu_user("hog", 3.0), cpu=0.96)))
    assert grown.excess_ratio == pytest.approx(1 - 0.8 / 0.96)


def test_a_small_excess_that_grows_to_a_multiple_is_sent_again() -> None:
    """What was enough to close the alert then is not now."""
    detection = Detection()
    (_, small) = detection.update(*times(4, host(cpu=0.9)), *times(4, host(cpu=0.81)))
    assert small.excess_ratio == pytest.approx(1 - 0.8 / 0.81)
    (grown,) = detection.update(*times(4, host(cpu=0.85)))
    assert grown.excess_ratio == pytest.approx(1 - 0.8 / 0.85)
    assert detection.update(*times(20, host(cpu=0.86))) == []


def test_a_lull_of_one_sample_does_not_hide_what_is_left() -> None:
    detection = Detection()
    detection.update(*times(4, host(cpu=1.0)))
    (update,) = detection.update(*cpu_series([0.85, 0.88, 0.85, 0.79]), *times(20, host(cpu=0.85)))
    assert update.excess_ratio == pytest.approx(1 - 0.8 / 0.88)


@UNHURRIED
@given(st.lists(st.floats(0.82, 0.85), max_size=60), st.lists(st.sampled_from([0.82, 1.0]), max_size=60))
def test_an_excess_that_hovers_or_alternates_is_not_sent_again(
    hovering: list[float], jumping: list[float]
) -> None:
    detection = Detection()
    detection.update(*times(4, host(cpu=0.95)), *times(4, host(cpu=0.84)))
    assert detection.update(*cpu_series(hovering)) == []
    assert detection.update(*(each for share in jumping for each in cpu_series([0.84, share]))) == []
