"""From containers to metrics: real containers, our agent and collector as processes, a real Prometheus."""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from bench.common.measurement import samples
from tests.lab.engines.docker import Engine
from tests.lab.stores.prometheus import prometheus, promtool_check_metrics
from tests.lab.suite import Suite, fetch, suite
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab

WATCHED_SECONDS = 30.0
BURNERS = {
    f"burner-{number}": cpus
    for number, cpus in enumerate((0.05,) * 4 + (0.08,) * 2 + (0.1,) * 2 + (0.2, 0.5))
}
"""CPU usage of ten containers, in cores; two cores have room for them and the rest."""
SLEEPERS = [f"sleeper-{number}" for number in range(10)]
"""The last container has filled the page cache."""

CPU_TOLERANCE_RATIO = 0.02
CPU_TOLERANCE_CORES = 0.005


@pytest.fixture(scope="module")
def running(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    for name, cpus in BURNERS.items():
        engine.run(name, "sh", "-c", "while :; do :; done", cpus=cpus)
    for name in SLEEPERS[:-1]:
        engine.run(name, "sleep", "3600")
    engine.run(SLEEPERS[-1], "sh", "-c", "dd if=/dev/zero of=/cached bs=1M count=24; sleep 3600")
    # Every window of thirty seconds is reported, so that listed values can be compared for the same time.
    every_window = ("reporting.window_seconds=20", "reporting.threshold_points=0")
    with suite(engine.socket, tmp_path_factory.mktemp("suite"), settings=every_window) as started:
        yield started
    for name in [*BURNERS, *SLEEPERS]:
        engine.remove(name)


def test_all_containers_are_listed_by_name_with_the_cpu_that_the_engine_counts(
    engine: Engine, running: Suite
) -> None:
    wanted = {*BURNERS, *SLEEPERS}
    eventually(lambda: wanted <= set(running.containers()), 30)
    ids = {name: running.containers()[name]["id"] for name in wanted}
    track: dict[str, list[tuple[float, float]]] = {name: [] for name in wanted}

    def follow() -> float:
        """Record the agent's counters; returns the time up to which all are known."""
        read_at, counters = running.cpu_counters()
        for name in wanted:
            if not track[name] or track[name][-1][0] < read_at:
                track[name].append((read_at, counters[name]))
        return read_at

    def cores(name: str, start: float, end: float) -> float:
        return (_counter_at(track[name], end) - _counter_at(track[name], start)) / (end - start)

    began = follow()
    before = _engine_counters(engine, ids)
    watched = time.monotonic() + WATCHED_SECONDS
    while time.monotonic() < watched:
        follow()
        time.sleep(0.5)
    after = _engine_counters(engine, ids)

    def windows_since() -> bool:
        """Whether all listed windows started after the test, and ended before the last recorded sample."""
        listed = [running.containers()[name] for name in wanted]
        known = follow()
        return all(began <= each["sampled_at"] - each["window_seconds"] for each in listed) and known >= max(
            *(each["sampled_at"] for each in listed), *(at for at, _ in after.values())
        )

    eventually(windows_since, 90, every_seconds=0.5)
    listed = running.containers()
    for name in sorted(wanted):
        (start, engine_start), (end, engine_end) = before[name], after[name]
        by_engine = (engine_end - engine_start) / (end - start)
        assert cores(name, start, end) == _about(by_engine), f"{name}, by the engine's own counter"
        until, seconds = listed[name]["sampled_at"], listed[name]["window_seconds"]
        assert seconds == pytest.approx(WATCHED_SECONDS, abs=4)
        assert listed[name]["used"]["cpu_cores"] == _about(cores(name, until - seconds, until)), (
            f"{name}, as listed"
        )


def _about(cores: float) -> Any:
    return pytest.approx(cores, rel=CPU_TOLERANCE_RATIO, abs=CPU_TOLERANCE_CORES)


def test_memory_is_the_working_set_and_not_the_page_cache(engine: Engine, running: Suite) -> None:
    folder = engine.cgroup(running.containers()[SLEEPERS[-1]]["id"], "memory")

    def is_working_set() -> bool:
        usage = int((folder / "memory.usage_in_bytes").read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        assert usage > 20 << 20, "the page cache was not charged: this test would show nothing"
        expected = max(0, usage - int(stat["total_inactive_file"]))
        cached = running.containers()[SLEEPERS[-1]]
        return bool(cached["used"]["memory_bytes"] == pytest.approx(expected, abs=1 << 20))

    eventually(is_working_set, 30)  # on a busy machine, the container still writes its file
    assert all(each["used"]["memory_bytes"] >= 0 for each in running.containers().values())


def test_containers_system_and_idle_add_up_to_the_node_in_every_sample(running: Suite) -> None:
    for _ in range(5):
        scraped = samples(running.agent_metrics())
        parts = [
            each.value
            for each in scraped
            if each.name
            in {
                "wattpack_container_power_watts",
                "wattpack_node_power_idle_watts",
                "wattpack_node_power_system_watts",
            }
        ]
        (node,) = [each for each in scraped if each.name == "wattpack_node_power_watts"]
        assert sum(parts) == pytest.approx(node.value, rel=0.001)
        assert max(parts) < node.value
        assert node.labels["source"] == "prior"
        running.await_sample()
    listed = running.containers()
    assert listed["burner-9"]["power"]["watts"] > listed["sleeper-0"]["power"]["watts"]
    assert listed["burner-9"]["power"]["error_ratio"] > 0


def test_a_container_is_listed_and_gone_within_two_samples_and_leaves_no_metric(
    engine: Engine, running: Suite
) -> None:
    engine.run("comes-and-goes", "sleep", "3600")
    _within_two_samples(running, lambda: "comes-and-goes" in running.containers())
    assert 'name="comes-and-goes"' in running.agent_metrics()
    engine.remove("comes-and-goes")
    _within_two_samples(running, lambda: "comes-and-goes" not in running.containers())
    assert "comes-and-goes" not in running.agent_metrics()


def test_a_real_prometheus_scrapes_both_and_promtool_reports_no_error(engine: Engine, running: Suite) -> None:
    assert promtool_check_metrics(running.agent_metrics()) == ""
    assert promtool_check_metrics(fetch(running.collector_url + "/metrics")) == ""
    jobs = {"agent": running.agent_url, "collector": running.collector_url}
    with prometheus({job: url.removeprefix("http://") for job, url in jobs.items()}) as server:
        for job in jobs:
            server.wait_until_up(job)
        listed = server.query("wattpack_container_power_watts")
        assert {labels["name"] for labels, _ in listed} >= {*BURNERS, *SLEEPERS}
        engine.run("scraped", "sleep", "3600")
        eventually(lambda: server.query('wattpack_container_info{name="scraped"}'), 15)
        engine.remove("scraped")
        eventually(lambda: not server.query('{name="scraped"}'), 15)


def _within_two_samples(running: Suite, is_so: Callable[[], bool]) -> None:
    start = running.samples()
    while True:
        taken = running.samples()
        if is_so():
            return
        assert taken <= start + 2, "two samples were taken, and it is not so yet"
        time.sleep(0.05)


def _engine_counters(engine: Engine, ids: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Return the time and value of each CPU counter of the engine, in parallel: a call takes a second."""

    def read(container_id: str) -> tuple[float, float]:
        stats = engine.get(f"/containers/{container_id}/stats?stream=false&one-shot=true")
        at = datetime.fromisoformat(stats["read"]).timestamp()
        return at, stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9

    with ThreadPoolExecutor(len(ids)) as pool:
        return dict(zip(ids, pool.map(read, ids.values()), strict=True))


def _counter_at(track: list[tuple[float, float]], at: float) -> float:
    """Return the counter at a time between two samples, so that both sides have the same interval."""
    index = min(max(1, bisect_left(track, (at, 0.0))), len(track) - 1)
    (earlier, low), (later, high) = track[index - 1], track[index]
    return low + (high - low) * (at - earlier) / (later - earlier)
