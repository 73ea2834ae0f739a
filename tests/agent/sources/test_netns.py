from pathlib import Path

import pytest

from agent.sources.cgroups.containers import FoundContainer
from agent.sources.processes import NetworkReader, processes_of
from agent.sources.readings import LinkTotals
from tests.agent.trees import HOST_NAMESPACE, NET_DEV, Host, found_container, make_host, write

ETH0_ONLY = "\n".join(NET_DEV.splitlines()[:4]) + "\n"
MORE = ETH0_ONLY.replace("1000000", "1500000")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


class Cgroups:
    """Cgroup directories with their processes, handed to a reader by id."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def put(self, identifier: str, *pids: int, below: str = "") -> None:
        text = "".join(f"{pid}\n" for pid in pids)
        write(self._base, {f"{identifier}/cgroup.procs": "" if below else text})
        if below:
            write(self._base, {f"{identifier}/{below}/cgroup.procs": text})

    def all(self) -> list[FoundContainer]:
        return [found_container(path) for path in sorted(self._base.iterdir())]


@pytest.fixture
def cgroups(tmp_path: Path) -> Cgroups:
    return Cgroups(tmp_path / "cgroups")


def test_bytes_of_all_links_but_the_loopback(host: Host, cgroups: Cgroups) -> None:
    host.process(100, 5001, ETH0_ONLY)
    cgroups.put("a", 100, 101)
    assert NetworkReader(host.proc).read(cgroups.all()) == {"a": LinkTotals(1_200_000, 200_000)}


def test_container_with_host_networking_has_no_value(host: Host, cgroups: Cgroups) -> None:
    host.process(100, HOST_NAMESPACE)
    cgroups.put("a", 100)
    assert NetworkReader(host.proc).read(cgroups.all()) == {}


def test_container_in_the_namespace_of_the_agent_has_no_value(host: Host, cgroups: Cgroups) -> None:
    host.process("self", 7777)
    host.process(100, 7777)
    cgroups.put("a", 100)
    assert NetworkReader(host.proc).read(cgroups.all()) == {}


def test_a_shared_namespace_is_counted_once_for_the_first(host: Host, cgroups: Cgroups) -> None:
    for pid in (100, 200, 300):
        host.process(pid, 5001 if pid < 300 else 5002, ETH0_ONLY)
    for identifier, pid in (("b", 200), ("a", 100), ("c", 300)):
        cgroups.put(identifier, pid)
    assert NetworkReader(host.proc).read(cgroups.all()) == (
        {"a": LinkTotals(1_200_000, 200_000), "c": LinkTotals(1_200_000, 200_000)}
    )


def test_processes_in_nested_cgroups_are_found(host: Host, cgroups: Cgroups) -> None:
    host.process(100, 5001, ETH0_ONLY)
    cgroups.put("a", 100, below="container")
    assert NetworkReader(host.proc).read(cgroups.all()) == {"a": LinkTotals(1_200_000, 200_000)}


def test_cached_process_is_read_without_the_cgroup(host: Host, cgroups: Cgroups) -> None:
    host.process(100, 5001, ETH0_ONLY)
    cgroups.put("a", 100)
    reader = NetworkReader(host.proc)
    reader.read(cgroups.all())
    cgroups.put("a")
    write(host.proc, {"namespaces/5001": MORE})
    assert reader.read(cgroups.all()) == {"a": LinkTotals(1_700_000, 200_000)}


def test_a_process_that_ended_is_replaced_by_another(host: Host, cgroups: Cgroups) -> None:
    host.process(100, 5001, MORE)
    host.process(101, 5001, MORE)
    cgroups.put("a", 100, 101)
    reader = NetworkReader(host.proc)
    reader.read(cgroups.all())
    host.end(100)
    cgroups.put("a", 101)
    assert reader.read(cgroups.all()) == {"a": LinkTotals(1_700_000, 200_000)}


def test_reused_process_id_is_not_read(host: Host, cgroups: Cgroups) -> None:
    host.process(100, 5001, ETH0_ONLY)
    cgroups.put("a", 100)
    reader = NetworkReader(host.proc)
    reader.read(cgroups.all())
    host.process(100, 6006, MORE)
    host.process(102, 5001, ETH0_ONLY)
    cgroups.put("a", 102)
    assert reader.read(cgroups.all()) == {"a": LinkTotals(1_200_000, 200_000)}


def test_container_without_processes_has_no_value(host: Host, cgroups: Cgroups) -> None:
    cgroups.put("a")
    cgroups.put("b", 999)
    missing = found_container(host.proc / "nowhere")
    assert NetworkReader(host.proc).read([*cgroups.all(), missing]) == {}


def test_invisible_processes_are_one_gap(host: Host, cgroups: Cgroups) -> None:
    cgroups.put("a", 0)
    cgroups.put("b", 0)
    reader = NetworkReader(host.proc)
    assert reader.read(cgroups.all()) == {}
    assert len(reader.gaps) == 1
    assert "pid: host" in reader.gaps[0].why


def test_processes_that_proc_hides_are_a_gap_as_well(host: Host, cgroups: Cgroups) -> None:
    host.end(1)
    cgroups.put("a", 100)
    cgroups.put("b", 200)
    reader = NetworkReader(host.proc)
    assert reader.read(cgroups.all()) == {}
    assert [gap.what for gap in reader.gaps] == ["container network"]
    assert "hidepid" in reader.gaps[0].why


def test_missing_cgroup_has_no_process(tmp_path: Path) -> None:
    assert list(processes_of(str(tmp_path / "gone"))) == []
