"""Requests of a cluster's agents, generated in advance, in order.

A few model nodes are simulated and report through the agent's own push logic. The other nodes copy their
reports under their own names and ids. Levels change from time to time, so that there are changes to report.
"""

import gzip
import random
from dataclasses import dataclass

import msgspec

from agent.config import ReportingConfig, SamplingConfig
from agent.reporting.reporter import Reporter
from bench.common.progress import Progress
from bench.common.simulated_node import SimulatedNode, Used
from wire.messages import Report, encode
from wire.resources import Quantities

CONTAINERS = 50
_MODELS = 5
_PLACEHOLDER = "f00dfeed"
"""Replaced in a model's names and ids by the number of a node; hexadecimal, like ids."""
_PLACEHOLDER_SEQUENCE = 5_550_123_450_055
_PHASES = 40
"""Maximum number of reports that a node is ahead of another; covers several heartbeats."""
_CHANGE_RATIO = 0.002
"""Share of containers that change their level at each sample."""
_CAPACITY = Quantities(
    cpu_cores=32.0, memory_bytes=128 << 30, disk_bytes_per_second=5e8, network_bytes_per_second=1.25e9
)


class Request(msgspec.Struct, array_like=True):
    """One HTTP request of one node."""

    node: int
    sequence: int
    body: bytes
    is_compressed: bool


class Plan(msgspec.Struct, array_like=True):
    """All requests for the load generator."""

    joins: list[Request]
    """The first request of every node: a heartbeat with all its containers."""
    follows: list[Request]
    """The requests after that, in order of time."""


@dataclass(slots=True)
class Mix:
    """Number of requests by content."""

    heartbeats: int = 0
    news: int = 0
    beacons: int = 0
    containers: int = 0
    """Container samples in the news."""

    def count(self, report: Report) -> None:
        if report.heartbeat is not None:
            self.heartbeats += 1
        elif report.state is not None or report.containers:
            self.news += 1
            self.containers += len(report.containers)
        else:
            self.beacons += 1


def node_name(number: int) -> str:
    """Name a node by its number."""
    return f"node-{number:08x}"


def make_plan(nodes: int, requests: int, now: float, progress: Progress) -> tuple[Plan, Mix]:
    """Make the joins of all nodes and this many requests after them; the last one is dated now."""
    turns = -(-requests // nodes)
    models = [_reports(f"model-{number}", 1 + _PHASES + turns) for number in range(_MODELS)]
    shift_seconds = now - max(reports[-1].at for reports in models)
    templates = [[_template(report, shift_seconds) for report in reports] for reports in models]
    plan, mix = Plan([], []), Mix()
    with progress.track("making requests", requests) as show:
        for number in range(nodes):
            plan.joins.append(_request(number, 1, templates[number % _MODELS][0]))
        for turn in range(turns):
            for number in range(min(nodes, requests - turn * nodes)):
                model = number % _MODELS
                # Nodes start at different times, so each is at another place in its sequence of reports.
                place = 1 + number // _MODELS % _PHASES + turn
                plan.follows.append(_request(number, turn + 2, templates[model][place]))
                mix.count(models[model][place])
            show(len(plan.follows))
    return plan, mix


def _template(report: Report, shift_seconds: float) -> bytes:
    moved = msgspec.structs.replace(report, at=report.at + shift_seconds, sequence=_PLACEHOLDER_SEQUENCE)
    return encode([moved])


def _request(number: int, sequence: int, template: bytes) -> Request:
    body = template.replace(_PLACEHOLDER.encode(), f"{number:08x}".encode())
    body = body.replace(str(_PLACEHOLDER_SEQUENCE).encode(), str(sequence).encode(), 1)
    compressed = gzip.compress(body, mtime=0)
    is_compressed = len(compressed) < len(body)
    return Request(number, sequence, compressed if is_compressed else body, is_compressed)


def _reports(seed: str, count: int) -> list[Report]:
    """The first `count` reports of a model node."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not a secret
    sample_seconds = SamplingConfig().interval_seconds
    names = [f"shop-service-{number}.{_PLACEHOLDER}" for number in range(CONTAINERS)]
    limits = {
        name: Quantities(cpu_cores=1.0, memory_bytes=1 << 30) if number % 2 else Quantities()
        for number, name in enumerate(names)
    }
    node = SimulatedNode(limits, _CAPACITY, sample_seconds, id_prefix=_PLACEHOLDER)
    reporter = Reporter(f"node-{_PLACEHOLDER}", "1f0e3dad99908345", ReportingConfig(), sample_seconds)
    levels = [_level(rng, number) for number in range(CONTAINERS)]
    reports: list[Report] = []
    tick = 0
    while len(reports) < count:
        tick += 1
        for number in range(CONTAINERS):
            if rng.random() < _CHANGE_RATIO:
                levels[number] = _level(rng, number)
        report = reporter.report(node.sample(tick, levels), (), ())
        if report is not None:
            reports.append(report)
    return reports


def _level(rng: random.Random, number: int) -> Used:
    return (
        rng.lognormvariate(-3.0, 1.5),
        rng.lognormvariate(18.5, 1.2),
        # Few containers write to disk, most use the network.
        rng.lognormvariate(10.0, 1.0) if number % 4 == 0 else 0.0,
        rng.lognormvariate(9.0, 1.0) if number % 4 else 0.0,
    )
