from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.cgroups.layout import detect_layout
from agent.sources.cgroups.usage import LimitsReader, parse_cpuset_cores
from agent.sources.readings import Limits
from tests.agent.trees import (
    V1_NO_LIMIT,
    Host,
    container_id,
    make_host,
    make_v1,
    make_v2,
    v1_container,
    v2_container,
    write,
)

POD = "kubepods.slice/kubepods-pod1b4e28ba_2fa1_11d2_883f_0016d3cca427.slice"
PATH = f"{POD}/cri-containerd-{container_id(7)}.scope"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def v1_host(host: Host) -> Host:
    make_v1(host)
    v1_container(host, PATH)
    return host


def v2_host(host: Host) -> Host:
    make_v2(host)
    v2_container(host, PATH)
    return host


@pytest.fixture
def v1(host: Host) -> Host:
    return v1_host(host)


@pytest.fixture
def v2(host: Host) -> Host:
    return v2_host(host)


def read(host: Host, cores: float | None = 8.0) -> Limits:
    return LimitsReader(detect_layout(host.proc, host.sys), cores).read(PATH)


def test_v2_limits_above_a_container_bind_it(v2: Host) -> None:
    write(v2.cgroup, {f"{POD}/cpu.max": "25000 100000\n", f"{POD}/memory.max": "max\n"})
    write(v2.cgroup, {"kubepods.slice/cpu.max": "max 100000\n", "kubepods.slice/memory.max": "1000000\n"})
    assert read(v2) == Limits(0.25, 1_000_000)


def test_v1_quota_above_a_container_binds_it(v1: Host) -> None:
    write(v1.cgroup, {f"cpu/{POD}/cpu.cfs_quota_us": "10000\n", f"cpu/{POD}/cpu.cfs_period_us": "100000\n"})
    assert read(v1) == Limits(0.1, 64 << 20)


def test_inside_a_container_its_own_limits_bind_those_nested_in_it(v2: Host) -> None:
    write(v2.cgroup, {"cpu.max": "20000 100000\n"})
    assert read(v2).cpu_cores == 0.2


@pytest.mark.parametrize(
    ("make", "file", "weights"),
    [
        (v1_host, f"cpu/{PATH}/cpu.shares", {"1024\n": 1.0, "2\n": 2 / 1024, "": None}),
        (v2_host, f"{PATH}/cpu.weight", {"100\n": 1.0, "10000\n": 100.0, "": None}),
    ],
)
def test_cpu_weight_is_a_multiple_of_the_default(
    host: Host, make: Callable[[Host], Host], file: str, weights: dict[str, float | None]
) -> None:
    make(host)
    for text, weight in weights.items():
        write(host.cgroup, {file: text})
        reader = LimitsReader(detect_layout(host.proc, host.sys), 8.0)
        assert reader.read_cpu_weight(PATH) == weight


def without_quota_v1(host: Host, cores: str) -> None:
    make_v1(host)
    v1_container(host, PATH)
    write(host.cgroup, {f"cpu/{PATH}/cpu.cfs_quota_us": "-1\n", f"cpuset/{PATH}/cpuset.cpus": cores})


def without_quota_v2(host: Host, cores: str) -> None:
    make_v2(host)
    v2_container(host, PATH)
    write(host.cgroup, {f"{PATH}/cpu.max": "max 100000\n", f"{PATH}/cpuset.cpus.effective": cores})


@pytest.mark.parametrize("make", [without_quota_v1, without_quota_v2], ids=["v1", "v2"])
@pytest.mark.parametrize(
    ("cores", "machine", "limit"),
    [
        ("1,3,5-6\n", 8.0, 4.0),
        ("2\n", 8.0, 1.0),
        ("0-7\n", 8.0, None),
        ("0-127\n", 8.0, None),
        ("0-3\n", None, 4.0),
        ("\n", 8.0, None),
    ],
)
def test_cores_are_a_limit_unless_they_are_all_there_are(
    host: Host, make: Callable[[Host, str], None], cores: str, machine: float | None, limit: float | None
) -> None:
    make(host, cores)
    assert read(host, machine).cpu_cores == limit


def test_the_tightest_of_quota_and_cores_holds(v2: Host) -> None:
    write(v2.cgroup, {f"{PATH}/cpu.max": "300000 100000\n", f"{PATH}/cpuset.cpus.effective": "0-1\n"})
    assert read(v2).cpu_cores == 2.0
    write(v2.cgroup, {f"{PATH}/cpuset.cpus.effective": "0-5\n"})
    assert read(v2).cpu_cores == 3.0


def test_no_limit_is_no_limit(v1: Host) -> None:
    write(
        v1.cgroup,
        {
            f"cpu/{PATH}/cpu.cfs_quota_us": "-1\n",
            f"memory/{PATH}/memory.stat": f"hierarchical_memory_limit {V1_NO_LIMIT}\n",
        },
    )
    assert read(v1, 2.0) == Limits()


def test_max_is_no_limit(v2: Host) -> None:
    write(v2.cgroup, {f"{PATH}/cpu.max": "max 100000\n", f"{PATH}/memory.max": "max\n"})
    assert read(v2, 2.0) == Limits()


@given(st.binary())
def test_any_bytes_are_a_list_of_cores(text: bytes) -> None:
    cores = parse_cpuset_cores(text)
    assert cores is None or cores > 0


@given(st.sets(st.integers(0, 512), min_size=1))
def test_every_core_of_a_list_is_counted(cores: set[int]) -> None:
    assert parse_cpuset_cores(",".join(map(str, sorted(cores))).encode() + b"\n") == len(cores)
    lowest, highest = min(cores), max(cores)
    assert parse_cpuset_cores(f"{lowest}-{highest}".encode()) == highest - lowest + 1
