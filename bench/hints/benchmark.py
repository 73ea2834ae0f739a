"""Latency of hints in a large cluster, for every policy, inside the process and over HTTP.

The cluster is generated, and the same for every policy. Every fiftieth request uses a new snapshot, warmed up
as in the collector, so that the cost of the first request after a snapshot is part of every p99. The figures
of `packing` belong to this benchmark too: the nodes that GenPack saves, and the duration of its phase.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.hints import packing
from bench.hints.cluster import BEGIN_SECONDS, as_new, cluster
from bench.hints.server import requests, server
from collector.config import CollectorConfig
from collector.decide.policies.table import POLICIES
from collector.decide.question import PlacementQuestion
from collector.history.sqlite.history import History
from collector.observe.registry import Registry
from collector.runtime.parts import Core
from collector.serve.api.hints import rank_nodes
from collector.snapshot.tables import Snapshot
from wire.errors import UserError
from wire.messages import encode

MOST_INSIDE_MILLISECONDS, MOST_HTTP_MILLISECONDS, MOST_PRIORITIZE_MILLISECONDS = 5.0, 15.0, 50.0
_NEW_SNAPSHOT_EVERY = 50
SIZES = (100, 1000, 10_000)
_NAMES = 1000
_WARM_UP = 20
_PODS = 100
_POD_SPEC = {"containers": [{"image": "x", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}]}


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of hints."""

    wall_milliseconds: list[float] = field(default_factory=list)
    cpu_milliseconds: list[float] = field(default_factory=list)
    fitting: list[int] = field(default_factory=list)
    """The number of nodes that fit, per hint."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", type=int, default=SIZES[-1], help="number of nodes in the cluster")
    parser.add_argument("--per-node", type=int, default=20, help="containers per node")
    parser.add_argument("--hints", type=int, default=400, help="requests per policy")
    parser.add_argument("--policies", nargs="+", default=_placement_policies(), help="policies to measure")
    packing.add_arguments(parser)


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure hints inside the process, over HTTP and as a scheduler extender, then packing."""
    if options.nodes < 1 or options.per_node < 1 or options.hints < 1:
        raise UserError("--nodes, --per-node and --hints must be at least 1")
    if unknown := set(options.policies) - set(_placement_policies()):
        raise UserError(f"--policies: {', '.join(sorted(unknown))} cannot rank nodes")
    figures: list[Figure] = []
    progress.say(f"hints: inside the process, {options.nodes} nodes")
    snapshot = cluster(options.nodes, options.per_node)
    inside = {policy: time_hints(snapshot, policy, options.hints) for policy in options.policies}
    for policy, times in inside.items():
        figures.append(
            _milliseconds(f"inside_p99_{policy}", _p99(times.wall_milliseconds), MOST_INSIDE_MILLISECONDS)
        )
        figures.append(_milliseconds(f"inside_cpu_p99_{policy}", _p99(times.cpu_milliseconds)))
    progress.say("hints: over HTTP")
    figures.extend(_over_http(options))
    progress.say(f"hints: at {' and '.join(str(size) for size in SIZES)} nodes")
    figures.extend(_growth(options))
    packed = packing.run(options, progress)
    settings = {
        "nodes": options.nodes,
        "containers": options.nodes * options.per_node,
        "hints": options.hints,
    }
    return Result((*figures, *packed.figures), settings | dict(packed.settings))


def time_hints(snapshot: Snapshot, policy: str, count: int) -> Times:
    """Measure hints from request to response, without HTTP."""
    core = _core()
    times = Times()
    for number, body in enumerate(requests(count + _WARM_UP, policy)):
        request = msgspec.convert(body, PlacementQuestion)
        if number % _NEW_SNAPSHOT_EVERY == 0:
            snapshot = as_new(snapshot)
            if core.snapshots.warm_up is not None:
                core.snapshots.warm_up(snapshot)
        began, cpu_began = time.perf_counter(), time.thread_time()
        response = rank_nodes(core, core.reservations.fold(snapshot, BEGIN_SECONDS), request)
        if number >= _WARM_UP:
            times.wall_milliseconds.append(1e3 * (time.perf_counter() - began))
            times.cpu_milliseconds.append(1e3 * (time.thread_time() - cpu_began))
            times.fitting.append(response.fitting)
    return times


def _over_http(options: argparse.Namespace) -> Iterator[Figure]:
    names = [f"node-{row:05}" for row in np.random.default_rng(5).permutation(options.nodes)[:_NAMES]]
    pods = [
        {"metadata": {"name": f"p{number}", "uid": str(number)}, "spec": _POD_SPEC} for number in range(_PODS)
    ]
    extender_bodies = [json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode() for pod in pods]
    with server(options.nodes, options.per_node) as collector:
        for policy in options.policies:
            bodies = [encode(body) for body in requests(options.hints + _WARM_UP, policy)]
            latencies = collector.latencies("/v1/hints/placement", bodies)[_WARM_UP:]
            yield _milliseconds(f"http_p99_{policy}", 1e3 * _p99(latencies), MOST_HTTP_MILLISECONDS)
        for policy in options.policies:
            latencies = collector.latencies(f"/v1/kubernetes/prioritize?policy={policy}", extender_bodies)
            yield _milliseconds(
                f"prioritize_p99_{policy}", 1e3 * _p99(latencies), MOST_PRIORITIZE_MILLISECONDS
            )


def _growth(options: argparse.Namespace) -> Iterator[Figure]:
    """Duration of a hint in the largest cluster, relative to the smallest."""
    smallest, largest = SIZES[0], SIZES[-1]
    median: dict[tuple[str, int], float] = {}
    for size in SIZES:
        snapshot = cluster(size, options.per_node)
        for policy in options.policies:
            times = time_hints(snapshot, policy, min(options.hints, 100))
            median[policy, size] = float(np.median(times.cpu_milliseconds))
    for policy in options.policies:
        growth = median[policy, largest] / median[policy, smallest]
        yield Figure(
            name=f"growth_{smallest}_to_{largest}_{policy}",
            value=growth,
            unit="times",
            at_most=largest / smallest,
        )


def _core() -> Core:
    config = CollectorConfig()
    # A hint does not use the history.
    return Core(config, Registry(config), History, lambda: BEGIN_SECONDS)  # type: ignore[arg-type]


def _placement_policies() -> list[str]:
    return [name for name, policy in POLICIES.items() if policy.place is not None]


def _p99(times: list[float]) -> float:
    return float(np.quantile(times, 0.99))


def _milliseconds(name: str, value: float, at_most: float | None = None) -> Figure:
    return Figure(name=name, value=value, unit="ms", at_most=at_most)
