import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.sampling.rates import HostRates, compute_rates
from agent.sources.readings import (
    CgroupReading,
    ContainerReading,
    CpuTotals,
    DiskTotals,
    HostMemory,
    HostReading,
    Limits,
    LinkTotals,
    MemoryLevels,
    PressureTotals,
    Reading,
)
from wire.messages import Pressure
from wire.resources import Quantities

HOST = HostReading(
    cores=4,
    cpu_seconds=1000.0,
    iowait_seconds=50.0,
    steal_seconds=20.0,
    load_1m=1.5,
    frequency_hertz=2e9,
    memory=HostMemory(total_bytes=8000, available_bytes=5000, cache_bytes=1500, swap_used_bytes=10),
    oom_kills=3,
    disks={"sda": DiskTotals(10_000, 100, 5.0), "sdb": DiskTotals(500, 10, 1.0)},
    links={"eth0": LinkTotals(20_000, 0)},
    network_capacity_bytes_per_second=125e6,
    pressure=PressureTotals(10.0, 20.0, 30.0),
)
WEB = ContainerReading(
    id="web",
    runtime="docker",
    pod="1b4e28ba",
    monotonic_seconds=50.1,
    cgroup=CgroupReading(
        cpu=CpuTotals(100.0, 60.0, 40.0, 7.0),
        memory=MemoryLevels(3000, 1000, 1200, 1800, 0, 2),
        disk=DiskTotals(500, 50),
        pids=12,
        pressure=PressureTotals(1.0, 2.0, 3.0),
        limits=Limits(cpu_cores=1.5, memory_bytes=4000),
        cpu_weight=0.5,
    ),
    network=LinkTotals(700, 200),
)
FIRST = Reading(unix_seconds=1e9, monotonic_seconds=50.0, host=HOST, containers=(WEB,))
LATER_HOST = replace(
    HOST,
    cpu_seconds=1004.0,
    iowait_seconds=52.0,
    steal_seconds=20.4,
    disks={"sda": DiskTotals(10_400, 120, 6.0), "sdb": DiskTotals(500, 10, 4.0)},
    links={"eth0": LinkTotals(20_800, 0)},
    pressure=PressureTotals(11.0, 20.0, 30.2),
)
LATER_WEB = replace(
    WEB,
    monotonic_seconds=54.1,
    cgroup=replace(
        WEB.cgroup,
        cpu=CpuTotals(102.0, 61.5, 40.5, 7.5),
        disk=DiskTotals(900, 58),
        pressure=PressureTotals(2.0, 2.0, 3.4),
    ),
    network=LinkTotals(1500, 400),
)
SECOND = Reading(unix_seconds=1e9 + 4, monotonic_seconds=54.0, host=LATER_HOST, containers=(LATER_WEB,))


def with_cgroup(cpu: CpuTotals, disk: DiskTotals = LATER_WEB.cgroup.disk) -> ContainerReading:
    """The container, read later, with something else in its cgroup."""
    return replace(LATER_WEB, cgroup=replace(LATER_WEB.cgroup, cpu=cpu, disk=disk))


def test_the_host() -> None:
    result = compute_rates(FIRST, SECOND)
    assert result.unix_seconds == 1e9 + 4
    assert result.interval_seconds == 4.0
    assert result.used == Quantities(1.0, 3000, 100.0, 200.0)
    assert result.capacity == Quantities(4.0, 8000, None, 125e6)
    assert result.pressure.cpu_ratio == 0.25
    assert result.pressure.memory_ratio == 0.0
    assert result.pressure.disk_ratio == pytest.approx(0.05)
    assert (result.load_1m, result.frequency_hertz, result.oom_kills_total) == (1.5, 2e9, 3)
    assert (result.memory_cache_bytes, result.swap_used_bytes) == (1500, 10)
    assert result.iowait_ratio == pytest.approx(2 / 16)
    assert result.steal_ratio == pytest.approx(0.4 / 16)
    assert result.disk_operations_per_second == 5.0
    assert result.disk_busy_ratio == 0.75


def test_unreadable_host_has_no_values() -> None:
    result = compute_rates(FIRST, replace(SECOND, host=HostReading(), containers=()))
    assert result == HostRates(1e9 + 4, 4.0, Quantities(), Quantities(), Pressure())
    again = compute_rates(
        replace(SECOND, host=HostReading(), containers=()), replace(SECOND, monotonic_seconds=57.0)
    )
    assert again.used == Quantities(memory_bytes=3000)


def test_new_disk_or_link_is_not_a_burst() -> None:
    more = replace(
        LATER_HOST,
        disks={**LATER_HOST.disks, "sdc": DiskTotals(10**15, 10**9, 10**6)},
        links={**LATER_HOST.links, "eth1": LinkTotals(10**15, 0)},
    )
    plugged = compute_rates(FIRST, replace(SECOND, host=more))
    assert plugged.used == compute_rates(FIRST, SECOND).used
    assert plugged.disk_busy_ratio == 0.75


