"""Targets of elastic services, from settings and labels. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from collector.common.applications import parse_delay
from collector.common.labels import (
    ELASTIC_CPU_LABEL,
    ELASTIC_EXPLORE_LABEL,
    ELASTIC_LABEL,
    ELASTIC_REPLICAS_LABEL,
    NEVER,
)
from collector.common.orchestrator import Mode, ServiceView
from collector.features.elastic.scaling.interface import Target, Weights
from collector.features.elastic.settings import ElasticRule

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_RANGE = re.compile(rf"(?P<low>{_NUMBER})-(?P<high>{_NUMBER})(?:/(?P<step>{_NUMBER}))?")
_MAX_REPLICAS, _MAX_CORES = 10_000, 10_000.0
_MIN_SECONDS, _MAX_SECONDS = 1e-6, 1e6
"""Bounds of a response time that a label may name."""
_NO_RULE = ElasticRule()
_DEFAULTS = Target(service="", metric_max=1.0)
"""Provides the default bounds."""


@dataclass(frozen=True, slots=True)
class ElasticTarget:
    """The target of a service, its policy, and the source of its metric."""

    target: Target
    policy: str
    query: str
    """PromQL query of the metric; empty for the response times that agents measure."""


def elastic_target(service: ServiceView, rule: ElasticRule | None) -> ElasticTarget | None:
    """Return the target of a service; None if it is not elastic. Settings override labels."""
    rule, labels = rule or _NO_RULE, service.labels
    metric_max = rule.metric_max or _labelled_seconds(labels)
    if metric_max is None or service.mode is Mode.GLOBAL:
        return None
    low, high = _replicas(rule, labels)
    if service.mode is Mode.STANDALONE:
        low = high = 1  # a single container can only be resized
    cpu_low, cpu_high, step = _cpu(rule, labels)
    explore = rule.explore or labels.get(ELASTIC_EXPLORE_LABEL)
    target = Target(
        service=service.name,
        metric_max=metric_max,
        replicas_min=low,
        replicas_max=high,
        cpu_min_cores=cpu_low,
        cpu_max_cores=cpu_high,
        cpu_step_cores=step,
        weights=msgspec.convert(msgspec.to_builtins(rule.weights), Weights),
        cool_down_seconds=rule.cool_down_seconds,
        decide_seconds=rule.decide_seconds,
        utilization_target=rule.utilization_target,
        explore=explore != NEVER,
    )
    return ElasticTarget(target, rule.policy, rule.query)


def _labelled_seconds(labels: Mapping[str, str]) -> float | None:
    seconds = parse_delay(labels.get(ELASTIC_LABEL, ""))
    return seconds if seconds is not None and _MIN_SECONDS <= seconds <= _MAX_SECONDS else None


def _replicas(rule: ElasticRule, labels: Mapping[str, str]) -> tuple[int, int]:
    found = _RANGE.fullmatch(labels.get(ELASTIC_REPLICAS_LABEL, "").strip())
    low, high = _DEFAULTS.replicas_min, _DEFAULTS.replicas_max
    if found is not None and found["step"] is None and found["low"].isdecimal() and found["high"].isdecimal():
        written = int(found["low"]), int(found["high"])
        if 1 <= written[0] <= written[1] <= _MAX_REPLICAS:
            low, high = written
    low = low if rule.replicas_min is None else rule.replicas_min
    high = high if rule.replicas_max is None else rule.replicas_max
    # If settings move one end past the other, which is a default or a label, they win.
    return (low, max(low, high)) if rule.replicas_max is None else (min(low, high), high)


def _cpu(rule: ElasticRule, labels: Mapping[str, str]) -> tuple[float, float, float]:
    """Return the smallest and largest CPU limit, and the step; a step of 0 keeps the limit."""
    found = _RANGE.fullmatch(labels.get(ELASTIC_CPU_LABEL, "").strip())
    low, high, step = _DEFAULTS.cpu_min_cores, _DEFAULTS.cpu_max_cores, 0.0
    if found is not None:
        written = float(found["low"]), float(found["high"])
        if 0 < written[0] <= written[1] <= _MAX_CORES:
            low, high = written
            step = float(found["step"] or _DEFAULTS.cpu_step_cores)
    low = low if rule.cpu_min_cores is None else rule.cpu_min_cores
    high = high if rule.cpu_max_cores is None else rule.cpu_max_cores
    step = step if rule.cpu_step_cores is None else rule.cpu_step_cores
    return low, max(low, high), step
