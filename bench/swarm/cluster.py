"""Nodes, an agent on each, and collectors that act on them: all real, as processes.

With round-trip times between the nodes, agents run in the network of their node, and reach the collector with
tokens, as on machines of their own.
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

from collector.web.scopes import Scope
from collector.web.token_file import edit_tokens
from collector.web.tokens import make_token
from tests.lab.engines import image
from tests.lab.engines.swarm import Swarm, Task, swarm
from tests.lab.hosts.link import Host, Matrix
from tests.lab.waiting import eventually

Seen = TypeVar("Seen")
Table = Mapping[str, Any]
"""A table of the configuration."""

NODE_CORES = 0.3
"""Small nodes leave the machine to others, and whatever they do on it is not seen as these nodes'."""
NODE_MEMORY_BYTES = 192 << 20
_ANSWERING = re.compile(r"listening on (http://[\d.:]+)")
_START_SECONDS = 60.0
_ACTED_SECONDS = 120.0
"""What is asked to be done is answered when it is done."""
EVERYWHERE = "everywhere"
_AS_THEY_ARE: Mapping[str, object] = MappingProxyType({})


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
        """Ask it to stop, or kill it."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """Stop its reports."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector that runs."""

    url: str
    process: Process
    token: str = ""
    """Needed where other machines could reach it."""

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """What it answers."""
        request = urllib.request.Request(self.url + path, headers=self._headers())  # noqa: S310 - our own
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own
            return json.load(answer)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """What it answers to a question."""
        request = urllib.request.Request(  # noqa: S310 - loopback, our own
            self.url + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **self._headers()},
        )
        with urllib.request.urlopen(request, timeout=_ACTED_SECONDS) as answer:  # noqa: S310 - loopback, our own
            return json.load(answer)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def decisions(self, **query: str) -> list[dict[str, Any]]:
        """Its record, the latest first."""
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        found: list[dict[str, Any]] = self.get(f"/v1/decisions?{asked}")["decisions"]
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """The bottlenecks that nodes report now; the collector finds others after a time of its own."""
        found: list[dict[str, Any]] = self.get("/v1/alerts?state=open&kind=node")["alerts"]
        return found


@dataclass(slots=True)
class Cluster:
    """The nodes, and what watches them."""

    swarm: Swarm
    folder: Path
    stack: ExitStack
    settings: Mapping[str, Table]
    agents: dict[str, Process] = field(default_factory=dict)
    _collectors: int = 0
    _port: int = 0

    def collector(self, tables: Mapping[str, Table] | None = None, name: str = "collector") -> Collector:
        """Start a collector; `tables` go over the cluster's settings. The same name is the same history."""
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

        def announced() -> str | None:
            found = _ANSWERING.search(log.read_text(encoding="utf-8", errors="replace"))
            return found[1] if found else None

        url = eventually(announced, _START_SECONDS)
        assert url is not None
        started = Collector(url, process, token)
        self._port = self._port or int(url.rsplit(":", 1)[1])
        return started

    def watch(self, collector: Collector, settings: Mapping[str, object] = _AS_THEY_ARE) -> None:
        """Start an agent on every node that reports to a collector, and wait until it knows them all."""
        for node in self.swarm.nodes:
            options = {
                "node": node.name,
                "http.listen": "127.0.0.1:0",
                "host.cgroup": f"/{node.engine.cgroup_parent}",
                "docker.socket": node.engine.socket,
                "collector.url": collector.url,
                "spool.path": self.folder / f"{node.name}-spool-{self._collectors}.db",
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
        """The secret of a new token."""
        token, secret = make_token(kind, name, time.time())
        with edit_tokens(self._tokens) as tokens:
            tokens.append(token)
        return secret

    def second(self, first: Collector) -> Collector:
        """Another collector, with a history of its own, with agents of its own."""
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
        """Start a service that may be moved, first on one node; what held it there is let go again.

        Of the two ways to say where a service starts, a preference is none that it could be held to; so the
        other nodes are closed for a moment.
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
        """Tasks of a service that run and are wanted."""
        return [
            task
            for task in self.swarm.tasks(service)
            if task.state == "running" and task.desired_state == "running"
        ]

    def places(self, service: str) -> list[str]:
        """Where a service runs."""
        return sorted(task.node or "" for task in self.running(service))

    def remove(self, *services: str) -> None:
        """Forget services."""
        for service in services:
            self.swarm.remove_service(service)

    def logs(self) -> str:
        """The last output of all processes, to explain a failure."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(encoding='utf-8', errors='replace')[-3000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )


def until(check: Callable[[], Seen], seconds: float) -> tuple[Seen | None, float]:
    """Poll until a result is true; return it, or None after the time limit, and how long that took."""
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
    **settings: Table,
) -> Iterator[Cluster]:
    """Three nodes of equal size, or one per row of `round_trips`.

    A collector and the agents are started by the scenario.
    """
    with (
        swarm(nodes=3, round_trips=round_trips) as nodes,
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as stack,
    ):
        for node in nodes.nodes:
            nodes.limit(node, cpus=cores, memory_bytes=memory_bytes)
        _run_everywhere(nodes)
        yield Cluster(nodes, Path(folder), stack, _defaults(nodes) | settings)


def _run_everywhere(nodes: Swarm) -> None:
    """A service on every node, as clusters have them; an agent's host is there once a container is."""
    options = ("--detach", "--mode=global", "--network=host", "--no-resolve-image", f"--name={EVERYWHERE}")
    nodes.manager.docker(
        *("service", "create", *options, "--stop-grace-period=1s"),
        # Without limits of its own, an agent sees those of the node as the container's.
        *("--limit-cpu=0.01", "--limit-memory=8m", image.NAME, "sleep", "100000"),
    )
    running = partial(_count_running, nodes)
    eventually(lambda: running() == len(nodes.nodes), _START_SECONDS)


def _count_running(nodes: Swarm) -> int:
    return sum(task.state == "running" for task in nodes.tasks(EVERYWHERE))


def _defaults(nodes: Swarm) -> dict[str, Any]:
    """As a user would set it, with shorter times."""
    return {
        "driver": {
            "name": "swarm",
            "managers": f"unix://{nodes.manager.socket}",
            "engines": {node.name: f"unix://{node.engine.socket}" for node in nodes.nodes},
            "stable_seconds": 1,
            "healthy_seconds": 20,
            "power_grace_seconds": 0.1,
        },
        "control": {"check_seconds": 1, "refresh_seconds": 2, "verify_seconds": 30},
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
