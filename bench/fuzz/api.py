"""schemathesis on the OpenAPI document of a collector with data.

Every operation except the stream, which never ends, gets valid and invalid requests. A failure is a response
with status 500, with an undocumented status or schema, or that accepts an invalid request.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from collector.config import AccessConfig, CollectorConfig, HistoryConfig, HttpConfig
from collector.main import running
from wire.errors import UserError
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Event,
    EventKind,
    Heartbeat,
    NodePower,
    NodeState,
    PowerCurve,
    PowerSource,
    Report,
    encode,
)
from wire.resources import Quantities, Resource
from wire.sketch import Sketch

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
_CASES = re.compile(r"(\d+) generated")
_FAILURES = re.compile(r"found (\d+) unique failures?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--examples", type=int, default=100, help="random requests per operation")
    parser.add_argument("--seed", type=int, default=0, help="the same seed sends the same requests")


@dataclass(frozen=True, slots=True)
class FuzzOutcome:
    """Outcome of a run."""

    cases: int
    failures: int
    text: str
    """Output of schemathesis, with a command to repeat each failure."""


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Send the requests, and count failures."""
    progress.say("sending requests to every endpoint; this takes minutes")
    outcome = asyncio.run(fuzz(options.examples, options.seed, phases="coverage,fuzzing"))
    if outcome.failures:
        print(outcome.text, file=sys.stderr)
    return Result(
        figures=(
            Figure(name="cases", value=outcome.cases, unit="requests", at_least=1),
            Figure(name="failures", value=outcome.failures, unit="responses", at_most=0),
        ),
        settings={"examples": options.examples, "seed": options.seed, "checks": list(_CHECKS)},
    )


async def fuzz(examples: int, seed: int, phases: str) -> FuzzOutcome:
    """Run schemathesis against a new collector."""
    with tempfile.TemporaryDirectory() as folder:
        config = CollectorConfig(
            http=HttpConfig(listen="127.0.0.1:0"),
            access=AccessConfig(tokens=""),
            history=HistoryConfig(path=str(Path(folder) / "history.db")),
        )
        async with running(config) as collector:
            await _send_reports(collector.address.url)
            return await _run_schemathesis(collector.address.url, examples, seed, phases)


async def _run_schemathesis(url: str, examples: int, seed: int, phases: str) -> FuzzOutcome:
    # Run as a module, because the script may not be on the path.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
        *("--exclude-path", "/v1/stream", "--checks", ",".join(_CHECKS), "--phases", phases),
        *("--max-examples", str(examples), "--seed", str(seed), "--no-color", "--continue-on-failure"),
        *("--generation-database", "none"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return parse_output(output.decode(errors="replace"), process.returncode)


def parse_output(text: str, status: int | None) -> FuzzOutcome:
    """Return what schemathesis printed and its status say. Raise `UserError` if it did not finish."""
    cases = _CASES.search(text)
    if cases is None:
        raise UserError(f"schemathesis failed: {text[-500:]}")
    failures = _FAILURES.search(text)
    count = int(failures[1]) if failures else 0
    return FuzzOutcome(int(cases[1]), max(count, int(bool(status))), text)


async def _send_reports(url: str) -> None:
    """Report two nodes; one of them has every field."""
    now = time.time()
    curve = PowerCurve(
        source=PowerSource.MODEL,
        error_ratio=0.1,
        idle_watts=20.0,
        cpu_ratios=(0.0, 1.0),
        cpu_watts=(0.0, 40.0),
        memory_watts=8.0,
        disk_watts=3.0,
        network_watts=2.0,
    )
    web = ContainerState(
        id="web-1",
        name="web",
        runtime="docker",
        cpu_seconds_total=10.0,
        used=Quantities(0.25, 50_000_000, 1000.0, 2000.0),
        power=ContainerPower(2.5, PowerSource.MODEL, 0.2, 75.0),
        service="shop",
        labels={"tier": "web"},
    )
    state = NodeState(
        used=Quantities(1.0, 2_000_000_000, 3000.0, 4000.0),
        capacity=Quantities(4.0, 8_000_000_000, None, 125_000_000.0),
        power=NodePower(50.0, 30.0, 5.0, PowerSource.MODEL, 0.1, 1500.0),
    )
    heartbeat = Heartbeat(
        agent_version="0",
        sample_seconds=3.0,
        beacon_seconds=3600.0,
        usage=(ContainerUsage("web-1", cpu=Sketch({3: 500}, zeros=2)),),
        power_curve=curve,
    )
    reports = (
        Report(
            node="full",
            boot="one",
            sequence=1,
            at=now,
            state=state,
            containers=(web,),
            heartbeat=heartbeat,
            events=(Event(EventKind.JOINED, now),),
            alerts=(Alert(Resource.CPU, now, "busy", ratio=0.97),),
        ),
        Report(
            node="bare",
            boot="one",
            sequence=1,
            at=now,
            heartbeat=msgspec.structs.replace(heartbeat, usage=()),
        ),
    )
    headers = {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/reports", data=encode(reports), headers=headers) as response,
    ):
        response.raise_for_status()
