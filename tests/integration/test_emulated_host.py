"""The services on a host with cgroup v2, Docker with the systemd driver, and PSI: all checks use one boot."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.lab.hosts import guest_watch
from tests.lab.hosts.emulated import emulated_host
from tests.lab.hosts.service import install_services
from tests.lab.hosts.trees import host_tree
from tests.lab.parts import require

pytestmark = [pytest.mark.lab, pytest.mark.host]

# Page cache, which does not count, and memory, which does; then as much work as the quota allows.
LOAD = """\
dd if=/dev/zero of=/cached bs=1M count=16
dd if=/dev/zero of=/dev/shm/held bs=1M count=8
touch /ready
while :; do :; done
"""

# Short windows, so that several are reported.
SETTINGS = """\
[reporting]
window_seconds = 6.0
threshold_points = 0.0
"""

# The output of the services goes to the console, which is shown after a failure.
SCRIPT = """\
trap "journalctl --no-pager -o cat -u 'wattpack-*'" EXIT
docker import /lab/image.tar lab:1
id=$(docker run -d --name burner --cpus 0.2 -m 64m lab:1 /bin/sh /load)
until docker exec burner /bin/ls /ready; do sleep 1; done
python3 /lab/watch.py "$id" 8 /results/watch.json
systemctl show -p ActiveState -p NRestarts -p User -p MemoryCurrent wattpack-agent >/results/agent
systemctl show -p ActiveState -p NRestarts -p User -p MemoryCurrent wattpack-collector >/results/collector
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample: the kernel's figures, and the agent's for the container by metric (and resource)."""

    kernel: Mapping[str, float]
    agent: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Results:
    """The results from the host."""

    readings: list[Reading]
    containers: list[dict[str, Any]]
    units: Mapping[str, Mapping[str, str]]
    metrics: str


@pytest.fixture(scope="module")
def results() -> Results:
    require("emulated")
    results = emulated_host(_prepare, SCRIPT)
    watched = json.loads(results["watch.json"])
    return Results(
        readings=[Reading(each["kernel"], _of_burner(each["metrics"])) for each in watched["readings"]],
        containers=watched["containers"],
        units={
            role: dict(line.split("=", 1) for line in results[role].decode().splitlines())
            for role in ("agent", "collector")
        },
        metrics=watched["readings"][-1]["metrics"],
    )


def _prepare(root: Path) -> None:
    install_services(root, host_tree())
    (root / "etc/wattpack/agent.toml").write_text(SETTINGS, encoding="utf-8")
    image = root / "lab/image"
    (image / "bin").mkdir(parents=True)
    shutil.copy(root / "bin/busybox", image / "bin/busybox")
    for applet in ("sh", "dd", "touch", "ls"):
        (image / "bin" / applet).symlink_to("busybox")
    (image / "load").write_text(LOAD, encoding="utf-8")
    subprocess.run(["tar", "-C", str(image), "-cf", str(root / "lab/image.tar"), "."], check=True)
    shutil.copy(guest_watch.__file__, root / "lab/watch.py")


def _of_burner(text: str) -> dict[str, float]:
    return {
        f"{sample.name}:{sample.labels['resource']}"
        if "resource" in sample.labels
        else sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("name") == "burner"
    }


def _increase(readings: Sequence[Reading], figure: str) -> float:
    return readings[-1].kernel[figure] - readings[0].kernel[figure]


def test_both_services_run_unprivileged_and_never_restarted(results: Results) -> None:
    for role, unit in results.units.items():
        assert unit["ActiveState"] == "active", role
        assert unit["NRestarts"] == "0", role
        assert unit["User"] == f"wattpack-{role}"
    assert 0 < int(results.units["agent"]["MemoryCurrent"]) < 128 << 20


def test_cpu_equals_the_kernels_counter(results: Results) -> None:
    counter = "wattpack_container_cpu_seconds_total"
    counted = results.readings[-1].agent[counter] - results.readings[0].agent[counter]
    assert counted == pytest.approx(_increase(results.readings, "cpu_seconds"), rel=0.03)
    cores = [reading.agent["wattpack_container_cpu_cores"] for reading in results.readings[1:]]
    expected = _increase(results.readings, "cpu_seconds") / _increase(results.readings, "monotonic_seconds")
    assert sum(cores) / len(cores) == pytest.approx(expected, rel=0.03)


def test_memory_is_the_working_set(results: Results) -> None:
    for reading in results.readings:
        cache = reading.kernel["inactive_file_bytes"]
        assert cache > 12 << 20  # else this would not tell a working set from plain usage
        assert reading.agent["wattpack_container_memory_working_set_bytes"] == pytest.approx(
            reading.kernel["memory_bytes"] - cache, rel=0.05
        )


def test_pressure_is_the_share_of_time_that_the_kernel_counts_as_waiting(results: Results) -> None:
    waited = sum(
        reading.agent["wattpack_container_pressure_ratio:cpu"]
        * _increase([before, reading], "monotonic_seconds")
        for before, reading in pairwise(results.readings)
    )
    assert waited == pytest.approx(_increase(results.readings, "stalled_seconds"), rel=0.05)
    assert waited > 0.3 * _increase(results.readings, "monotonic_seconds")
    assert 'wattpack_node_pressure_ratio{resource="cpu"}' in results.metrics


def test_limits_are_those_of_its_start(results: Results) -> None:
    agent = results.readings[-1].agent
    assert agent["wattpack_container_cpu_limit_cores"] == pytest.approx(0.2)
    assert agent["wattpack_container_memory_limit_bytes"] == 64 << 20


def test_the_collector_lists_the_mean_of_the_last_window(results: Results) -> None:
    (burner,) = results.containers
    assert (burner["name"], burner["node"], burner["runtime"]) == ("burner", "lab", "docker")
    assert burner["window_seconds"] == pytest.approx(9, abs=2)
    [end] = [
        index
        for index, reading in enumerate(results.readings)
        # Reports have milliseconds.
        if abs(reading.agent["wattpack_container_cpu_seconds_total"] - burner["cpu_seconds_total"]) < 0.001
    ]
    ended_at = results.readings[end].kernel["monotonic_seconds"]
    window = [
        (reading.agent, _increase([before, reading], "monotonic_seconds"))
        for before, reading in pairwise(results.readings[: end + 1])
        if before.kernel["monotonic_seconds"] > ended_at - burner["window_seconds"] - 1
    ]
    assert len(window) >= 2

    def mean(metric: str) -> float:
        return sum(agent[metric] * seconds for agent, seconds in window) / sum(
            seconds for _, seconds in window
        )

    assert burner["used"]["cpu_cores"] == pytest.approx(mean("wattpack_container_cpu_cores"), rel=0.05)
    assert burner["used"]["memory_bytes"] == pytest.approx(
        mean("wattpack_container_memory_working_set_bytes"), rel=0.05
    )
    assert burner["pressure"]["cpu_ratio"] == pytest.approx(
        mean("wattpack_container_pressure_ratio:cpu"), rel=0.1
    )
