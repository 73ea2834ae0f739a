"""A real Swarm with an agent per node, and collectors that act on it, all as processes.

With round-trip times between the nodes, agents run in the network of their node and need tokens, as on
separate machines.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from tests.lab.engines import image
from tests.lab.engines.swarm import Swarm, Task, swarm
from tests.lab.hosts.link import Host, Matrix
from tests.lab.waiting import eventually

Outcome = TypeVar("Outcome")
Table = Mapping[str, Any]
"""A table of the configuration."""

NODE_CORES = 0.3
"""Nodes are small, so that other processes on the machine do not affect them."""
NODE_MEMORY_BYTES = 192 << 20
_LISTENING = re.compile(r"listening on (http://[\d.:]+)")
_START_SECONDS = 60.0
_REQUEST_TIMEOUT_SECONDS = 120.0
"""Timeout of requests: a request for an action is answered after the action."""
GLOBAL_SERVICE = "everywhere"
_NO_CHANGES: Mapping[str, object] = MappingProxyType({})


class Process:
    """`wattpack ...` with its output in a file, so that no pipe fills up."""

    def __init__(self, log: Path, *arguments: str, prefix: Sequence[str] = ()) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "wattpack", *arguments],
                cwd=Path(__file__).parents[2],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it with a signal."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """Suspend it, so that it stops reporting."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume it."""
        self._process.send_signal(signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Collector:
    """A running collector."""

    url: str
    process: Process
    token: str = ""
    """Needed if agents have their own network."""

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Send a GET request, and return the response."""
        request = urllib.request.Request(self.url + path, headers=self._headers())  # noqa: S310 - our own
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - our own
            return json.load(response)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Send a POST request, and return the response."""
        request = urllib.request.Request(  # noqa: S310 - loopback, our own
            self.url + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **self._headers()},
        )
        with urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_SECONDS) as response:  # noqa: S310 - loopback, our own
            return json.load(response)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def decisions(self, **query: str) -> list[dict[str, Any]]:
        """Return its decisions, the latest first."""
        parameters = "&".join(f"{key}={value}" for key, value in query.items())
        found: list[dict[str, Any]] = self.get(f"/v1/decisions?{parameters}")["decisions"]
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """Return the open bottlenecks that nodes report, without those that the collector finds."""
        found: list[dict[str, Any]] = self.get("/v1/alerts?state=open&kind=node")["alerts"]
        return found


