"""Metric descriptions. The exposition and docs/metrics.md are both generated from tables of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from prometheus_client.core import Metric, Sample

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class MetricSpec(Generic[Subject]):
    """One metric: its name, its help text, and functions that return its value and labels for a subject.

    `value` returns None if the value is unknown: the series is then absent, never zero.
    """

    name: str
    help: str
    value: Callable[[Subject], float | None]
    labels: Mapping[str, Callable[[Subject], str]] = field(default_factory=dict)

    @property
    def kind(self) -> Literal["gauge", "counter"]:
        return "counter" if self.name.endswith("_total") else "gauge"


def metric_families(specs: Iterable[MetricSpec[Subject]], subjects: Iterable[Subject]) -> Iterator[Metric]:
    """Each metric of the table, with one series per subject whose value is known."""
    subjects = list(subjects)
    read_labels: Mapping[str, Callable[[Subject], str]] | None = None
    labels: list[dict[str, str]] = []
    for spec in specs:
        if spec.labels is not read_labels:
            # Metrics in a row often have the same labels, which are most of the work.
            read_labels = spec.labels
            labels = [{name: read(subject) for name, read in read_labels.items()} for subject in subjects]
        family = Metric(spec.name.removesuffix("_total"), spec.help, spec.kind)
        for subject, subject_labels in zip(subjects, labels, strict=True):
            value = spec.value(subject)
            if value is not None:
                family.samples.append(Sample(spec.name, subject_labels, value))
        yield family
