"""One hostile node among honest ones: the results of the honest nodes must be the same as without it.

A real collector runs twice with the same honest nodes: in the first run, the last node is honest too, in the
second it is hostile. The runs are compared by the honest nodes' reports, energy, responses and decisions, and
by the cost of the collector. Then two collectors run for one cluster with a hostile node, and another one is
attacked by hosts that join or were revoked, and by floods. With `--faults`, a day of faults on real processes
runs instead, with a compressed clock.
"""

import argparse
import asyncio
import json
import math
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil

from bench.common.listening import await_url
from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.trust.adversary import HOSTILE, attack
from bench.trust.cluster import ROUND_SECONDS, HonestNode, honest_report, node_name, report_rounds, watts_of
from bench.trust.doors import run_doors
from bench.trust.faults import run_faults
from bench.trust.pair import NODES as PAIR_NODES
from bench.trust.pair import run_pair
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from wire.messages import encode

MOST_NEED_RATIO = 0.05
"""A percentile that moves to the next bin of its histogram changes by 2 %."""
MOST_RSS_RATIO, MOST_LATENCY_RATIO, MOST_RESTART_RATIO, MOST_ENERGY_RATIO = 1.3, 2.0, 1.2, 0.001
_ASK_SECONDS = 0.2
_LATENCY_FLOOR_SECONDS = 0.01
"""Latencies below this are noise of the machine."""
_RESTARTS = 3
_ROLLUP_SECONDS, _POLL_SECONDS = 240.0, 2.0
"""Timeout until reports are in the energy accounts, and time between checks: a pass starts every minute."""
_DIGITS = 6
_REVOKED = "what it reported no longer counts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", type=int, default=100, help="number of honest nodes")
    parser.add_argument("--seconds", type=float, default=300.0, help="duration of each of the two runs")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same attacks")
    parser.add_argument("--faults", action="store_true", help="run a day of faults instead of an adversary")
    parser.add_argument("--hours", type=float, default=24.0, help="simulated hours of faults")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run with and without the hostile node, and compare."""
    if options.faults:
        return asyncio.run(run_faults(options, progress))
    without = asyncio.run(_run(options, progress, hostile=False))
    with_hostile = asyncio.run(_run(options, progress, hostile=True))
    with tempfile.TemporaryDirectory() as name:
        secrets = _make_tokens(Path(name), PAIR_NODES)
        pair = asyncio.run(run_pair(Path(name), secrets, progress, options.seed))
    with tempfile.TemporaryDirectory() as name:
        doors = asyncio.run(run_doors(_collector, Path(name), progress, options.seed))
    return Result(
        settings={"nodes": options.nodes, "seconds": options.seconds, "seed": options.seed},
        figures=(*_figures(options, without, with_hostile), *pair.figures(), *doors.figures()),
    )


@dataclass(slots=True)
class _Outcome:
    refused: int = 0
    delayed: int = 0
    lost: int = 0
    doubled: int = 0
    answers: dict[str, Any] = field(default_factory=dict)
    joules: dict[str, float] = field(default_factory=dict)
    needs: dict[str, float] = field(default_factory=dict)
    services: set[str] = field(default_factory=set)
    needs_after: dict[str, float] = field(default_factory=dict)
    """After the token of the hostile node was revoked, as the next one."""
    services_after: set[str] = field(default_factory=set)
    """Services in the list of services, and in the energy accounts."""
    rss_mb: float = 0.0
    p99_seconds: float = 0.0
    restart_seconds: float = 0.0
    attacks: int = 0
    survived: bool = True


def _figures(options: argparse.Namespace, without: _Outcome, hostile: _Outcome) -> Iterator[Figure]:
    expected = _expected(options)
    errors = [
        abs(hostile.joules.get(node, 0.0) - without.joules.get(node, math.inf)) / max(joules, 1.0)
        for node, joules in expected.items()
    ]
    true_errors = [
        abs(hostile.joules.get(node, 0.0) - joules) / max(joules, 1.0) for node, joules in expected.items()
    ]
    different = sum(
        without.answers.get(request) != response for request, response in hostile.answers.items()
    ) + abs(len(without.answers) - len(hostile.answers))
    latency = max(hostile.p99_seconds, _LATENCY_FLOOR_SECONDS) / max(
        without.p99_seconds, _LATENCY_FLOOR_SECONDS
    )
    yield Figure(name="attacks", value=hostile.attacks, unit="requests", at_least=1)
    yield Figure(name="honest_refused", value=hostile.refused, unit="requests", at_most=0)
    yield Figure(name="honest_delayed", value=hostile.delayed, unit="requests")
    yield Figure(name="honest_lost", value=hostile.lost, unit="reports", at_most=0)
    yield Figure(name="honest_counted_twice", value=hostile.doubled, unit="reports", at_most=0)
    yield Figure(name="answers_compared", value=len(hostile.answers), unit="answers", at_least=options.nodes)
    yield Figure(name="answers_different", value=different, unit="answers", at_most=0)
    changes = [
        abs(hostile.needs.get(service, 0.0) / need - 1) for service, need in without.needs.items() if need
    ]
    # The hostile node reports containers of these services too, and counts as one node of many.
    yield Figure(
        name="service_need_change", value=max(changes, default=0.0), unit="ratio", at_most=MOST_NEED_RATIO
    )
    kept = [abs(hostile.needs_after.get(service, 0.0) / need - 1) for service, need in without.needs.items()]
    yield Figure(
        name="service_need_change_after_revocation", value=max(kept, default=1.0), unit="ratio", at_most=0
    )
    yield Figure(
        name="services_different_after_revocation",
        value=len(hostile.services_after ^ without.services),
        unit="services",
        at_most=0,
    )
    yield Figure(name="energy_difference", value=max(errors), unit="ratio", at_most=MOST_ENERGY_RATIO)
    yield Figure(name="energy_error", value=max(true_errors), unit="ratio", at_most=MOST_ENERGY_RATIO)
    yield Figure(name="rss_without", value=without.rss_mb, unit="MB")
    yield Figure(name="rss", value=hostile.rss_mb, unit="MB")
    yield Figure(
        name="rss_ratio",
        value=hostile.rss_mb / max(1.0, without.rss_mb),
        unit="ratio",
        at_most=MOST_RSS_RATIO,
    )
    yield Figure(name="api_p99_without", value=1000 * without.p99_seconds, unit="ms")
    yield Figure(name="api_p99", value=1000 * hostile.p99_seconds, unit="ms")
    yield Figure(name="api_p99_ratio", value=latency, unit="ratio", at_most=MOST_LATENCY_RATIO)
    yield Figure(name="restart_without", value=without.restart_seconds, unit="s")
    yield Figure(name="restart", value=hostile.restart_seconds, unit="s")
    yield Figure(
        name="restart_ratio",
        value=hostile.restart_seconds / max(0.1, without.restart_seconds),
        unit="ratio",
        at_most=MOST_RESTART_RATIO,
    )
    yield Figure(name="survived", value=float(hostile.survived), unit="flag", at_least=1)


# --- One run --------------------------------------------------------------------------------


async def _run(options: argparse.Namespace, progress: Progress, *, hostile: bool) -> _Outcome:
    outcome = _Outcome()
    rounds = int(options.seconds / ROUND_SECONDS)
    began_at = time.time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        secrets = _make_tokens(folder, options.nodes)
        nodes = [HonestNode(number, secrets[node_name(number)]) for number in range(options.nodes)]
        with _collector(folder) as (process, url):
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as http:
                measuring = asyncio.create_task(
                    _measure_requests(http, url, secrets["reader"], process, outcome)
                )
                if hostile:
                    _, statuses = await asyncio.gather(
                        report_rounds(nodes, http, url, began_at, rounds),
                        attack(url, secrets[HOSTILE], options.seed, options.seconds),
                    )
                    outcome.attacks = sum(statuses.values())
                    progress.say(f"attacks: {statuses}")
                else:
                    await asyncio.gather(
                        report_rounds(nodes, http, url, began_at, rounds),
                        _report_as_hostile(http, url, secrets[HOSTILE], began_at, rounds),
                    )
                measuring.cancel()
                for node in nodes:
                    await node.flush(http, url)
                outcome.refused = sum(node.refused + node.outcomes["rejected"] for node in nodes)
                outcome.delayed = sum(node.outcomes["delayed"] for node in nodes)
                outcome.lost = sum(len(node.pending) for node in nodes)
                outcome.survived = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
                outcome.answers = await _answers(http, url, secrets["reader"], options.nodes)
                outcome.joules = await _energy(http, url, secrets["reader"], began_at, _expected(options))
                outcome.needs = await _needs(http, url, secrets["reader"])
                outcome.services = await _services(http, url, secrets["reader"], began_at)
                if hostile:
                    await asyncio.to_thread(_revoke, folder)
                    outcome.needs_after = await _needs(http, url, secrets["reader"])
                    outcome.services_after = await _services(http, url, secrets["reader"], began_at)
        _count_stored(folder / "history.db", nodes, outcome)
        outcome.restart_seconds = statistics.median(_restart(folder) for _ in range(_RESTARTS))
    progress.say(
        f"{'with' if hostile else 'without'} the adversary: {outcome.restart_seconds:.2f} s to restart"
    )
    return outcome


def _make_tokens(folder: Path, nodes: int) -> dict[str, str]:
    secrets = {}
    with edit_tokens(folder / "tokens.jsonl") as tokens:
        for scope, name in [
            *((Scope.NODE, node_name(number)) for number in range(nodes)),
            (Scope.NODE, HOSTILE),
            (Scope.READ, "reader"),
        ]:
            token, secrets[name] = make_token(scope, name, time.time())
            tokens.append(token)
    return secrets


@contextmanager
def _collector(folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    (folder / "empty.toml").touch()
    command = [sys.executable, "-m", "wattpack", "collector", "--config", str(folder / "empty.toml")]
    for setting in (
        "http.listen=127.0.0.1:0",
        f"access.tokens={folder / 'tokens.jsonl'}",
        f"history.path={folder / 'history.db'}",
    ):
        command += ["--set", setting]
    log = folder / f"log-{time.monotonic_ns()}"
    with log.open("w") as output, subprocess.Popen(command, stderr=output, stdout=output) as process:
        try:
            yield psutil.Process(process.pid), await_url(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _restart(folder: Path) -> float:
    began = time.monotonic()
    with _collector(folder):
        return time.monotonic() - began


async def _report_as_hostile(
    http: aiohttp.ClientSession, url: str, secret: str, began_at: float, rounds: int
) -> None:
    """Report as an honest node under the name of the hostile one."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
    for number in range(0, rounds, 5):
        seconds = ROUND_SECONDS * number
        await asyncio.sleep(max(0.0, began_at + seconds - time.time()))
        report = honest_report(0, number + 1, began_at + seconds, seconds)
        own = [{**json.loads(encode(report)), "node": HOSTILE, "containers": [], "gone": []}]
        own[0]["heartbeat"].pop("usage", None)
        async with http.post(f"{url}/v1/reports", data=json.dumps(own), headers=headers) as response:
            await response.read()


