"""Metric descriptions. The exposition and docs/metrics.md are both generated from tables of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Subject = TypeVar("Subject")


@dataclass(frozen=True, kw_only=True)
class MetricSpec(Generic[Subject]):
    """One metric: its name, its help text, and functions that return its value and labels for a subject.

    `value` returns None if the value is unknown: the series is then absent, never zero.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    value: Callable[[Subject], float | None]
    labels: Mapping[str, Callable[[Subject], str]] = field(default_factory=dict)


def metric_families(specs: Iterable[MetricSpec[Subject]], subjects: Iterable[Subject]) -> Iterator[Metric]:
    """Each metric of the table, with one series per subject whose value is known."""
    subjects = list(subjects)
    for spec in specs:
        family = (
            CounterMetricFamily(spec.name.removesuffix("_total"), spec.help, labels=list(spec.labels))
            if spec.kind == "counter"
            else GaugeMetricFamily(spec.name, spec.help, labels=list(spec.labels))
        )
        for subject in subjects:
            value = spec.value(subject)
            if value is not None:
                family.add_metric([read(subject) for read in spec.labels.values()], value)
        yield family
