"""Honest nodes for the benchmark of trust: their reports are the same in every run."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp

from wire.messages import (
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Heartbeat,
    NodePower,
    NodeState,
    PowerSource,
    Report,
    encode,
    parse_receipt,
)
from wire.resources import Quantities
from wire.sketch import Sketch

CONTAINERS = 10
SERVICES = 20
ROUND_SECONDS = 2.0
BOOT = "honest"
_BATCH = 50
_RETRY_SECONDS = 0.2
_SAMPLES = 20
JSON = {"Content-Type": "application/json"}


def node_name(number: int) -> str:
    """Name an honest node."""
    return f"honest-{number:04d}"


def watts_of(number: int) -> float:
    """Return the constant power of an honest node."""
    return 100.0 + number % 40


def honest_report(number: int, sequence: int, at: float, seconds: float) -> Report:
    """Make the report of a node `seconds` after its first; its counters depend on nothing else."""
    watts = watts_of(number)
    containers = []
    usage = []
    for place in range(CONTAINERS):
        cores = 0.1 + 0.02 * ((number + place) % SERVICES)
        identity = f"{number:04d}-{place:02d}" + "0" * 56
        containers.append(
            ContainerState(
                id=identity,
                name=f"c-{number}-{place}",
                runtime="docker",
                cpu_seconds_total=round(cores * seconds, 3),
                used=Quantities(cores, (100 + place) << 20, 1000.0, 1000.0),
                window_seconds=ROUND_SECONDS,
                power=ContainerPower(4.0, PowerSource.MODEL, 0.1, round(4.0 * seconds, 2), 0.0),
                service=f"service-{(number + place) % SERVICES}",
                image="example/app:1",
            )
        )
        usage.append(ContainerUsage(identity, cpu=_sketch(cores), memory=_sketch(float((100 + place) << 20))))
    used = sum(each.used.cpu_cores or 0.0 for each in containers) + 0.01 * (number % 50)
    return Report(
        node=node_name(number),
        boot=BOOT,
        sequence=sequence,
        at=at,
        state=NodeState(
            used=Quantities(round(used, 4), 2 << 30, 1e5, 1e5),
            capacity=Quantities(16.0, 64 << 30, 5e8, 1.25e9),
            window_seconds=ROUND_SECONDS,
            power=NodePower(
                watts=watts,
                idle_watts=40.0,
                system_watts=round(watts - 40.0 - 4.0 * CONTAINERS, 2),
                source=PowerSource.MODEL,
                error_ratio=0.1,
                joules_total=round(watts * seconds, 2),
            ),
        ),
        containers=tuple(containers),
        heartbeat=Heartbeat(
            agent_version="0.1.0", sample_seconds=1.0, beacon_seconds=ROUND_SECONDS * 5, usage=tuple(usage)
        ),
    )


def _sketch(value: float) -> Sketch:
    sketch = Sketch()
    for number in range(_SAMPLES):
        sketch.add(value * (0.9 + 0.01 * number))
    return sketch


@dataclass(slots=True)
class HonestNode:
    """A node that sends its reports in order, and keeps each until it is acknowledged."""

    number: int
    secret: str
    pending: list[Report] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    is_cut_off: bool = False

    async def flush(self, http: aiohttp.ClientSession, url: str, *, tries: int = 25) -> None:
        """Send pending reports; retry failures later."""
        while self.pending and tries and not self.is_cut_off:
            batch = self.pending[:_BATCH]
            headers = {**JSON, "Authorization": f"Bearer {self.secret}"}
            try:
                async with http.post(f"{url}/v1/reports", data=encode(batch), headers=headers) as response:
                    body = await response.read()
            except (aiohttp.ClientError, OSError, TimeoutError):
                self.outcomes["unreachable"] += 1
                tries -= 1
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if response.status == HTTPStatus.OK:
                receipt = parse_receipt(body)
                self.outcomes["rejected"] += receipt.rejected
                self.acknowledged |= {report.sequence for report in batch}
                del self.pending[: len(batch)]
                continue
            is_delay = response.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
            self.outcomes["delayed" if is_delay else f"refused {response.status}"] += 1
            tries -= 1
            await asyncio.sleep(_RETRY_SECONDS)

    @property
    def refused(self) -> int:
        """Number of responses that reject a request, without those that delay it."""
        return sum(count for outcome, count in self.outcomes.items() if outcome.startswith("refused"))


async def report_rounds(
    nodes: list[HonestNode], http: aiohttp.ClientSession, url: str, began_at: float, rounds: int
) -> None:
    """Let all nodes report, one round after another, at a fixed rate."""
    began = time.monotonic()
    for round_number in range(rounds):
        seconds = ROUND_SECONDS * round_number
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        for node in nodes:
            node.pending.append(honest_report(node.number, round_number + 1, began_at + seconds, seconds))
        await asyncio.gather(*(node.flush(http, url) for node in nodes))
