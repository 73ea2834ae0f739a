"""How a metric is described: once, in a table, from which the exposition and the docs are both made."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Subject = TypeVar("Subject")


@dataclass(frozen=True, kw_only=True)
class MetricSpec(Generic[Subject]):
    """One metric: what it is called, what it means, and how its value and labels are read off a subject.

    `value` returns None where the number is not known; then there is no series, never a zero.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    value: Callable[[Subject], float | None]
    labels: Mapping[str, Callable[[Subject], str]] = field(default_factory=dict)


def metric_families(specs: Iterable[MetricSpec[Subject]], subjects: Iterable[Subject]) -> Iterator[Metric]:
    """Each metric of the table with one series per subject that knows its value."""
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
