"""A container grows until its node runs out of memory, with plain Swarm and with a collector."""

import time

from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, until

_MEGABYTE = 1 << 20
_BALLAST_MB, _QUICK_MB, _GROWN_MB = 90, 50, 115
"""On a node of 192 MB, both fit until one has grown; each of them fits on an empty node."""
_SLOW_SECONDS = 1.5
_TIMEOUT_SECONDS = 170.0


def _hold(megabytes: int) -> tuple[str, ...]:
    return _awk(f"for(i=0;i<{megabytes};i++) a[i]=b i;")


def _grow() -> tuple[str, ...]:
    quick = f"for(i=0;i<{_QUICK_MB};i++) a[i]=b i;"
    slow = f'for(;i<{_GROWN_MB};i++) {{ a[i]=b i; system("sleep {_SLOW_SECONDS}") }}'
    return _awk(f"{quick} {slow}")


def _awk(work: str) -> tuple[str, ...]:
    return "awk", f'BEGIN {{ b=sprintf("%{_MEGABYTE}s","x"); {work} while(1) system("sleep 1000") }}'


def memory(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Let the container grow with a collector that acts."""
    deaths = _count_deaths_while_growing(cluster, collector)
    done = [each for each in collector.decisions(trigger="alert") if each["outcome"] == "done"]
    return [
        Figure(name="memory_killed", value=deaths, unit="containers out of memory", at_most=0),
        Figure(name="memory_decisions_done", value=len(done), unit="decisions", at_least=1),
    ]


def memory_plain(cluster: Cluster, collector: Collector) -> list[Figure]:
    """Let the container grow without actions."""
    deaths = _count_deaths_while_growing(cluster, collector)
    return [
        Figure(name="memory_killed_by_plain_swarm", value=deaths, unit="containers out of memory", at_least=1)
    ]


def _count_deaths_while_growing(cluster: Cluster, collector: Collector) -> int:
    """Count the containers that died before the container has its final size."""
    cluster.service("ballast", *_hold(_BALLAST_MB), on="node2")
    cluster.service("grower", *_grow(), on="node2")
    grown_seconds = (_GROWN_MB - _QUICK_MB) * _SLOW_SECONDS + 10
    began = time.monotonic()
    until(lambda: _deaths(cluster) > 0, min(grown_seconds, _TIMEOUT_SECONDS))
    moved = {name: cluster.places(name) for name in ("ballast", "grower")}
    print(f"{moved} after {time.monotonic() - began:.0f} s; {collector.alerts()}")
    return _deaths(cluster)


def _deaths(cluster: Cluster) -> int:
    tasks = [task for name in ("ballast", "grower") for task in cluster.swarm.tasks(name)]
    return sum(task.state == "failed" for task in tasks)
