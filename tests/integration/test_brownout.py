"""A node that runs out of memory: its optional service stops and comes back, the others never stop.

On a real Swarm and on a plain engine, with the collector killed in between.
"""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from bench.swarm.cluster import NODE_MEMORY_BYTES, Cluster, Collector, cluster
from tests.integration.test_docker_control import Host, Hosts
from tests.lab.engines import cgroups
from tests.lab.engines.docker import Engine
from tests.lab.engines.swarm import NO_LIMIT_BYTES, Swarm
from tests.lab.waiting import eventually

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_MEGABYTE = 1 << 20
_STEADY_MB, _OPTIONAL_MB, _PRESSURE_MB = 35, 50, 88
"""On a node of 192 MB, all fit, but more than nine tenths are in use."""
_OPTIONAL = {"wattpack.optional": "true", "wattpack.weight": "0.5"}
_SHORT_SECONDS = 90.0
_BACK_SECONDS = 60.0
"""The documented limit: a minute after the pressure ends."""
_STEADY, _WORKER, _EXTRA = "steady", "worker", "extra"


def _holding(megabytes: int, end: str) -> str:
    fill = f'b=sprintf("%{_MEGABYTE}s","x"); for(i=0;i<{megabytes};i++) a[i]=b i;'
    return f'awk \'BEGIN {{ {fill} while(system("test -e {end}")) system("sleep 0.5") }}\''


def _commands() -> dict[str, tuple[str, ...]]:
    """Commands that hold memory; one of them holds more between two signals."""
    begins = "while ! test -e /begin; do sleep 0.5; done"
    return {
        _STEADY: ("sh", "-c", _holding(_STEADY_MB, "/never")),
        _WORKER: ("sh", "-c", f"{begins}; {_holding(_PRESSURE_MB, '/end')}; sleep 100000"),
        _EXTRA: ("sh", "-c", _holding(_OPTIONAL_MB, "/never")),
    }


@dataclass(frozen=True)
class Lab:
    """A cluster of either kind of host."""

    cluster: Cluster
    engine: Engine
    """Engine of the node that is short of memory."""
    container: Callable[[str], str | None]
    """Return the running container of a service."""

    def signal(self, name: str, file: str) -> None:
        container = self.container(name)
        assert container is not None
        self.engine.docker("exec", container, "touch", file)

    def stopped(self, collector: Collector) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = collector.get("/v1/brownout")["stopped"]
        return found


@contextmanager
def on_swarm(swarm_nodes: Swarm) -> Iterator[Lab]:
    with cluster(nodes=swarm_nodes) as lab:
        for name, command in _commands().items():
            labels = _OPTIONAL if name == _EXTRA else {}
            lab.swarm.create_service(name, *command, node="node2", labels=labels)
        for name in _commands():
            lab.swarm.wait_until_runs(name, on="node2")

        def container(name: str) -> str | None:
            return next((each.container_id for each in lab.running(name)), None)

        yield Lab(lab, lab.swarm.node("node2").engine, container)


@contextmanager
def on_docker(engine: Engine) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(cgroups.limit, engine.cgroup_parent, cpus=os.cpu_count(), memory_bytes=NO_LIMIT_BYTES)
        stack.callback(engine.remove, *_commands())
        cgroups.limit(engine.cgroup_parent, cpus=0.3, memory_bytes=NODE_MEMORY_BYTES)
        settings: dict[str, Any] = {
            "driver": {
                "name": "docker",
                "engines": {"alone": f"unix://{engine.socket}"},
                "stable_seconds": 1,
            },
            "control": {"check_seconds": 0.4, "verify_seconds": 45},
        }
        for name, command in _commands().items():
            engine.run(name, *command, labels=_OPTIONAL if name == _EXTRA else {})

        def container(name: str) -> str | None:
            found = engine.inspect(name)
            return str(found["Id"]) if found["State"]["Running"] else None

        hosts = Hosts((Host("alone", engine),))
        yield Lab(Cluster(cast("Swarm", hosts), Path(folder), stack, settings), engine, container)


def test_an_optional_service_of_a_swarm_goes_first_and_is_back_within_a_minute(swarm_nodes: Swarm) -> None:
    check_that_it_goes_first_and_is_back(on_swarm(swarm_nodes))


def test_an_optional_container_goes_first_and_is_back_within_a_minute(engine: Engine) -> None:
    check_that_it_goes_first_and_is_back(on_docker(engine))


def check_that_it_goes_first_and_is_back(hosts: AbstractContextManager[Lab]) -> None:
    with hosts as lab:
        mandatory = {name: lab.container(name) for name in (_STEADY, _WORKER)}
        assert None not in mandatory.values()
        collector = lab.cluster.collector()
        lab.cluster.watch(collector)

        lab.signal(_WORKER, "/begin")
        eventually(lambda: lab.container(_EXTRA) is None, _SHORT_SECONDS)
        eventually(lambda: collector.decisions(trigger="brownout", outcome="done"), _SHORT_SECONDS)
        (stopped,) = lab.stopped(collector)
        assert stopped["service"] == _EXTRA
        assert "short of memory" in stopped["why"]

        collector.process.end(signal.SIGKILL)
        collector = lab.cluster.collector()
        eventually(lambda: lab.stopped(collector), _SHORT_SECONDS)
        assert lab.container(_EXTRA) is None, "the pressure goes on"

        lab.signal(_WORKER, "/end")
        eventually(lambda: lab.container(_EXTRA) is not None, _BACK_SECONDS)
        eventually(lambda: not lab.stopped(collector), _SHORT_SECONDS)

        assert {name: lab.container(name) for name in mandatory} == mandatory, "they never stopped"
        done = [step["state"] for each in collector.decisions(trigger="brownout") for step in each["steps"]]
        assert done == ["verified", "verified"], lab.cluster.logs()
