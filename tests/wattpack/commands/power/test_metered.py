"""The agent as a process on a host with a meter: the fake powercap tree, whose truth is known."""

import re
from pathlib import Path

import pytest

from tests.lab.powercap import PowercapTree, constant, intel
from tests.lab.suite import fetch
from tests.lab.waiting import eventually
from tests.processes import Command, wattpack

pytestmark = pytest.mark.slow

WATTS = 50.0


def agent(tree: PowercapTree, folder: Path) -> Command:
    return wattpack(
        "agent",
        *("--set", "http.listen=127.0.0.1:0"),
        *("--set", "sampling.interval_seconds=0.5"),
        *("--set", f"host.root={tree.host_root()}"),
        *("--set", "collector.enabled=false"),
        *("--set", "docker.socket="),
        *("--set", f"storage.directory={folder}"),
    )


def value(url: str, series: str) -> float:
    found = re.search(rf"^{re.escape(series)} (\S+)$", fetch(f"{url}/metrics"), re.MULTILINE)
    assert found is not None, series
    return float(found[1])


def shown_watts(url: str) -> float:
    return value(url, 'wattpack_node_meter_watts{meter="rapl",scope="the CPU only",used="true"}')


def test_metered_watts_and_joules_survive_a_restart(tmp_path: Path) -> None:
    tree = PowercapTree(tmp_path / "tree", intel(constant(WATTS)))
    joules = 0.0
    with tree.live():
        for _ in range(2):
            with agent(tree, tmp_path).running() as process:
                assert process.stdout is not None
                (url,) = next(
                    filter(None, (re.findall(r"(http://\S+)/metrics", line) for line in process.stdout))
                )
                eventually(lambda: value(url, "wattpack_agent_samples_total") >= 6, 20)  # noqa: B023 - called at once
                # One sample may be off where the process that moves the counters had to wait for a core.
                eventually(lambda: shown_watts(url) == pytest.approx(WATTS, rel=0.05), 20)  # noqa: B023 - called at once
                assert 'wattpack_node_meter_watts{meter="rapl"' in fetch(f"{url}/metrics")
                counted = value(url, "wattpack_node_energy_joules_total")
                assert counted > joules
                joules = counted
    assert joules > WATTS * 0.5 * 8, "the second run went on from the first"
