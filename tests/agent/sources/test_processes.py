import shutil
from pathlib import Path

import pytest

from agent.sources.processes import StartReader, parse_start_ticks
from tests.agent.trees import found_container, write

NOW = 1_700_000_000.0
UPTIME_SECONDS = 5000.0
TICKS = 100.0


class Machine:
    """Processes and cgroups below a folder."""

    def __init__(self, base: Path) -> None:
        self.proc, self.cgroups = base / "proc", base / "cgroups"
        write(self.proc, {"uptime": f"{UPTIME_SECONDS} 1.0\n"})
        self.reader = StartReader(self.proc, TICKS)

    def process(self, pid: int, age_seconds: float, name: str = "web server) (1") -> None:
        ticks = round((UPTIME_SECONDS - age_seconds) * TICKS)
        fields = " ".join(["S", *("0" for _ in range(18)), str(ticks), "0"])
        write(self.proc, {f"{pid}/stat": f"{pid} ({name}) {fields}\n"})

    def put(self, path: str, *pids: int) -> None:
        write(self.cgroups, {f"{path}/cgroup.procs": "".join(f"{pid}\n" for pid in pids)})

    def read(self, *names: str, at: float = NOW) -> dict[str, float]:
        return self.reader.read([found_container(self.cgroups / name) for name in names], at)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_container_is_as_old_as_its_oldest_process(machine: Machine) -> None:
    machine.process(70, age_seconds=20.0)
    machine.process(900, age_seconds=3600.0)
    machine.put("web", 70, 900)
    assert machine.read("web") == {"web": NOW - 3600}
    # It is not read again, so that it does not move with the clock.
    assert machine.read("web", at=NOW + 7) == {"web": NOW - 3600}


def test_processes_below_it_count_and_those_of_other_namespaces_do_not(machine: Machine) -> None:
    machine.process(5, age_seconds=100.0)
    machine.put("web", 0)
    machine.put("web/init.scope", 5)
    machine.put("hidden", 0)
    assert machine.read("web", "hidden") == {"web": NOW - 100}


def test_restarted_container_has_a_new_start_time(machine: Machine) -> None:
    machine.process(5, age_seconds=100.0)
    machine.put("web", 5)
    assert machine.read("web") == {"web": NOW - 100}
    (machine.cgroups / "web").rename(machine.cgroups / "old")
    machine.process(6, age_seconds=1.0)
    machine.put("web", 6)
    shutil.rmtree(machine.cgroups / "old")
    assert machine.read("web") == {"web": NOW - 1}


def test_start_of_an_ended_process_is_unknown(machine: Machine) -> None:
    machine.put("web", 5)
    assert machine.read("web", "gone") == {}
    machine.process(5, age_seconds=3.0)
    assert machine.read("web") == {"web": NOW - 3}


@pytest.mark.parametrize("stat", [None, b"", b"5 (sh) S 1 2"])
def test_truncated_stat_file_has_no_start(stat: bytes | None) -> None:
    assert parse_start_ticks(stat) is None