@dataclass(slots=True)
class Cluster:
    """A Swarm and its agents."""

    swarm: Swarm
    folder: Path
    stack: ExitStack
    settings: Mapping[str, Table]
    agents: dict[str, Process] = field(default_factory=dict)
    _collectors: int = 0
    _port: int = 0

    def collector(self, tables: Mapping[str, Table] | None = None, name: str = "collector") -> Collector:
        """Start a collector; `tables` override the cluster's settings. A name has one history."""
        merged: dict[str, Any] = {key: dict(value) for key, value in self.settings.items()}
        for key, value in (tables or {}).items():
            merged[key] = {**merged.get(key, {}), **value}
        token = ""
        merged["http"] = {"listen": f"127.0.0.1:{self._port}"}
        merged["access"] = {"tokens": ""}
        if self.swarm.link is not None:
            token = self._token(Scope.ADMIN, name)
            merged["http"] = {"listen": f"{self.swarm.address}:{self._port}", "insecure_plaintext": True}
            merged["access"] = {"tokens": str(self._tokens)}
        merged["history"] = {**merged.get("history", {}), "path": str(self.folder / f"{name}.db")}
        merged["control"] = {"lease_file": str(self.folder / "lease.db"), **merged.get("control", {})}
        self._collectors += 1
        config = self.folder / f"{name}-{self._collectors}.toml"
        config.write_text(_toml(merged), encoding="utf-8")
        log = self.folder / f"{name}-{self._collectors}.log"
        process = Process(log, "collector", "--config", str(config))
        self.stack.callback(process.end)

        def read_url() -> str | None:
            found = _LISTENING.search(log.read_text(encoding="utf-8", errors="replace"))
            return found[1] if found else None

        url = eventually(read_url, _START_SECONDS)
        assert url is not None
        started = Collector(url, process, token)
        self._port = self._port or int(url.rsplit(":", 1)[1])
        return started

    def watch(self, collector: Collector, settings: Mapping[str, object] = _NO_CHANGES) -> None:
        """Start an agent on every node, and wait until the collector lists all nodes."""
        for node in self.swarm.nodes:
            options = {
                "node": node.name,
                "http.listen": "127.0.0.1:0",
                "host.cgroup": f"/{node.engine.cgroup_parent}",
                "docker.socket": node.engine.socket,
                "collector.url": collector.url,
                "storage.directory": self.folder / f"{node.name}-agent-{self._collectors}",
                "sampling.interval_seconds": 2,
                **settings,
            }
            prefix: Sequence[str] = ()
            if self.swarm.link is not None:
                prefix = Host(node.address, node.namespace).command()
                token_file = self.folder / f"{node.name}-{self._collectors}.token"
                token_file.touch(mode=0o600)
                token_file.write_text(self._token(Scope.NODE, node.name), encoding="ascii")
                options["collector.token_file"] = token_file
            sets = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
            log = self.folder / f"agent-{node.name}-{self._collectors}.log"
            agent = Process(log, "agent", *sets, prefix=prefix)
            self.stack.callback(agent.end)
            self.agents[node.name] = agent
        names = {node.name for node in self.swarm.nodes}
        eventually(
            lambda: names <= {node["name"] for node in collector.get("/v1/nodes")["nodes"]}, _START_SECONDS
        )

    @property
    def _tokens(self) -> Path:
        return self.folder / "tokens.jsonl"

    def _token(self, kind: Scope, name: str) -> str:
        """Create a token, and return its secret."""
        token, secret = make_token(kind, name, time.time())
        with edit_tokens(self._tokens) as tokens:
            tokens.append(token)
        return secret

    def second(self, first: Collector) -> Collector:
        """Start another collector with its own history and its own agents."""
        port, self._port = self._port, 0
        other = self.collector(name="second")
        self._port = port
        self.watch(other)
        assert other.url != first.url
        return other

    # --- Services -----------------------------------------------------------------------------------

    def service(
        self, name: str, *command: str, on: str, extra: Sequence[str] = (), replicas: int = 1
    ) -> None:
        """Start a movable service on one node, without a constraint that would keep it there.

        The other nodes are paused meanwhile, because a placement preference would not be binding.
        """
        others = [node.name for node in self.swarm.nodes if node.name != on]
        for other in others:
            self.swarm.manager.docker("node", "update", "--availability=pause", other)
        try:
            self.swarm.create_service(
                name, *command, replicas=replicas, labels={"wattpack.move": "allowed"}, extra=extra
            )
            self.swarm.wait_until_runs(name, on=on, replicas=replicas)
        finally:
            for other in others:
                self.swarm.manager.docker("node", "update", "--availability=active", other)

    def running(self, service: str) -> list[Task]:
        """Return the tasks of a service that run and should run."""
        return [
            task
            for task in self.swarm.tasks(service)
            if task.state == "running" and task.desired_state == "running"
        ]

    def places(self, service: str) -> list[str]:
        """Return the nodes on which a service runs."""
        return sorted(task.node or "" for task in self.running(service))

    def remove(self, *services: str) -> None:
        """Remove services."""
        for service in services:
            self.swarm.remove_service(service)

    def logs(self) -> str:
        """Return the last output of all processes, to explain a failure."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(encoding='utf-8', errors='replace')[-3000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )


def until(check: Callable[[], Outcome], seconds: float) -> tuple[Outcome | None, float]:
    """Poll until a result is true; return it, or None after the timeout, and the elapsed seconds."""
    began = time.monotonic()
    try:
        return eventually(check, seconds, every_seconds=0.25), time.monotonic() - began
    except TimeoutError:
        return None, time.monotonic() - began


@contextmanager
def cluster(
    *,
    cores: float = NODE_CORES,
    memory_bytes: int = NODE_MEMORY_BYTES,
    round_trips: Matrix | None = None,
    nodes: Swarm | None = None,
    **settings: Table,
) -> Iterator[Cluster]:
    """Run three nodes of equal size, or one per row of `round_trips`; or use nodes that run, and clear them.

    The scenario starts the collector and the agents.
    """
    with (
        _cleared(nodes) if nodes else swarm(nodes=3, round_trips=round_trips) as running,
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as stack,
    ):
        for node in running.nodes:
            running.limit(node, cpus=cores, memory_bytes=memory_bytes)
        _run_everywhere(running)
        yield Cluster(running, Path(folder), stack, _defaults(running) | settings)


@contextmanager
def _cleared(nodes: Swarm) -> Iterator[Swarm]:
    """Lend nodes to a scenario: without services before and after it."""
    nodes.clear()
    try:
        yield nodes
    finally:
        nodes.clear()


def _run_everywhere(nodes: Swarm) -> None:
    """Run a global service; the cgroup that an agent treats as its host exists only with a container."""
    options = (
        "--detach",
        "--mode=global",
        "--network=host",
        "--no-resolve-image",
        f"--name={GLOBAL_SERVICE}",
    )
    nodes.manager.docker(
        *("service", "create", *options, "--stop-grace-period=1s"),
        # Without these limits, an agent would take those of the node for the container's.
        *("--limit-cpu=0.01", "--limit-memory=8m", image.NAME, "sleep", "100000"),
    )
    running = partial(_count_running, nodes)
    eventually(lambda: running() == len(nodes.nodes), _START_SECONDS)


def _count_running(nodes: Swarm) -> int:
    return sum(task.state == "running" for task in nodes.tasks(GLOBAL_SERVICE))


def _defaults(nodes: Swarm) -> dict[str, Any]:
    """Settings of a user, with shorter times."""
    return {
        "driver": {
            "name": "swarm",
            "managers": f"unix://{nodes.manager.socket}",
            "engines": {node.name: f"unix://{node.engine.socket}" for node in nodes.nodes},
            "stable_seconds": 1,
            "healthy_seconds": 20,
        },
        "control": {"check_seconds": 0.7, "verify_seconds": 30},
        "policies": {"draps": {"cool_down_seconds": 5}},
    }


def _toml(tables: Mapping[str, Any], path: str = "") -> str:
    lines = []
    for key, value in tables.items():
        if not isinstance(value, Mapping):
            lines.append(f"{json.dumps(key)} = {json.dumps(value)}")
    for key, value in tables.items():
        if isinstance(value, Mapping):
            inner = f"{path}{'.' if path else ''}{json.dumps(key)}"
            lines += [f"[{inner}]", _toml(value, inner)]
    return "\n".join(lines)
