"""Our agent and collector as real processes; their addresses come from their output."""

import json
import re
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.waiting import eventually
from tests.processes import wattpack

_URL = re.compile(r"(http://[\d.:]+)")


@dataclass(frozen=True, slots=True)
class Suite:
    """A collector, and an agent that reports to it."""

    collector_url: str
    agent_url: str

    def get(self, path: str) -> Any:
        """Send a GET request to the collector, and return the response."""
        return json.loads(fetch(self.collector_url + path))

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return the containers that the collector lists, by name."""
        return {each["name"]: each for each in self.get("/v1/containers")["containers"]}

    def samples(self) -> int:
        """Return the number of samples that the agent has taken."""
        counted = re.search(r"^wattpack_agent_samples_total (\S+)", self.agent_metrics(), re.MULTILINE)
        assert counted is not None
        return int(float(counted[1]))

    def await_sample(self) -> None:
        """Wait until the agent has taken another sample."""
        taken = self.samples()
        eventually(lambda: self.samples() > taken, 30)

    def cpu_counters(self) -> tuple[float, dict[str, float]]:
        """Return the time of the agent's last sample, and the CPU time of each container by name."""
        scraped = self.agent_metrics()
        sampled_at = re.search(r"^wattpack_agent_sample_timestamp_seconds (\S+)", scraped, re.MULTILINE)
        assert sampled_at is not None
        counters = re.findall(
            r'^wattpack_container_cpu_seconds_total{.*name="([^"]+)"[^}]*} (\S+)', scraped, re.MULTILINE
        )
        return float(sampled_at[1]), {name: float(seconds) for name, seconds in counters}

    def agent_metrics(self) -> str:
        return fetch(self.agent_url + "/metrics")


@contextmanager
def suite(
    docker_socket: Path, folder: Path, period_seconds: float = 3.0, settings: Sequence[str] = ()
) -> Iterator[Suite]:
    """Start both, the agent with more settings as KEY=VALUE, and wait until the collector lists the node."""
    collector = wattpack(
        "collector", "--set", "http.listen=127.0.0.1:0", "--set", f"history.path={folder / 'collector.db'}"
    )
    with collector.running() as collecting:
        collector_url = _read_url(collecting.stdout)
        agent = wattpack(
            "agent",
            *("--set", "http.listen=127.0.0.1:0"),
            *("--set", f"sampling.interval_seconds={period_seconds}"),
            *("--set", f"docker.socket={docker_socket}"),
            *("--set", f"collector.url={collector_url}"),
            *("--set", f"storage.directory={folder}"),
            *(part for setting in settings for part in ("--set", setting)),
        )
        with agent.running() as sampling:
            started = Suite(collector_url, _read_url(sampling.stdout))
            eventually(lambda: started.get("/v1/nodes")["nodes"], 30)
            yield started


def fetch(url: str) -> str:
    """Return the body of a response of one of our servers."""
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - loopback, our own
        body: bytes = response.read()
    return body.decode()


def _read_url(output: Any) -> str:
    lines = []
    for line in output:
        lines.append(line)
        if ("listening on" in line or "metrics at" in line) and (found := _URL.search(line)):
            return found[1]
    raise AssertionError("it ended before it served: " + "".join(lines))
