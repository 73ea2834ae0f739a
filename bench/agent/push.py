"""Accuracy of the agent's reports of changes: recorded load, through the agent's reporter, into a registry.

Every virtual machine of the Bitbrains trace is a container here, sampled and reported with the agent's
default settings, on simulated time. The trace has one value per five minutes; the samples in between
scatter around it, since constant values would make windows and quantiles trivial.
Then the traffic of fifty steady containers is measured on a socket.
"""

import argparse
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from agent.config import ReportingConfig, SamplingConfig
from agent.reporting.reporter import Reporter
from agent.sampling.node_sample import NodeSample
from bench.agent import traffic
from bench.common.bitbrains import SLOT_SECONDS, WEEK, Machine, read_machines
from bench.common.progress import Progress
from bench.common.requirements import Need, dataset
from bench.common.results import Figure, Result
from bench.common.simulated_node import BEGIN_SECONDS, MEMORY_SCATTER, SCATTER, SimulatedNode, container_id
from collector.config import CollectorConfig
from collector.history.interface import UsageKey
from collector.observe.registry import Registry
from wattpack.datasets.catalogue import add_data_option
from wire.errors import UserError
from wire.messages import Report, encode, parse_batch
from wire.resources import RESOURCES, Quantities

LEAST_SAVED_PERCENT = 80.0
MOST_P90_POINTS = 2.0
MOST_BYTES_PER_MINUTE = 6000.0

_REPORTING = ReportingConfig()
_SAMPLE_SECONDS = SamplingConfig().interval_seconds
_WINDOW_SAMPLES = round(_REPORTING.container_window_seconds / _SAMPLE_SECONDS)
_LONGEST_HOURS = 23
"""The collector's histograms go back one day."""
_QUANTILE = 0.9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument(
        "--hours", type=int, default=8, help=f"hours of the week to replay, at most {_LONGEST_HOURS}"
    )
    parser.add_argument("--per-node", type=int, default=25, help="virtual machines per node")


def needs(options: argparse.Namespace) -> list[Need]:
    """The Bitbrains week."""
    return [dataset(WEEK, options.data)]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Let every node report for hours, then compare the collector's values with the samples."""
    if not 1 <= options.hours <= _LONGEST_HOURS:
        raise UserError(f"--hours must be between 1 and {_LONGEST_HOURS}, not {options.hours}")
    if options.per_node < 1:
        raise UserError(f"--per-node must be at least 1, not {options.per_node}")
    slots = options.hours * 3600 // SLOT_SECONDS
    machines = read_machines(options.data, slots)
    groups = [machines[at : at + options.per_node] for at in range(0, len(machines), options.per_node)]
    errors = PushErrors()
    with progress.track("virtual machines", len(machines)) as show:
        for number, group in enumerate(groups):
            _Trial(f"node{number}", group, errors).run(slots)
            show((number + 1) * options.per_node)
    steady = traffic.measure(progress)
    settings = {
        "virtual_machines": len(machines),
        "nodes": len(groups),
        "hours": options.hours,
        "sample_seconds": _SAMPLE_SECONDS,
        "window_seconds": _REPORTING.container_window_seconds,
        "threshold_points": _REPORTING.threshold_points,
        "heartbeat_seconds": _REPORTING.heartbeat_seconds,
        "samples": (
            f"the trace's value of each 5 minutes, scattered by {SCATTER:.0%} (memory {MEMORY_SCATTER:.0%})"
        ),
        "capacities": "CPU and memory of each machine; disk and network: the most its node used in the trace",
        "steady_containers": traffic.CONTAINERS,
        "steady_bytes": "requests and responses with their headers on a socket, without TCP and IP",
    }
    return Result((*_figures(errors), *_traffic_figures(steady)), settings)


# --- One node -------------------------------------------------------------------------------


@dataclass(slots=True)
class PushErrors:
    """Counts and errors of all nodes."""

    windows: int = 0
    """Windows of all containers: the number of messages if every window was sent."""
    sent: int = 0
    sent_in_heartbeats: int = 0
    compared: int = 0
    """Values of the collector that were compared with the last full window."""
    far_off: int = 0
    """Compared values with an error of at least the threshold."""
    worst_points: float = 0.0
    worst_p90_points: float = 0.0
    samples_missing: int = 0
    """Samples before the last heartbeat that the collector's histograms lack."""


