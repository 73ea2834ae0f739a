"""Monitors of containers: our agent and its peers, all started in the same way."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.common.requirements import Need, program
from tests.lab.engines.docker import Engine
from tests.lab.hosts.trees import cached
from tests.lab.parts import find_program
from tests.lab.reaper import Reaper
from tests.lab.serving import serving

SAMPLING_SECONDS = 3

_LOCK = Path(__file__).parents[2] / "locks" / "peers.txt"


@dataclass(frozen=True, slots=True)
class Monitor:
    """A running monitor."""

    pid: int
    scrape: Callable[[], str] = str


Start = Callable[[Engine], AbstractContextManager[Monitor]]


@contextmanager
def agent(engine: Engine) -> Iterator[Monitor]:
    """Run our agent, which pushes to a collector and is scraped."""
    with Reaper() as reaper:
        root = reaper.make_directory("bench")
        collector_config = f"""
            http.listen = "127.0.0.1:0"
            history.path = "{root / "collector.db"}"
        """
        with serving(
            reaper, _command(root, "collector", collector_config), root / "collector.log", "/healthz"
        ) as collector:
            agent_config = f"""
                sampling.interval_seconds = {SAMPLING_SECONDS}
                http.listen = "127.0.0.1:0"
                docker.socket = "{engine.socket}"
                collector.url = "{collector.url}"
                storage.directory = "{root}"
            """
            with serving(
                reaper, _command(root, "agent", agent_config), root / "agent.log", "/healthz"
            ) as ours:
                yield Monitor(ours.pid, lambda: ours.request("GET", "/metrics").decode())


def _command(root: Path, role: str, config: str) -> list[str]:
    file = root / f"{role}.toml"
    file.write_text(config, encoding="utf-8")
    return [sys.executable, "-m", "wattpack", role, "--config", str(file)]


@contextmanager
def glances(engine: Engine) -> Iterator[Monitor]:
    """Run Glances without its screen: it samples containers through the engine and prints text."""
    with Reaper() as reaper:
        root = reaper.make_directory("glances")
        process = reaper.start(
            [
                str(_glances() / "bin" / "python"),
                *("-m", "glances", "--time", str(SAMPLING_SECONDS)),
                *("--stdout", "cpu.total,mem.percent,containers"),
            ],
            log=root / "log",
            env={**os.environ, "DOCKER_HOST": f"unix://{engine.socket}", "HOME": str(root)},
        )
        yield Monitor(process.pid)


def _glances() -> Path:
    """Build a virtual environment for Glances, because its dependencies are not ours."""

    def build(_: Reaper, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-qq",
            "--require-hashes",
            "--no-deps",
        ]
        subprocess.run([*install, "-r", str(_LOCK)], check=True)

    return cached(f"peers-{_LOCK.stat().st_size}", build)


@contextmanager
def netdata(engine: Engine) -> Iterator[Monitor]:
    """Run Netdata, which reads cgroup files as we do; without cloud, alarms and anonymous statistics."""
    path = find_program("netdata")
    assert path is not None  # `PEERS` declares the need
    with Reaper() as reaper:
        root = reaper.make_directory("netdata")
        for folder in ("cache", "lib", "log", "etc"):
            (root / folder).mkdir()
        (root / "etc" / ".opt-out-from-anonymous-statistics").touch()
        config = root / "etc" / "netdata.conf"
        config.write_text(
            f"""
[global]
    run as user = root
[db]
    update every = {SAMPLING_SECONDS}
[directories]
    config = {root}/etc
    cache = {root}/cache
    lib = {root}/lib
    log = {root}/log
[web]
    bind to = 127.0.0.1:19998
[health]
    enabled = no
[ml]
    enabled = no
[plugin:cgroups]
    use unified cgroups = {"no" if Path("/sys/fs/cgroup/memory").exists() else "yes"}
    check for new cgroups every = 6
    enable by default cgroups matching = /{engine.cgroup_parent}/*
    search for cgroups in subpaths matching = /{engine.cgroup_parent} /{engine.cgroup_parent}/*
""",
            encoding="utf-8",
        )
        process = reaper.start(
            [path, "-D", "-c", str(config)],
            log=root / "log" / "all",
            env={**os.environ, "DOCKER_HOST": f"unix://{engine.socket}"},
        )
        yield Monitor(process.pid)


def _why_no_glances() -> str | None:
    """Build the environment of Glances before the benchmark starts."""
    try:
        _glances()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"its environment cannot be built ({error}): see that the package index can be reached"
    return None


@dataclass(frozen=True, slots=True)
class Peer:
    """Another monitor, and its requirement."""

    start: Start
    need: Need


PEERS: dict[str, Peer] = {
    "glances": Peer(glances, Need("glances", _why_no_glances, "glances")),
    "netdata": Peer(netdata, program("netdata", ("netdata-core", "netdata-plugins-bash"), "netdata")),
}
