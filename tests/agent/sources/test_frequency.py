import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.host import FrequencyReader, parse_cpuinfo_hertz
from tests.agent.trees import CPUINFO, Host, make_host, write


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def with_driver(host: Host, *kilohertz: int) -> None:
    for core, rate in enumerate(kilohertz):
        write(host.sys, {f"devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq": f"{rate}\n"})
    write(host.sys, {"devices/system/cpu/cpufreq/": "", "devices/system/cpu/cpuidle/": ""})


def reader(host: Host, clock: Callable[[], float] = lambda: 0.0) -> FrequencyReader:
    return FrequencyReader(host.proc, host.sys, clock)


def test_the_mean_over_the_cores(host: Host) -> None:
    with_driver(host, 1_000_000, 2_000_000, 3_000_000)
    assert reader(host).read(0.0) == 2e9


def test_frequency_is_read_each_time(host: Host) -> None:
    with_driver(host, 1_000_000, 1_000_000)
    watched = reader(host)
    watched.read(0.0)
    with_driver(host, 3_000_000, 3_000_000)
    assert watched.read(3.0) == 3e9


def test_a_pass_reads_a_few_cores_and_later_ones_the_others(host: Host) -> None:
    with_driver(host, *[1_000_000] * 8, *[3_000_000] * 8)
    watched = reader(host)
    rates = [watched.read(float(second)) for second in range(6)]
    assert None not in rates
    assert sum(rate or 0 for rate in rates) / len(rates) == 2e9
    assert len(set(rates)) > 1


def test_slow_reads_end_the_pass_after_one_core(host: Host) -> None:
    with_driver(host, *(1_000_000 * (core + 1) for core in range(4)))
    watched = reader(host, itertools.count(0.0, 0.01).__next__)
    assert sorted(watched.read(float(second)) or 0 for second in range(4)) == [1e9, 2e9, 3e9, 4e9]


def test_a_core_that_is_switched_off_is_left_out(host: Host) -> None:
    with_driver(host, 1_000_000, 2_000_000)
    watched = reader(host)
    watched.read(0.0)
    (host.sys / "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").unlink()
    assert watched.read(3.0) == 2e9


def test_without_a_driver_the_kernels_list_is_read_once_a_minute(host: Host) -> None:
    watched = reader(host)
    assert watched.read(0.0) == 2500.25e6
    write(host.proc, {"cpuinfo": CPUINFO.replace("2000.000", "3000.500")})
    assert watched.read(59.0) == 2500.25e6
    assert watched.read(60.0) == 3000.5e6


def test_frequency_is_unknown_without_a_source(host: Host) -> None:
    (host.proc / "cpuinfo").write_text("processor : 0\nBogoMIPS : 50.00\n")
    assert reader(host).read(0.0) is None


@given(st.binary())
def test_any_bytes_can_be_parsed(text: bytes) -> None:
    parse_cpuinfo_hertz(text)
    parse_cpuinfo_hertz(b"cpu MHz : " + text)
