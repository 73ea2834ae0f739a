from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent.readings import ContainerReading, HostReading, PressureTotals, Reading
from agent.sample import Sample, sample
from wire.messages import Gap, Pressure
from wire.resources import Quantities

HOST = HostReading(
    cores=4,
    busy_seconds=1000.0,
    memory_total_bytes=8000,
    memory_available_bytes=5000,
    disk_bytes=10_000,
    network_bytes=20_000,
    network_capacity_bytes_per_second=125e6,
    pressure=PressureTotals(10.0, 20.0, 30.0),
)
WEB = ContainerReading(
    id="web",
    runtime="docker",
    monotonic_seconds=50.1,
    cpu_seconds=100.0,
    memory_usage_bytes=3000,
    memory_inactive_file_bytes=1000,
    memory_limit_bytes=4000,
    cpu_limit_cores=1.5,
    disk_bytes=500,
    network_bytes=700,
    pressure=PressureTotals(1.0, 2.0, 3.0),
)
FIRST = Reading(unix_seconds=1e9, monotonic_seconds=50.0, host=HOST, containers=(WEB,))
LATER_HOST = replace(
    HOST,
    busy_seconds=1004.0,
    disk_bytes=10_400,
    network_bytes=20_800,
    pressure=PressureTotals(11.0, 20.0, 30.2),
)
LATER_WEB = replace(
    WEB,
    monotonic_seconds=54.1,
    cpu_seconds=102.0,
    disk_bytes=900,
    network_bytes=1500,
    pressure=PressureTotals(2.0, 2.0, 3.4),
)
SECOND = Reading(unix_seconds=1e9 + 4, monotonic_seconds=54.0, host=LATER_HOST, containers=(LATER_WEB,))


def test_the_host() -> None:
    result = sample(FIRST, SECOND)
    assert result.unix_seconds == 1e9 + 4
    assert result.interval_seconds == 4.0
    assert result.used == Quantities(1.0, 3000, 100.0, 200.0)
    assert result.capacity == Quantities(4.0, 8000, None, 125e6)
    assert result.pressure.cpu_ratio == 0.25
    assert result.pressure.memory_ratio == 0.0
    assert result.pressure.disk_ratio == pytest.approx(0.05)


def test_a_container() -> None:
    (web,) = sample(FIRST, SECOND).containers
    assert (web.id, web.runtime, web.cpu_seconds_total) == ("web", "docker", 102.0)
    assert web.used == Quantities(0.5, 2000, 100.0, 200.0)
    assert web.limit == Quantities(cpu_cores=1.5, memory_bytes=4000)
    assert web.pressure.cpu_ratio == 0.25
    assert web.pressure.memory_ratio == 0.0
    assert web.pressure.disk_ratio == pytest.approx(0.1)


def test_a_containers_rate_is_over_its_own_time() -> None:
    slow_pass = replace(SECOND, containers=(replace(LATER_WEB, monotonic_seconds=58.1),))
    assert sample(FIRST, slow_pass).containers[0].used.cpu_cores == 0.25


def test_a_new_container_has_levels_but_no_rates() -> None:
    (web,) = sample(replace(FIRST, containers=()), SECOND).containers
    assert web.used == Quantities(memory_bytes=2000)
    assert web.limit == Quantities(cpu_cores=1.5, memory_bytes=4000)
    assert web.pressure == Pressure()
    assert web.cpu_seconds_total == 102.0


def test_a_container_that_has_gone_is_not_in_the_sample() -> None:
    assert sample(FIRST, replace(SECOND, containers=())).containers == ()


def test_a_restart_under_the_same_id_is_a_new_beginning_for_every_rate() -> None:
    restarted = replace(LATER_WEB, cpu_seconds=0.5)
    (web,) = sample(FIRST, replace(SECOND, containers=(restarted,))).containers
    assert web.used == Quantities(memory_bytes=2000)
    assert web.pressure == Pressure()


def test_after_a_new_baseline_rates_are_right_again() -> None:
    restarted = replace(SECOND, containers=(replace(LATER_WEB, cpu_seconds=0.5, disk_bytes=0),))
    third = replace(
        restarted,
        monotonic_seconds=58.0,
        containers=(replace(LATER_WEB, monotonic_seconds=58.1, cpu_seconds=2.5, disk_bytes=40),),
    )
    (web,) = sample(restarted, third).containers
    assert web.used.cpu_cores == 0.5
    assert web.used.disk_bytes_per_second == 10.0


def test_one_counter_that_goes_backwards_loses_only_its_own_rate() -> None:
    unplugged = replace(SECOND, host=replace(LATER_HOST, disk_bytes=5))
    assert sample(FIRST, unplugged).used == Quantities(1.0, 3000, None, 200.0)
    without = replace(SECOND, containers=(replace(LATER_WEB, network_bytes=1),))
    assert sample(FIRST, without).containers[0].used == Quantities(0.5, 2000, 100.0, None)


def test_a_counter_that_appears_or_goes_has_no_rate() -> None:
    hidden = replace(SECOND, containers=(replace(LATER_WEB, network_bytes=None),))
    assert sample(FIRST, hidden).containers[0].used.network_bytes_per_second is None
    assert (
        sample(hidden, replace(SECOND, monotonic_seconds=60)).containers[0].used.network_bytes_per_second
        is None
    )


