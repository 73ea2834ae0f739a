"""Our own agent and collector as real processes, found by what they say of themselves."""

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

_ANSWERING = re.compile(r"(http://[\d.:]+)")


@dataclass(frozen=True, slots=True)
class Suite:
    """A collector, and an agent that reports to it."""

    collector_url: str
    agent_url: str

    def get(self, path: str) -> Any:
        """What the collector answers."""
        return json.loads(fetch(self.collector_url + path))

    def containers(self) -> dict[str, dict[str, Any]]:
        """All that the collector lists, by name."""
        return {each["name"]: each for each in self.get("/v1/containers")["containers"]}

    def samples(self) -> int:
        """How many samples the agent has taken."""
        counted = re.search(r"^wattpack_agent_samples_total (\S+)", self.agent_metrics(), re.MULTILINE)
        assert counted is not None
        return int(float(counted[1]))

    def await_sample(self) -> None:
        """Wait until the agent has taken another."""
        taken = self.samples()
        eventually(lambda: self.samples() > taken, 30)

    def cpu_counters(self) -> tuple[float, dict[str, float]]:
        """When the agent took its last sample, and the CPU time of each container by then, by name."""
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
    """Start both, the agent with more settings as KEY=VALUE; ready when the collector knows the node."""
    collector = wattpack(
        "collector", "--set", "http.listen=127.0.0.1:0", "--set", f"history.path={folder / 'collector.db'}"
    )
    with collector.running() as collecting:
        collector_url = _announced(collecting.stdout)
        agent = wattpack(
            "agent",
            *("--set", "http.listen=127.0.0.1:0"),
            *("--set", f"sampling.interval_seconds={period_seconds}"),
            *("--set", f"docker.socket={docker_socket}"),
            *("--set", f"collector.url={collector_url}"),
            *("--set", f"spool.path={folder / 'spool.db'}"),
            *(part for setting in settings for part in ("--set", setting)),
        )
        with agent.running() as sampling:
            started = Suite(collector_url, _announced(sampling.stdout))
            eventually(lambda: started.get("/v1/nodes")["nodes"], 30)
            yield started


def fetch(url: str) -> str:
    """The body of an answer from a server of ours."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback, our own
        body: bytes = answer.read()
    return body.decode()


def _announced(output: Any) -> str:
    lines = []
    for line in output:
        lines.append(line)
        if ("listening on" in line or "metrics at" in line) and (found := _ANSWERING.search(line)):
            return found[1]
    raise AssertionError("it ended before it served: " + "".join(lines))
