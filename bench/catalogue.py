"""All benchmarks: their names, modules and summaries."""

import argparse
from collections.abc import Mapping
from typing import Protocol

from bench.common.progress import Progress
from bench.common.results import Result


class Benchmark(Protocol):
    """The interface of a benchmark's module.

    A module that needs data, a part of the lab or a peer also has `needs(options)`, which returns
    `bench.common.requirements.Need`s. They are checked before `run`; `options.left_out` then lists the
    comparisons that cannot be made.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace, progress: Progress) -> Result: ...


# A module is imported only when its benchmark runs, so that its dependencies do not stop other benchmarks.
BENCHMARKS: Mapping[str, tuple[str, str]] = {
    "agent-cost": (
        "bench.agent.cost",
        "CPU and memory of the agent with idle containers, and of the engine",
    ),
    "agent-push": (
        "bench.agent.push",
        "traffic that the agent saves by reporting changes only, and the loss of accuracy",
    ),
    "board": ("bench.board", "cost of the live tables, per report and per snapshot"),
    "ingest": (
        "bench.ingest.benchmark",
        "reports per second, latency, memory, a kill and a restart; also --steady MINUTES and --kills N",
    ),
    "hints": (
        "bench.hints.benchmark",
        "latency of every policy with 10,000 nodes, and the nodes that GenPack saves",
    ),
    "fuzz": ("bench.fuzz.reports", "a million invalid requests to the collector"),
    "damage": ("bench.damage", "5,000 damaged histories: all start, and say truly what is lost"),
    "soak": ("bench.soak", "memory of a collector after 500,000 reports while containers come and go"),
    "trust": (
        "bench.trust.benchmark",
        "one hostile node among honest ones, and its effect on them; a day of faults with --faults",
    ),
    "fuzz-api": ("bench.fuzz.api", "schemathesis on the OpenAPI document: no 500, nothing undocumented"),
    "swarm": (
        "bench.swarm.benchmark",
        "a real Swarm: bottlenecks, consolidation onto fewer nodes, faults",
    ),
    "interrupted": (
        "bench.interrupted",
        "collectors that die at every change of every action, on real hosts and a real Swarm",
    ),
    "understanding": (
        "bench.understanding.benchmark",
        "analysis of 50,000 containers, latency meanwhile, and envelopes against numpy's percentiles",
    ),
    "promises": (
        "bench.promises",
        "decisions on 10,000 random clusters: none takes a container beyond what its class tolerates",
    ),
    "replay": ("bench.replay.benchmark", "replay and CloudSim on the same days, and the duration of a week"),
    "scenarios": (
        "bench.scenarios.benchmark",
        "the scenarios of the papers, PlanetLab and Bitbrains: their figures and ours",
    ),
    "slo": (
        "bench.slo.benchmark",
        "promises of availability: recorded runs, the workloads of QoS-driven scheduling, cost of the ledger",
    ),
    "network": (
        "bench.network.benchmark",
        "the network between nodes: applications placed near each other, distance from the optimum, duration",
    ),
    "elastic": (
        "bench.elastic.benchmark",
        "elasticity: replicas and limits next to other autoscalers, sizes next to VPA's, admission, a Swarm",
    ),
    "ceiling": (
        "bench.ceiling",
        "upper bound of the requests of Energy4Cloud's hour that can be placed at once",
    ),
    "growth": (
        "bench.growth.benchmark",
        "costs at 1,000 to 100,000 containers, and how they grow",
    ),
    "page": (
        "bench.page.benchmark",
        "the page in a real browser, with 20 and with 1,000 nodes: paint, sort, search, memory, CPU",
    ),
    "power": ("bench.power.benchmark", "accuracy of the power models on recordings of metered servers"),
}