@pytest.mark.parametrize("seconds", [0.0, -3.0])
def test_no_time_between_two_readings_is_no_rate(seconds: float) -> None:
    again = replace(
        SECOND,
        monotonic_seconds=50.0 + seconds,
        containers=(replace(LATER_WEB, monotonic_seconds=50.1 + seconds),),
    )
    result = sample(FIRST, again)
    assert result.interval_seconds == 0.0
    assert result.used == Quantities(memory_bytes=3000)
    assert result.pressure == Pressure()
    assert result.containers[0].used == Quantities(memory_bytes=2000)


def test_the_wall_clock_may_be_set_back() -> None:
    stepped = replace(SECOND, unix_seconds=5.0)
    assert sample(FIRST, stepped).used == sample(FIRST, SECOND).used


def test_gaps_go_along() -> None:
    gap = Gap("container memory", "why")
    assert sample(FIRST, replace(SECOND, gaps=(gap,))).gaps == (gap,)


counts = st.integers(0, 2**63)
maybe_counts = st.none() | counts
seconds_totals = st.floats(0, 1e9)
maybe_seconds = st.none() | seconds_totals
pressures = st.builds(PressureTotals, maybe_seconds, maybe_seconds, maybe_seconds)
hosts = st.builds(
    HostReading,
    cores=st.integers(1, 512),
    busy_seconds=seconds_totals,
    memory_total_bytes=counts,
    memory_available_bytes=counts,
    disk_bytes=maybe_counts,
    network_bytes=maybe_counts,
    network_capacity_bytes_per_second=st.none() | st.floats(0, 1e12),
    pressure=pressures,
)
containers = st.builds(
    ContainerReading,
    id=st.sampled_from("abcde"),
    runtime=st.just("docker"),
    monotonic_seconds=seconds_totals,
    cpu_seconds=seconds_totals,
    memory_usage_bytes=maybe_counts,
    memory_inactive_file_bytes=maybe_counts,
    memory_limit_bytes=maybe_counts,
    cpu_limit_cores=st.none() | st.floats(0.01, 512),
    disk_bytes=maybe_counts,
    network_bytes=maybe_counts,
    pressure=pressures,
)
readings = st.builds(
    Reading,
    unix_seconds=seconds_totals,
    monotonic_seconds=seconds_totals,
    host=hosts,
    containers=st.lists(containers, unique_by=lambda c: c.id).map(tuple),
)


def all_numbers(result: Sample) -> list[float]:
    parts = [result.used, *(container.used for container in result.containers)]
    return [
        number
        for used in parts
        for number in (
            used.cpu_cores,
            used.memory_bytes,
            used.disk_bytes_per_second,
            used.network_bytes_per_second,
        )
        if number is not None
    ]


@given(readings, readings)
def test_nothing_is_ever_negative_or_beyond_what_there_is(previous: Reading, current: Reading) -> None:
    result = sample(previous, current)
    assert result.interval_seconds >= 0
    assert all(number >= 0 for number in all_numbers(result))
    for used in (result.used, *(container.used for container in result.containers)):
        assert used.cpu_cores is None or used.cpu_cores <= current.host.cores
    for pressure in (result.pressure, *(container.pressure for container in result.containers)):
        for ratio in (pressure.cpu_ratio, pressure.memory_ratio, pressure.disk_ratio):
            assert ratio is None or 0 <= ratio <= 1


@given(readings, readings)
def test_every_container_of_the_current_reading_is_there_and_no_other(
    previous: Reading, current: Reading
) -> None:
    assert [c.id for c in sample(previous, current).containers] == [c.id for c in current.containers]


@given(readings, readings)
def test_a_backwards_counter_never_has_a_rate(previous: Reading, current: Reading) -> None:
    used = sample(previous, current).used
    before, now = previous.host, current.host
    if now.busy_seconds < before.busy_seconds:
        assert used.cpu_cores is None
    if before.disk_bytes is not None and now.disk_bytes is not None and now.disk_bytes < before.disk_bytes:
        assert used.disk_bytes_per_second is None


@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 4), st.integers(0, 10**9)), min_size=1, max_size=20)
)
def test_rates_times_time_add_up_to_the_counters(steps: list[tuple[float, float, int]]) -> None:
    reading, cpu_seconds, disk_bytes = FIRST, 0.0, 0.0
    for seconds, cores, transferred in steps:
        before = reading.containers[0]
        assume(before.disk_bytes is not None)
        after = replace(
            before,
            monotonic_seconds=before.monotonic_seconds + seconds,
            cpu_seconds=before.cpu_seconds + cores * seconds,
            disk_bytes=(before.disk_bytes or 0) + transferred,
        )
        following = replace(
            reading, monotonic_seconds=reading.monotonic_seconds + seconds, containers=(after,)
        )
        (web,) = sample(reading, following).containers
        assert web.used.cpu_cores is not None
        assert web.used.disk_bytes_per_second is not None
        elapsed = after.monotonic_seconds - before.monotonic_seconds
        cpu_seconds += web.used.cpu_cores * elapsed
        disk_bytes += web.used.disk_bytes_per_second * elapsed
        reading = following
    last = reading.containers[0]
    assert cpu_seconds == pytest.approx(last.cpu_seconds - WEB.cpu_seconds, rel=1e-6, abs=1e-6)
    assert disk_bytes == pytest.approx((last.disk_bytes or 0) - (WEB.disk_bytes or 0), rel=1e-6, abs=1e-6)
