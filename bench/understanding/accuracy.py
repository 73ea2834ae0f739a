"""Accuracy of envelopes: recorded load, reported by agents, compared with all samples.

Every virtual machine of the Bitbrains trace is a container that the agent's own reporter reports in bytes.
All samples are kept too, and numpy computes their percentiles.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from agent.config import ReportingConfig, SamplingConfig
from agent.reporting.reporter import Reporter
from agent.sampling.node_sample import NodeSample
from bench.common.bitbrains import SLOT_SECONDS, Machine
from bench.common.progress import Progress
from bench.common.simulated_node import SimulatedNode, container_id
from collector.analysis.envelopes import Statistic
from collector.analysis.usage import UsageRing, UsageWeights, add_samples, report_bucket, update_statistics
from collector.common.arrays import Floats
from wire.messages import Report, encode, parse_batch
from wire.resources import RESOURCES, Quantities
from wire.sketch import FLOORS, bin_of

_PER_NODE = 25
_SAMPLE_SECONDS = SamplingConfig().interval_seconds
_SHARES = {
    Statistic.P50: 0.5,
    Statistic.P90: 0.9,
    Statistic.P95: 0.95,
    Statistic.P99: 0.99,
    Statistic.MAX: 1.0,
}


@dataclass(slots=True)
class EnvelopeErrors:
    """Errors of envelopes."""

    values: int = 0
    worst_bins: int = 0
    """Largest difference between a percentile and numpy's, in bins."""
    missing: int = 0
    """Samples that the collector did not count."""


def measure(machines: Sequence[Machine], hours: int, progress: Progress) -> EnvelopeErrors:
    """Let every machine report for hours, then compare the collector's results with the samples."""
    errors = EnvelopeErrors()
    with progress.track("virtual machines", len(machines)) as show:
        for start in range(0, len(machines), _PER_NODE):
            _measure(f"node{start}", machines[start : start + _PER_NODE], hours, errors)
            show(start + _PER_NODE)
    return errors


def _measure(name: str, machines: Sequence[Machine], hours: int, errors: EnvelopeErrors) -> None:
    samples = [[array("d") for _ in RESOURCES] for _ in machines]
    counted = 0
    # All samples have the same weight, as in numpy.
    weights = UsageWeights(half_life_seconds=inf)
    rings: dict[str, UsageRing] = {}
    reporter = Reporter(name, "boot", ReportingConfig(), _SAMPLE_SECONDS)
    for sample in _samples_of(machines, hours):
        for container, kept in zip(sample.containers, samples, strict=True):
            for resource, column in zip(RESOURCES, kept, strict=True):
                column.append(container.rates.used.of(resource) or 0.0)
        report = reporter.report(sample, (), ())
        if report is not None and report.heartbeat is not None:
            _receive(report, rings, weights)
            counted = len(samples[0][0])
    for machine, kept in zip(machines, samples, strict=True):
        ring = rings[container_id(machine.name)]
        errors.missing += counted - ring.samples
        for place, column in enumerate(kept):
            _compare(ring, place, np.array(column[:counted]), errors)


def _samples_of(machines: Sequence[Machine], hours: int) -> Iterator[NodeSample]:
    limits = {machine.name: machine.limit for machine in machines}
    capacity = Quantities(
        cpu_cores=sum(machine.limit.cpu_cores or 0.0 for machine in machines),
        memory_bytes=sum(machine.limit.memory_bytes or 0 for machine in machines),
    )
    node = SimulatedNode(limits, capacity, _SAMPLE_SECONDS)
    per_slot = round(SLOT_SECONDS / _SAMPLE_SECONDS)
    for slot in range(hours * 3600 // SLOT_SECONDS):
        levels = [machine.slots[slot] for machine in machines]
        for number in range(per_slot):
            yield node.sample(slot * per_slot + number + 1, levels)


def _receive(sent: Report, rings: dict[str, UsageRing], weights: UsageWeights) -> None:
    (report,) = parse_batch(b"[" + encode(sent) + b"]")
    assert report.heartbeat is not None
    bucket = report_bucket(report.at, report.at)
    update_statistics(add_samples(rings, bucket, report.heartbeat.usage), weights)


def _compare(ring: UsageRing, place: int, samples: Floats, errors: EnvelopeErrors) -> None:
    for statistic, share in _SHARES.items():
        true = _bin(float(np.quantile(samples, share, method="inverted_cdf")), place)
        found = _bin(float(ring.statistics[place, statistic]), place)
        errors.values += 1
        errors.worst_bins = max(errors.worst_bins, abs(found - true))


def _bin(value: float, place: int) -> int:
    """Return the bin of a value; values that agents count as zero are in the bin at the floor."""
    return bin_of(max(value, FLOORS[place]))
