"""A real Docker engine that is isolated from others: its own files, sockets, mounts and control groups.

    with docker_engine() as engine:
        web = engine.run("web", "sleep", "1000", memory="64m")
        engine.cgroup(web, "memory")

containerd and dockerd run in their own mount namespace and control group. That makes the teardown reliable
and quick: killing the group ends daemons, shims and containers, and all mounts end with the last of them.
"""

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.lab import guardian
from tests.lab.engines import cgroups, image
from tests.lab.parts import find_program, require
from tests.lab.reaper import Reaper
from tests.lab.waiting import eventually

_START_SECONDS: Final = 60.0
_CLIENT_SECONDS: Final = 120.0

_JOIN: Final = 'set -e; echo 0 >"$1"; shift; exec "$@"'
_SETTLE: Final = """
set -e
# Private, because these paths cannot be chosen: the shims' sockets and the engine's identity.
mount -t tmpfs "$1" /run
mount -t tmpfs "$1" /etc/docker
[ -z "$2" ] || hostname "$2"
shift 2
exec "$@"
"""


class EngineError(Exception):
    """The engine rejected a command; the text is its message."""


class NotFoundError(EngineError):
    """What was asked for is not there."""


class Engine:
    """One engine and its command line. Containers run the lab's image by default."""

    def __init__(
        self, reaper: Reaper, *, hostname: str = "", netns: str = "", live_restore: bool = True
    ) -> None:
        self._reaper = reaper
        self._hostname = hostname
        self._netns = netns
        self._live_restore = live_restore
        self.root = reaper.make_directory("docker")
        self.cgroup_parent = self.root.name
        self.socket = self.root / "docker.sock"
        self.log = self.root / "log"
        (self.root / "daemon.json").write_text("{}", encoding="ascii")
        # The daemons end first, so that no container starts while containers end.
        reaper.will_rmdir_cgroup(self.cgroup_parent)
        reaper.will_rmdir_cgroup(self._daemon_group)
        self._tracker = cgroups.tracking_root() / self._daemon_group
        self._tracker.mkdir()

    @property
    def _daemon_group(self) -> str:
        return f"{self.cgroup_parent}-daemon"

    # --- The daemons ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the engine, wait until it responds, and import the lab's image."""
        self._containerd = self._start_containerd()
        self.start_daemon()
        self.docker("import", "-", image.NAME, input=image.archive())

    def _start_containerd(self) -> subprocess.Popen[bytes]:
        address = self.root / "containerd.sock"
        config = self.root / "containerd.toml"
        config.write_text(
            f"""
            version = 2
            root = "{self.root}/containerd"
            state = "{self.root}/containerd-state"
            disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
            [grpc]
            address = "{address}"
            """,
            encoding="utf-8",
        )
        namespaces = ["unshare", "--mount", "--propagation=slave", "--uts"]
        if self._netns:
            # Not `ip netns exec`, which mounts /sys again and so hides the control groups.
            namespaces = ["nsenter", f"--net={self._netns}", *namespaces]
        process = self._start(
            *namespaces,
            *("sh", "-c", _JOIN, "sh", str(self._tracker / "cgroup.procs")),
            *("sh", "-c", _SETTLE, "sh", self.root.name, self._hostname),
            *("containerd", "--config", str(config)),
        )
        self._await(process, address.exists)
        return process

    def start_daemon(self) -> None:
        """Start dockerd next to containerd, and wait until it responds."""
        command = [
            *("nsenter", f"--target={self._containerd.pid}", "--mount", "--net", "--uts"),
            *("sh", "-c", _JOIN, "sh", str(self._tracker / "cgroup.procs"), "dockerd"),
            f"--config-file={self.root / 'daemon.json'}",
            f"--containerd={self.root / 'containerd.sock'}",
            f"--host=unix://{self.socket}",
            f"--pidfile={self.root / 'docker.pid'}",
            f"--data-root={self.root / 'data'}",
            f"--exec-root={self.root / 'exec'}",
            f"--cgroup-parent=/{self.cgroup_parent}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            "--storage-driver=vfs",
            "--iptables=false",
            "--ip6tables=false",
            "--bridge=none",
        ]
        if self._live_restore:
            command.append("--live-restore")
        self._dockerd = self._start(*command)
        self._await(self._dockerd, lambda: self._request("/_ping") == b"OK")

    def stop_daemon(self) -> None:
        """Stop dockerd as for an upgrade: without a swarm, containers keep running."""
        self._dockerd.terminate()
        self._dockerd.wait(_CLIENT_SECONDS)

    def restart(self) -> None:
        """Stop dockerd and start it again under the running containers."""
        self.stop_daemon()
        self.start_daemon()

    def kill(self) -> None:
        """Kill daemons and containers at once, as in a power failure."""
        guardian.rmdir_cgroup(name=self._daemon_group)
        guardian.rmdir_cgroup(name=self.cgroup_parent)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        # No grace period: everything that it would clean up is removed anyway.
        return self._reaper.start(command, log=self.log, grace_seconds=0)

    def _await(self, process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
        def ready_or_ended() -> bool:
            return process.poll() is not None or ready()

        eventually(ready_or_ended, _START_SECONDS)
        if process.returncode is not None:
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise EngineError(f"{process.args!r} ended with {process.returncode}: {tail}")

    # --- Commands ---------------------------------------------------------------------------

    def docker(self, *arguments: str, input: bytes | None = None) -> str:  # noqa: A002 - as in subprocess.run
        """Run the docker client with this engine, and return its output."""
        done = subprocess.run(
            [_client(), *arguments],
            check=False,
            capture_output=True,
            input=input,
            timeout=_CLIENT_SECONDS,
            # Without the user's own settings: contexts, credentials, the address of another engine.
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self.root),
                "DOCKER_HOST": f"unix://{self.socket}",
            },
        )
        if done.returncode != 0:
            raise EngineError(f"docker {' '.join(arguments)}: {done.stderr.decode().strip()}")
        return done.stdout.decode().strip()

    def run(
        self,
        name: str,
        *command: str,
        cpus: float | None = None,
        memory: str | None = None,
        labels: Mapping[str, str] | None = None,
        extra: Sequence[str] = (),
    ) -> str:
        """Run a container in the background, without a network unless `extra` says so; return its id."""
        options = ["--detach", f"--name={name}"]
        if not any(option.startswith("--net") for option in extra):
            options.append("--network=none")
        if cpus is not None:
            options.append(f"--cpus={cpus}")
        if memory is not None:
            options.append(f"--memory={memory}")
        options += [f"--label={key}={value}" for key, value in (labels or {}).items()]
        return self.docker("run", *options, *extra, image.NAME, *command)

    def stop(self, name: str) -> None:
        """Stop a container at once; the engine still lists it as stopped."""
        self.docker("stop", "--time=0", name)

    def remove(self, *names: str) -> None:
        """Stop containers at once and remove them."""
        self.docker("rm", "--force", "--volumes", *names)

    def inspect(self, name: str) -> Any:
        """Return the engine's description of a container."""
        return self.get(f"/containers/{name}/json")

    def cgroup(self, container_id: str, controller: str) -> Path:
        """Return the folder of a container in the hierarchy of a controller."""
        return cgroups.root_of(controller) / self.cgroup_parent / container_id

    def cpu_seconds(self, container_id: str) -> float:
        """Return the CPU time of a container, as the engine counts it."""
        stats = self.get(f"/containers/{container_id}/stats?stream=false&one-shot=true")
        return int(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

    def get(self, path: str) -> Any:
        """Send a GET request to the engine's API, and return the response."""
        return json.loads(self._request(path))

    def _request(self, path: str) -> bytes:
        return request(self.socket, path)


def request(socket: Path, path: str) -> bytes:
    """Send a GET request to the engine at a socket, and return the response."""
    connection = _UnixConnection(socket)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        kind = NotFoundError if response.status == http.HTTPStatus.NOT_FOUND else EngineError
        raise kind(f"GET {path}: {response.status} {body.decode(errors='replace').strip()}")
    return body


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_CLIENT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _client() -> str:
    """Prefer the client from the package of the daemon: a much newer one may not support it."""
    daemon, client = find_program("dockerd"), find_program("docker")
    assert daemon is not None
    assert client is not None
    packaged = Path(daemon).parent.parent / "bin" / "docker"
    return str(packaged) if packaged.exists() else client


@contextmanager
def docker_engine() -> Iterator[Engine]:
    """Run an engine while the block runs."""
    require("docker")
    with Reaper() as reaper:
        engine = Engine(reaper)
        engine.start()
        yield engine