async def _measure_requests(
    http: aiohttp.ClientSession, url: str, secret: str, process: psutil.Process, outcome: _Outcome
) -> None:
    """Send requests as a page and a scheduler do, and measure latency and memory."""
    latencies = []
    try:
        while True:
            began = time.monotonic()
            for path, body in (("/v1/nodes?limit=20", None), ("/v1/hints/placement", {"limit": 5})):
                sent_at = time.monotonic()
                await _request(http, url + path, secret, body)
                latencies.append(time.monotonic() - sent_at)
            outcome.rss_mb = max(outcome.rss_mb, process.memory_info().rss / 1e6)
            await asyncio.sleep(max(0.0, began + _ASK_SECONDS - time.monotonic()))
    finally:
        if len(latencies) > 1:
            outcome.p99_seconds = statistics.quantiles(latencies, n=100)[98]


async def _request(
    http: aiohttp.ClientSession, url: str, secret: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {secret}"}
    method = "GET" if body is None else "POST"
    async with http.request(method, url, headers=headers, json=body) as response:
        found: dict[str, Any] = await response.json() if response.ok else {"status": response.status}
        return found


async def _answers(http: aiohttp.ClientSession, url: str, secret: str, nodes: int) -> dict[str, Any]:
    """Return responses about honest nodes, without times."""
    found: dict[str, Any] = {}
    # One request for all: on a slow machine, nodes would become suspect one after another.
    page = await _request(http, f"{url}/v1/nodes?limit=1000", secret)
    honest = {node_name(number) for number in range(nodes)}
    for node in page.get("nodes", ()):
        if node["name"] not in honest:
            continue
        found[f"node {node['name']}"] = [
            _round(node[key])
            for key in ("state", "complete", "used", "capacity", "power", "containers", "refused")
        ]
    for policy in ("draps", "least-watts"):
        request = {"policy": policy, "limit": 1000, "demand": {"cpu_cores": 0.5, "memory_bytes": 1 << 28}}
        ranking = await _request(http, f"{url}/v1/hints/placement", secret, request)
        names = [each.get("node") for each in ranking.get("nodes", ranking.get("candidates", ()))]
        found[f"placement {policy}"] = [name for name in names if name != HOSTILE]
    alerts = await _request(http, f"{url}/v1/alerts?limit=1000", secret)
    found["alerts"] = sorted(
        str(each.get("subject")) for each in alerts.get("alerts", ()) if HOSTILE not in str(each)
    )
    decisions = await _request(http, f"{url}/v1/decisions?limit=100", secret)
    found["decisions"] = sorted(
        str(step.get("action")) for each in decisions.get("decisions", ()) for step in each.get("steps", ())
    )
    return found


def _round(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _round(each) for key, each in value.items()}
    return [_round(each) for each in value] if isinstance(value, list) else value


async def _needs(http: aiohttp.ClientSession, url: str, secret: str) -> dict[str, float]:
    """Return the CPU cores that one container of each service of the honest nodes needs."""
    page = await _request(http, f"{url}/v1/services?limit=1000", secret)
    return {
        each["name"]: float(each["envelope"]["need"].get("cpu_cores") or 0.0)
        for each in page.get("services", ())
        if each["name"].startswith("service-")
    }


async def _services(http: aiohttp.ClientSession, url: str, secret: str, began_at: float) -> set[str]:
    """Return the services that are listed, and those with energy."""
    page = await _request(http, f"{url}/v1/services?limit=1000", secret)
    period = f"start={began_at - 3600}&end={began_at + 86_400}"
    accounts = await _request(http, f"{url}/v1/energy?by=service&limit=1000&{period}", secret)
    energy = {f"energy of {each['key']}" for each in accounts.get("accounts", ())}
    return energy | {each["name"] for each in page.get("services", ())}


def _revoke(folder: Path) -> None:
    """Revoke the token of the hostile node, and wait until what it reported is taken out."""
    with edit_tokens(folder / "tokens.jsonl") as tokens:
        tokens[:] = [
            msgspec.structs.replace(each, revoked_at=time.time()) if each.name == HOSTILE else each
            for each in tokens
        ]
    until = time.monotonic() + _ROLLUP_SECONDS
    while not any(_REVOKED in log.read_text() for log in folder.glob("log-*")):
        if time.monotonic() > until:
            raise TimeoutError(f"the log does not say: {_REVOKED}")
        time.sleep(_POLL_SECONDS)


def _expected(options: argparse.Namespace) -> dict[str, float]:
    """Return the energy that each honest node reports."""
    seconds = ROUND_SECONDS * (int(options.seconds / ROUND_SECONDS) - 1)
    return {node_name(number): watts_of(number) * seconds for number in range(options.nodes)}


async def _energy(
    http: aiohttp.ClientSession, url: str, secret: str, began_at: float, expected: dict[str, float]
) -> dict[str, float]:
    """Return the energy of each node, when the last honest reports are rolled up or after a timeout."""
    period = f"start={began_at - 3600}&end={began_at + 86_400}"
    until = time.monotonic() + _ROLLUP_SECONDS
    while True:
        found = await _request(http, f"{url}/v1/energy?by=node&limit=1000&{period}", secret)
        joules = {each["key"]: each["joules"] for each in found.get("accounts", ())}
        if time.monotonic() > until or all(
            joules.get(node, 0.0) >= (1 - MOST_ENERGY_RATIO) * each for node, each in expected.items()
        ):
            return joules
        await asyncio.sleep(_POLL_SECONDS)


def _count_stored(path: Path, nodes: list[HonestNode], outcome: _Outcome) -> None:
    """Count acknowledged reports that the history lacks or has twice."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT n.name, r.sequence FROM reports r JOIN boots b ON b.id = r.boot_id"
            " JOIN nodes n ON n.id = b.node_id"
        ).fetchall()
    rows = [row for row in rows if row[0] != HOSTILE]
    stored = set(rows)
    outcome.doubled = len(rows) - len(stored)
    for node in nodes:
        outcome.lost += sum((node_name(node.number), each) not in stored for each in node.acknowledged)