class _Trial:
    """One node, its agent's reporter, and the registry of the collector that receives the reports."""

    def __init__(self, name: str, machines: Sequence[Machine], errors: PushErrors) -> None:
        self._name = name
        self._errors = errors
        self._machines = machines
        self._ids = [container_id(machine.name) for machine in machines]
        capacity = _capacity(machines)
        self._allowed = [
            [machine.limit.of(resource) or capacity.of(resource) or math.inf for resource in RESOURCES]
            for machine in machines
        ]
        limits = {machine.name: machine.limit for machine in machines}
        self._node = SimulatedNode(limits, capacity, _SAMPLE_SECONDS)
        self._reporter = Reporter(name, "boot", _REPORTING, _SAMPLE_SECONDS)
        self._registry = Registry(CollectorConfig())
        self._samples = [[array("d") for _ in RESOURCES] for _ in machines]
        self._means: list[list[float]] = []
        self._counted = 0
        """Samples per container at the last heartbeat."""

    def run(self, slots: int) -> None:
        samples_per_slot = round(SLOT_SECONDS / _SAMPLE_SECONDS)
        for slot in range(slots):
            levels = [machine.slots[slot] for machine in self._machines]
            for number in range(samples_per_slot):
                tick = slot * samples_per_slot + number + 1
                sample = self._node.sample(tick, levels)
                self._store(sample)
                report = self._reporter.report(sample, (), ())
                if report is not None:
                    self._receive(report, sample.rates.unix_seconds)
                closes = tick % _WINDOW_SAMPLES == 0
                if closes:
                    self._errors.windows += len(self._machines)
                    self._means = [
                        [sum(each[-_WINDOW_SAMPLES:]) / _WINDOW_SAMPLES for each in samples]
                        for samples in self._samples
                    ]
                if self._means and (closes or (report is not None and report.containers)):
                    self._compare(sample.rates.unix_seconds)
        self._compare_quantiles(BEGIN_SECONDS + slots * SLOT_SECONDS)

    def _store(self, sample: NodeSample) -> None:
        for container, (cpu, memory, disk, network) in zip(sample.containers, self._samples, strict=True):
            used = container.rates.used
            cpu.append(used.cpu_cores or 0.0)
            memory.append(used.memory_bytes or 0)
            disk.append(used.disk_bytes_per_second or 0.0)
            network.append(used.network_bytes_per_second or 0.0)

    def _receive(self, sent: Report, now: float) -> None:
        """Parse and apply a report as the collector does."""
        (report,) = parse_batch(b"[" + encode(sent) + b"]")
        self._registry.apply(report, now)
        self._errors.sent += len(report.containers)
        if report.heartbeat is not None:
            self._errors.sent_in_heartbeats += len(report.containers)
            key = UsageKey.received(report, now)
            for _ in self._registry.usage.add(key, report.heartbeat.usage):
                pass
            self._counted = len(self._samples[0][0])

    def _compare(self, now: float) -> None:
        """Compare the collector's values with the last full window."""
        [node] = self._registry.nodes(now)
        held = {name: reported.value.used for name, reported in node.run.containers.items()}
        for name, means, allowed in zip(self._ids, self._means, self._allowed, strict=True):
            for resource, mean, capacity in zip(RESOURCES, means, allowed, strict=True):
                points = _points(held[name].of(resource), mean, capacity)
                self._errors.compared += 1
                self._errors.far_off += points >= _REPORTING.threshold_points
                self._errors.worst_points = max(self._errors.worst_points, points)

    def _compare_quantiles(self, now: float) -> None:
        """Compare the collector's p90 with that of all samples up to the last heartbeat."""
        [node] = self._registry.nodes(now)
        rank = math.ceil(_QUANTILE * self._counted) - 1
        for name, samples, allowed in zip(self._ids, self._samples, self._allowed, strict=True):
            ring = node.usage_of(name)
            self._errors.samples_missing += self._counted - ring.samples
            for resource, each, capacity in zip(RESOURCES, samples, allowed, strict=True):
                points = _points(ring.p90.of(resource), sorted(each[: self._counted])[rank], capacity)
                self._errors.worst_p90_points = max(self._errors.worst_p90_points, points)


def _points(held: float | None, true: float, capacity: float) -> float:
    return math.inf if held is None else 100 * abs(held - true) / capacity


def _capacity(machines: Sequence[Machine]) -> Quantities:
    """Capacity that an agent estimates after a long time: disk and network are the observed maximum."""
    disk = max(sum(used[2] for used in slot) for slot in zip(*(each.slots for each in machines), strict=True))
    network = max(
        sum(used[3] for used in slot) for slot in zip(*(each.slots for each in machines), strict=True)
    )
    return Quantities(
        cpu_cores=sum(machine.limit.cpu_cores or 0.0 for machine in machines),
        memory_bytes=sum(machine.limit.memory_bytes or 0 for machine in machines),
        disk_bytes_per_second=disk or None,
        network_bytes_per_second=network or None,
    )


# --- Figures --------------------------------------------------------------------------------


def _figures(errors: PushErrors) -> tuple[Figure, ...]:
    def percent(part: int) -> float | None:
        return 100 * part / errors.windows if errors.windows else None

    pushed = errors.sent - errors.sent_in_heartbeats
    return (
        Figure(
            name="container_messages_saved",
            value=percent(errors.windows - errors.sent),
            unit="% of all windows",
            at_least=LEAST_SAVED_PERCENT,
        ),
        Figure(name="sent_in_heartbeats", value=percent(errors.sent_in_heartbeats), unit="% of all windows"),
        Figure(name="sent_because_of_changes", value=percent(pushed), unit="% of all windows"),
        Figure(name="values_compared", value=errors.compared, unit="values", at_least=1),
        Figure(name="values_off_by_the_threshold", value=errors.far_off, unit="values", at_most=0),
        Figure(name="worst_value", value=errors.worst_points, unit="points off the last full window"),
        Figure(
            name="worst_p90",
            value=errors.worst_p90_points,
            unit="points off the p90 of all samples",
            at_most=MOST_P90_POINTS,
        ),
        Figure(name="samples_missing", value=errors.samples_missing, unit="samples", at_most=0),
    )


def _traffic_figures(steady: traffic.Traffic) -> tuple[Figure, ...]:
    return (
        Figure(
            name="steady_traffic",
            value=steady.bytes_per_minute,
            unit="bytes per node and minute",
            at_most=MOST_BYTES_PER_MINUTE,
        ),
        Figure(
            name="steady_traffic_requests",
            value=steady.sent_bytes_per_minute,
            unit="bytes per node and minute",
        ),
        Figure(name="steady_heartbeat", value=steady.largest_report_bytes, unit="bytes"),
        Figure(name="steady_reports", value=steady.reports_per_minute, unit="reports per node and minute"),
    )
