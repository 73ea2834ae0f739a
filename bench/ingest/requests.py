"""Requests of a cluster's agents: generated in advance, in order; or, for a long load, as they are sent.

A few model nodes are simulated and report through the agent's own push logic. The other nodes copy their
reports under their own names and ids. Levels change from time to time, so that there are changes to report.
"""

import gzip
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

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
_PLACEHOLDER_AT = 5_550_123_450.125
_BOOT = "1f0e3dad99908345"
_PROJECT = b'"shop/'
"""Begins the name of a service: a Compose project."""
_BEACON = encode([Report(f"node-{_PLACEHOLDER}", _BOOT, _PLACEHOLDER_SEQUENCE, _PLACEHOLDER_AT)])
_AGENT_COMPRESSION, _FAST_COMPRESSION = 9, 1
"""The fast one takes a tenth of the CPU time, and makes bodies a quarter larger."""
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


class ReportKind(StrEnum):
    """What a report contains."""

    HEARTBEAT = "heartbeat"
    NEWS = "news"
    BEACON = "beacon"

    @classmethod
    def of(cls, report: Report) -> "ReportKind":
        if report.heartbeat is not None:
            return cls.HEARTBEAT
        return cls.NEWS if report.state is not None or report.containers else cls.BEACON


class Template(msgspec.Struct, array_like=True):
    """A report of a model node, with placeholders for name, ids, number and time."""

    body: bytes
    at: float
    """Time of the sample on the simulated node."""
    kind: ReportKind
    containers: int
    """Number of containers whose state is reported."""


class Templates(msgspec.Struct, array_like=True):
    """The reports of all model nodes. The other nodes copy them, each from another place on."""

    nodes: int
    models: list[list[Template]]
    projects: int = 1
    """Number of Compose projects: nodes have the same services if they have the same project."""
    compression: int = _FAST_COMPRESSION
    """Level of gzip."""

    def joins(self, clock: Callable[[], float]) -> Iterator[Request]:
        """Make the first request of every node."""
        for node in range(self.nodes):
            yield self.join(node, clock())

    def follows(self, first: int, clock: Callable[[], float], *, only_beacons: bool) -> Iterator[Request]:
        """Make the requests after that, from a number on, each dated when it is made."""
        for number in count(first):
            turn, node = divmod(number, self.nodes)
            yield (
                self._request(node, turn + 2, _BEACON, clock())
                if only_beacons
                else self.follow(node, turn, clock())
            )

    def join(self, node: int, at: float) -> Request:
        return self._request(node, 1, self.models[node % _MODELS][0].body, at)

    def follow(self, node: int, turn: int, at: float) -> Request:
        return self._request(node, turn + 2, self.template(node, turn).body, at)

    def template(self, node: int, turn: int) -> Template:
        """The report that a node copies in a turn; after the last one, they begin again."""
        model = self.models[node % _MODELS]
        # Nodes start at different times, so each is at another place in its sequence of reports.
        return model[1 + (node // _MODELS % _PHASES + turn) % (len(model) - 1)]

    def _request(self, node: int, sequence: int, template: bytes, at: float) -> Request:
        body = template.replace(_PLACEHOLDER.encode(), f"{node:08x}".encode())
        body = body.replace(str(_PLACEHOLDER_SEQUENCE).encode(), str(sequence).encode(), 1)
        body = body.replace(str(_PLACEHOLDER_AT).encode(), f"{at:.3f}".encode())
        if self.projects > 1:
            body = body.replace(_PROJECT, f'"shop-{node % self.projects}/'.encode())
        compressed = gzip.compress(body, self.compression, mtime=0)
        is_compressed = len(compressed) < len(body)
        return Request(node, sequence, compressed if is_compressed else body, is_compressed)


@dataclass(slots=True)
class Mix:
    """Number of requests by content."""

    heartbeats: int = 0
    news: int = 0
    beacons: int = 0
    containers: int = 0
    """Container samples in the news."""

    def count(self, template: Template) -> None:
        match template.kind:
            case ReportKind.HEARTBEAT:
                self.heartbeats += 1
            case ReportKind.NEWS:
                self.news += 1
                self.containers += template.containers
            case ReportKind.BEACON:
                self.beacons += 1


def node_name(number: int) -> str:
    """Name a node by its number."""
    return f"node-{number:08x}"


def make_plan(nodes: int, requests: int, now: float, progress: Progress) -> tuple[Plan, Mix]:
    """Make the joins of all nodes and this many requests after them; the last one is dated now."""
    turns = -(-requests // nodes)
    templates = make_templates(nodes, turns)
    templates.compression = _AGENT_COMPRESSION
    shift_seconds = now - max(model[-1].at for model in templates.models)
    plan, mix = Plan([], []), Mix()
    with progress.track("making requests", requests) as show:
        for number in range(nodes):
            first = templates.models[number % _MODELS][0]
            plan.joins.append(templates.join(number, first.at + shift_seconds))
        for turn in range(turns):
            for number in range(min(nodes, requests - turn * nodes)):
                template = templates.template(number, turn)
                plan.follows.append(templates.follow(number, turn, template.at + shift_seconds))
                mix.count(template)
            show(len(plan.follows))
    return plan, mix


def make_templates(nodes: int, turns: int, projects: int = 1) -> Templates:
    """Let the model nodes report as often as it takes for this many requests of each node."""
    models = [
        [_template(report) for report in _reports(f"model-{number}", 1 + _PHASES + turns)]
        for number in range(_MODELS)
    ]
    return Templates(nodes, models, projects)


def _template(report: Report) -> Template:
    events = tuple(msgspec.structs.replace(each, at=_PLACEHOLDER_AT) for each in report.events)
    body = encode(
        [msgspec.structs.replace(report, at=_PLACEHOLDER_AT, sequence=_PLACEHOLDER_SEQUENCE, events=events)]
    )
    return Template(body, report.at, ReportKind.of(report), len(report.containers))


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
    reporter = Reporter(f"node-{_PLACEHOLDER}", _BOOT, ReportingConfig(), sample_seconds)
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
