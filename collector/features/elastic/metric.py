"""The metric of an elastic service: a query of the store, or the response times that agents measure."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from collector.core.parts import Core
from collector.features.elastic.targets import ElasticTarget
from collector.history.interface import HistoryUnavailable
from collector.history.promql import Client

QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class Metric:
    """The value of a metric, or why it is unknown."""

    value: float | None = None
    requests: int | None = None
    """Requests that it is computed from; None for a query."""
    failed: int | None = None
    problem: str | None = None


def probed_metric(core: Core, containers: Mapping[str, str], since: float) -> Metric:
    """Return the response times of a service since a time, from its containers and their nodes."""
    names = _reported_names(core, containers)
    found = core.registry.probes.summary(names, since, Counter(containers.values()), QUANTILE)
    if found is None:
        return Metric(
            problem="no response time was reported since the last decision; if this persists, set"
            " probe.enabled of the agents, and the container label wattpack.probe"
        )
    return Metric(found.seconds, found.requests, found.failed)


def _reported_names(core: Core, containers: Mapping[str, str]) -> dict[str, str]:
    """Return the name by which the agent of each node reports a service, from one of its containers there.

    Agents may use different names for the same service.
    """
    names: dict[str, str] = {}
    for container, node in sorted(containers.items()):
        for entry in core.registry.nodes(core.clock(), node=node):
            if node not in names and (reported := entry.run.containers.get(container)) is not None:
                names[node] = reported.value.service or reported.value.name
    return names


async def query_metrics(
    store: Client | None, targets: Iterable[ElasticTarget], now: float
) -> dict[str, Metric]:
    """Return the results of all queries, by service. They run concurrently, because a store may be slow."""
    queried = [each for each in targets if each.query]
    found = await asyncio.gather(*(query_metric(store, each.query, now) for each in queried))
    return {each.target.service: metric for each, metric in zip(queried, found, strict=True)}


async def query_metric(store: Client | None, query: str, now: float) -> Metric:
    """Return the result of a query; of several series, the highest finite value."""
    if store is None:
        return Metric(problem="store.url is not set")
    try:
        found = await store.query(query, now)
    except HistoryUnavailable as error:
        return Metric(problem=f"the store does not answer the query: {error}")
    values = [value for each in found if isfinite(value := float(each.value[1]))]
    return Metric(max(values)) if values else Metric(problem="the query has no result")