def test_removed_disk_affects_only_its_own_rate() -> None:
    less = replace(LATER_HOST, disks={"sda": LATER_HOST.disks["sda"]}, links={})
    pulled = compute_rates(FIRST, replace(SECOND, host=less))
    assert pulled.used == Quantities(1.0, 3000, 100.0, None)
    assert pulled.disk_busy_ratio == 0.25


def test_a_container() -> None:
    (web,) = compute_rates(FIRST, SECOND).containers
    assert (web.id, web.runtime, web.pod, web.cpu_seconds_total) == ("web", "docker", "1b4e28ba", 102.0)
    assert web.used == Quantities(0.5, 2000, 100.0, 200.0)
    assert web.limit == Quantities(cpu_cores=1.5, memory_bytes=4000)
    assert web.pressure.cpu_ratio == 0.25
    assert web.pressure.memory_ratio == 0.0
    assert web.pressure.disk_ratio == pytest.approx(0.1)
    assert (web.cpu_user_seconds_total, web.cpu_system_seconds_total) == (61.5, 40.5)
    assert (web.cpu_throttled_seconds_total, web.cpu_weight) == (7.5, 0.5)
    assert (web.memory_usage_bytes, web.memory_anon_bytes, web.memory_file_bytes) == (3000, 1200, 1800)
    assert (web.oom_kills_total, web.pids) == (2, 12)
    assert web.disk_operations_per_second == 2.0


def test_a_containers_rate_is_over_its_own_time() -> None:
    slow_pass = replace(SECOND, containers=(replace(LATER_WEB, monotonic_seconds=58.1),))
    assert compute_rates(FIRST, slow_pass).containers[0].used.cpu_cores == 0.25


def test_a_new_container_has_levels_but_no_rates() -> None:
    (web,) = compute_rates(replace(FIRST, containers=()), SECOND).containers
    assert web.used == Quantities(memory_bytes=2000)
    assert web.limit == Quantities(cpu_cores=1.5, memory_bytes=4000)
    assert web.pressure == Pressure()
    assert web.cpu_seconds_total == 102.0


def test_a_container_that_has_gone_is_not_in_the_sample() -> None:
    assert compute_rates(FIRST, replace(SECOND, containers=())).containers == ()


def test_restart_under_the_same_id_resets_all_rates() -> None:
    restarted = with_cgroup(cpu=CpuTotals(0.5))
    (web,) = compute_rates(FIRST, replace(SECOND, containers=(restarted,))).containers
    assert web.used == Quantities(memory_bytes=2000)
    assert web.pressure == Pressure()


def test_after_a_new_baseline_rates_are_right_again() -> None:
    restarted = replace(SECOND, containers=(with_cgroup(cpu=CpuTotals(0.5), disk=DiskTotals(0)),))
    third = replace(
        restarted,
        monotonic_seconds=58.0,
        containers=(replace(with_cgroup(cpu=CpuTotals(2.5), disk=DiskTotals(40)), monotonic_seconds=58.1),),
    )
    (web,) = compute_rates(restarted, third).containers
    assert web.used.cpu_cores == 0.5
    assert web.used.disk_bytes_per_second == 10.0


def test_one_counter_that_goes_backwards_loses_only_its_own_rate() -> None:
    reset = replace(SECOND, host=replace(LATER_HOST, links={"eth0": LinkTotals(5, 0)}))
    assert compute_rates(FIRST, reset).used == Quantities(1.0, 3000, 100.0, None)
    without = replace(SECOND, containers=(replace(LATER_WEB, network=LinkTotals(1, 0)),))
    assert compute_rates(FIRST, without).containers[0].used == Quantities(0.5, 2000, 100.0, None)


def test_a_counter_that_appears_or_goes_has_no_rate() -> None:
    hidden = replace(SECOND, containers=(replace(LATER_WEB, network=None),))
    assert compute_rates(FIRST, hidden).containers[0].used.network_bytes_per_second is None
    assert (
        compute_rates(hidden, replace(SECOND, monotonic_seconds=60))
        .containers[0]
        .used.network_bytes_per_second
        is None
    )


@pytest.mark.parametrize("seconds", [0.0, -3.0])
def test_no_time_between_two_readings_is_no_rate(seconds: float) -> None:
    again = replace(
        SECOND,
        monotonic_seconds=50.0 + seconds,
        containers=(replace(LATER_WEB, monotonic_seconds=50.1 + seconds),),
    )
    result = compute_rates(FIRST, again)
    assert result.interval_seconds == 0.0
    assert result.used == Quantities(memory_bytes=3000)
    assert result.pressure == Pressure()
    assert result.containers[0].used == Quantities(memory_bytes=2000)


def test_the_wall_clock_may_be_set_back() -> None:
    stepped = replace(SECOND, unix_seconds=5.0)
    assert compute_rates(FIRST, stepped).used == compute_rates(FIRST, SECOND).used


