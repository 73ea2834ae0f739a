"""Two real Docker hosts without an orchestrator: the actions of a running collector are verified and stay."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from bench.swarm.cluster import Cluster, Collector
from tests.lab.engines import cgroups
from tests.lab.engines.docker import Engine, docker_engine
from tests.lab.engines.image import BURN
from tests.lab.waiting import eventually

if TYPE_CHECKING:
    from tests.lab.engines.swarm import Swarm

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_CORES = 0.3
_MEMORY_BYTES = 192 << 20
_TIMEOUT_SECONDS = 90.0
_VERIFY_SECONDS = 45
"""Agents read limits again at least every 30 s."""
_KEPT_SECONDS = 8
_MOVABLE = {"wattpack.move": "allowed"}


@dataclass(frozen=True)
class Host:
    name: str
    engine: Engine


@dataclass(frozen=True)
class Hosts:
    """Replaces a Swarm where only nodes and their engines matter."""

    nodes: tuple[Host, ...]
    link: None = None

    def of(self, name: str) -> Engine:
        return next(each.engine for each in self.nodes if each.name == name)

    def places(self, container: str) -> list[str]:
        """Return the hosts on which a container with this name runs."""
        return [
            each.name
            for each in self.nodes
            if container in each.engine.docker("ps", "--format={{.Names}}").split()
        ]


@pytest.fixture(scope="module")
def engines() -> Iterator[Hosts]:
    with docker_engine() as first, docker_engine() as second:
        found = Hosts((Host("first", first), Host("second", second)))
        for host in found.nodes:
            cgroups.limit(host.engine.cgroup_parent, cpus=_CORES, memory_bytes=_MEMORY_BYTES)
        yield found


@pytest.fixture
def hosts(engines: Hosts) -> Iterator[Hosts]:
    yield engines
    for host in engines.nodes:
        if left := host.engine.docker("ps", "--all", "--quiet").split():
            host.engine.remove(*left)


@pytest.fixture
def cluster(hosts: Hosts) -> Iterator[Cluster]:
    settings: dict[str, Any] = {
        "driver": {
            "name": "docker",
            "engines": {host.name: f"unix://{host.engine.socket}" for host in hosts.nodes},
            "stable_seconds": 1,
            "healthy_seconds": 20,
        },
        "control": {
            "check_seconds": 0.4,
            "verify_seconds": _VERIFY_SECONDS,
            "settle_seconds": _VERIFY_SECONDS + 5,
            "verdict_seconds": _VERIFY_SECONDS + 5,
        },
        "policies": {"draps": {"cool_down_seconds": 1}},
    }
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        yield Cluster(cast("Swarm", hosts), Path(folder), stack, settings)


def steps(collector: Collector) -> list[dict[str, Any]]:
    """Return all steps that were started, the oldest first."""
    decisions = collector.decisions()[::-1]
    return [step for each in decisions for step in each["steps"] if step.get("started_at") is not None]


def ended(collector: Collector, kind: str, count: int = 1) -> list[dict[str, Any]]:
    """Return the steps of a kind, when this many have ended and none is running."""

    def found() -> list[dict[str, Any]]:
        all_steps = steps(collector)
        under_way = [each for each in all_steps if each.get("ended_at") is None]
        of_kind = [each for each in all_steps if each["action"]["kind"] == kind]
        return of_kind if len(of_kind) >= count and not under_way else []

    return eventually(found, _TIMEOUT_SECONDS)


def test_a_moved_container_is_verified_and_stays(hosts: Hosts, cluster: Cluster) -> None:
    first, second = (host.engine for host in hosts.nodes)
    second.run("quiet", "sleep", "100000", cpus=0.01)
    first.run("steady", *BURN, cpus=0.1)
    first.run("hog", *BURN, cpus=0.19, labels=_MOVABLE)
    collector = cluster.collector()
    cluster.watch(collector)

    [moved] = ended(collector, "move")

    assert (moved["state"], moved.get("why")) == ("verified", None), cluster.logs()
    assert moved["action"]["name"] == "hog"
    assert hosts.places("hog") == ["second"]
    assert moved["containers"] == [second.inspect("hog")["Id"]]
    # Nothing undoes it after the time for verification.
    started = second.inspect("hog")["State"]["StartedAt"]
    eventually(lambda: collector.decisions(outcome="done")[0]["verdicts"], _TIMEOUT_SECONDS)
    assert hosts.places("hog") == ["second"]
    assert second.inspect("hog")["State"]["StartedAt"] == started
    assert len(steps(collector)) == 1


def test_a_container_that_was_stopped_for_a_stricter_one_starts_elsewhere(
    hosts: Hosts, cluster: Cluster
) -> None:
    first, second = (host.engine for host in hosts.nodes)
    first.run("lax", *BURN, cpus=0.2, memory="32m", labels={**_MOVABLE, "wattpack.class": "2"})
    second.run("strict", "sleep", "100000", cpus=0.08, memory="32m", labels={"wattpack.class": "1"})
    collector = cluster.collector({"control": {"policy": ""}})
    cluster.watch(collector)
    eventually(lambda: _promised(collector) == {"first": 0.2, "second": 0.08}, _TIMEOUT_SECONDS)
    eventually(lambda: _used(collector, "first") > 0.5, _TIMEOUT_SECONDS)

    question = {"reserve": {"cpu_cores": 0.25, "memory_bytes": 32 << 20}, "class": 1, "service": "new"}
    decision = _make_room(collector, question)

    [killed] = decision["steps"]
    assert (killed["action"]["kind"], killed["state"]) == ("kill", "verified")
    assert hosts.places("lax") == ["second"]
    assert killed["containers"] == [second.inspect("lax")["Id"]]


def test_a_stopped_container_is_listed_as_waiting_and_starts_again(hosts: Hosts, cluster: Cluster) -> None:
    first, second = (host.engine for host in hosts.nodes)
    first.run("lax", *BURN, cpus=0.2, memory="32m", labels={**_MOVABLE, "wattpack.class": "2"})
    second.run("strict", "sleep", "100000", cpus=0.2, memory="32m", labels={"wattpack.class": "1"})
    collector = cluster.collector({"control": {"policy": ""}})
    cluster.watch(collector)
    eventually(lambda: _promised(collector) == {"first": 0.2, "second": 0.2}, _TIMEOUT_SECONDS)
    eventually(lambda: _used(collector, "first") > 0.5, _TIMEOUT_SECONDS)

    question = {
        "reserve": {"cpu_cores": 0.25, "memory_bytes": 32 << 20},
        "class": 1,
        "service": "new",
        "settings": {"may_wait": True},
        "reserve_seconds": _KEPT_SECONDS,
    }
    decision = _make_room(collector, question)

    [killed] = decision["steps"]
    assert (killed["action"]["kind"], killed["action"]["target"], killed["state"]) == (
        "kill",
        None,
        "verified",
    )
    waiting = collector.get("/v1/room")["waiting"]
    assert [(each["name"], each["node"], each["class"]) for each in waiting] == [("lax", "first", 2)]
    [started] = ended(collector, "start")
    assert (started["state"], started.get("why")) == ("verified", None), cluster.logs()
    assert hosts.places("lax") == ["first"]
    assert collector.get("/v1/room")["waiting"] == []


def test_a_cut_and_its_restoration_are_verified(hosts: Hosts, cluster: Cluster) -> None:
    for host in hosts.nodes:
        labels = {"wattpack.class": "4"}
        host.engine.run(f"lax-{host.name}", "sleep", "100000", cpus=0.21, memory="48m", labels=labels)
    collector = cluster.collector(
        {"control": {"policy": "", "timer_policy": "energy4cloud", "timer_seconds": 2}}
    )
    cluster.watch(collector)
    eventually(lambda: _promised(collector) == {"first": 0.21, "second": 0.21}, _TIMEOUT_SECONDS)

    reserve = {"cpu_cores": 0.15, "memory_bytes": 48 << 20}
    question = {"reserve": reserve, "class": 1, "service": "new", "reserve_seconds": _KEPT_SECONDS}
    decision = _make_room(collector, question)

    [cut] = decision["steps"]
    assert (cut["action"]["kind"], cut["state"]) == ("cut", "verified")
    engine, name = hosts.of(cut["action"]["node"]), cut["action"]["name"]
    assert _cores(engine, name) < 0.2
    # No container starts, and when the reservation ends, the limit is restored.
    _, back = ended(collector, "cut", 2)
    assert (back["action"]["name"], back["state"]) == (name, "verified"), cluster.logs()
    assert _cores(engine, name) == pytest.approx(0.21)


def _make_room(collector: Collector, question: dict[str, Any]) -> dict[str, Any]:
    """Request room until the collector has the reported containers; a snapshot may be a second old."""

    def answer() -> dict[str, Any] | None:
        decision: dict[str, Any] = collector.post("/v1/room", question)
        return decision if decision["steps"] else None

    decision = eventually(answer, _TIMEOUT_SECONDS)
    assert decision is not None
    assert decision["outcome"] == "done", json.dumps(decision, indent=1)
    return decision


def _cores(engine: Engine, name: str) -> float:
    host = engine.inspect(name)["HostConfig"]
    cores: float = host["NanoCpus"] / 1e9 or host["CpuQuota"] / host["CpuPeriod"]
    return cores


def _promised(collector: Collector) -> dict[str, float]:
    nodes = collector.get("/v1/nodes")["nodes"]
    return {node["name"]: node["placement"]["allocated"].get("cpu_cores", 0.0) for node in nodes}


def _used(collector: Collector, name: str) -> float:
    (node,) = [each for each in collector.get("/v1/nodes")["nodes"] if each["name"] == name]
    cores: float = (node.get("used") or node["state"]["used"])["cpu_cores"]
    return cores / _CORES