counts = st.integers(0, 2**63)
maybe_counts = st.none() | counts
seconds_totals = st.floats(0, 1e9)
maybe_seconds = st.none() | seconds_totals
pressures = st.builds(PressureTotals, maybe_seconds, maybe_seconds, maybe_seconds)
link_totals = st.builds(LinkTotals, counts, counts)
disk_totals = st.builds(DiskTotals, counts, maybe_counts, maybe_seconds)
hosts = st.builds(
    HostReading,
    cores=st.none() | st.floats(0.01, 512),
    cpu_seconds=maybe_seconds,
    iowait_seconds=maybe_seconds,
    steal_seconds=maybe_seconds,
    memory=st.builds(HostMemory, maybe_counts, maybe_counts, maybe_counts, maybe_counts),
    disks=st.dictionaries(st.sampled_from(["sda", "sdb", "sdc"]), disk_totals),
    links=st.dictionaries(st.sampled_from(["eth0", "eth1"]), link_totals),
    network_capacity_bytes_per_second=st.none() | st.floats(0, 1e12),
    pressure=pressures,
)
cgroups = st.builds(
    CgroupReading,
    cpu=st.builds(CpuTotals, seconds_totals, maybe_seconds, maybe_seconds, maybe_seconds),
    memory=st.builds(MemoryLevels, maybe_counts, maybe_counts),
    disk=st.builds(DiskTotals, maybe_counts, maybe_counts),
    pressure=pressures,
)
containers = st.builds(
    ContainerReading,
    id=st.sampled_from("abcde"),
    runtime=st.just("docker"),
    monotonic_seconds=seconds_totals,
    cgroup=cgroups,
    network=st.none() | link_totals,
)
readings = st.builds(
    Reading,
    unix_seconds=seconds_totals,
    monotonic_seconds=seconds_totals,
    host=hosts,
    containers=st.lists(containers, unique_by=lambda c: c.id).map(tuple),
)


def all_numbers(result: HostRates) -> list[float]:
    parts = [result.used, *(container.used for container in result.containers)]
    others = [
        result.disk_operations_per_second,
        *(container.disk_operations_per_second for container in result.containers),
    ]
    return [number for number in others if number is not None] + [
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
    result = compute_rates(previous, current)
    assert result.interval_seconds >= 0
    assert all(number >= 0 for number in all_numbers(result))
    for used in (result.used, *(container.used for container in result.containers)):
        if used.cpu_cores is not None and current.host.cores is not None:
            assert used.cpu_cores <= current.host.cores
    for share in (result.iowait_ratio, result.steal_ratio, result.disk_busy_ratio):
        assert share is None or 0 <= share <= 1
    for pressure in (result.pressure, *(container.pressure for container in result.containers)):
        for ratio in (pressure.cpu_ratio, pressure.memory_ratio, pressure.disk_ratio):
            assert ratio is None or 0 <= ratio <= 1


@given(readings, readings)
def test_every_container_of_the_current_reading_is_there_and_no_other(
    previous: Reading, current: Reading
) -> None:
    assert [c.id for c in compute_rates(previous, current).containers] == [c.id for c in current.containers]


@given(readings, readings)
def test_a_backwards_counter_never_has_a_rate(previous: Reading, current: Reading) -> None:
    used = compute_rates(previous, current).used
    before, now = previous.host, current.host
    if (now.cpu_seconds or 0) < (before.cpu_seconds or 0):
        assert used.cpu_cores is None
    if all(link[0] < before.links.get(name, (0, 0))[0] for name, link in now.links.items()):
        assert used.network_bytes_per_second is None


@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 4), st.integers(0, 10**9)), min_size=1, max_size=20)
)
def test_rates_times_time_add_up_to_the_counters(steps: list[tuple[float, float, int]]) -> None:
    reading, cpu_seconds, disk_bytes = FIRST, 0.0, 0.0
    for seconds, cores, transferred in steps:
        before = reading.containers[0]
        old = before.cgroup
        after = replace(
            before,
            monotonic_seconds=before.monotonic_seconds + seconds,
            cgroup=replace(
                old,
                cpu=CpuTotals(old.cpu.seconds + cores * seconds),
                disk=DiskTotals((old.disk.transferred_bytes or 0) + transferred),
            ),
        )
        following = replace(
            reading, monotonic_seconds=reading.monotonic_seconds + seconds, containers=(after,)
        )
        (web,) = compute_rates(reading, following).containers
        assert web.used.cpu_cores is not None
        assert web.used.disk_bytes_per_second is not None
        elapsed = after.monotonic_seconds - before.monotonic_seconds
        cpu_seconds += web.used.cpu_cores * elapsed
        disk_bytes += web.used.disk_bytes_per_second * elapsed
        reading = following
    last, first = reading.containers[0].cgroup, WEB.cgroup
    assert cpu_seconds == pytest.approx(last.cpu.seconds - first.cpu.seconds, rel=1e-6, abs=1e-6)
    assert disk_bytes == pytest.approx(
        (last.disk.transferred_bytes or 0) - (first.disk.transferred_bytes or 0), rel=1e-6, abs=1e-6
    )
