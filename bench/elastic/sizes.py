"""Sizes on recorded workloads, ours and VPA's: learned on the first half, scored on the second.

Only the Bitbrains week, split in the middle, has bounds. Other parts of the week and the PlanetLab days are
for information: they show how much the order of the methods depends on where a trace is split.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.common.progress import Progress
from bench.common.results import Figure
from collector.features.sizing.settings import SizingConfig
from collector.features.sizing.sizes import SizeRules
from replay.readers.samples import Period
from replay.sizing.halves import Halves, split
from replay.sizing.page import frontier_text
from replay.sizing.scores import OURS, VPA, SizingReport, compare_methods, score_halves
from replay.sources import read_trace
from wattpack.datasets.catalogue import require, search_path
from wattpack.datasets.traces import trace_file

_WEEK = "bitbrains-rnd-2013-08-week"
_DAYS = tuple(f"planetlab-{day}" for day in ("20110303", "20110309", "20110325", "20110411", "20110420"))
DATASETS = (_WEEK, *_DAYS)
_LEAST_SAVED = 0.6
_DAY_SECONDS = 86_400.0
_PARTS_OF_WEEK = ((0.0, 4.0), (1.0, 6.0), (1.0, 7.0), (1.5, 7.0), (2.0, 6.0), (3.0, 7.0), (0.0, 6.0))
"""First and last day of each part."""
_SUBSETS, _SUBSET = 20, 100


def measure(data: Path | None, progress: Progress) -> Iterator[Figure]:
    """Score the week, parts of it, subsets of its services, and the PlanetLab days."""
    rules, keep_days = SizeRules(), SizingConfig().keep_days
    trace = trace_file(require(_WEEK, search_path(data)))
    halves = split(read_trace(trace, ()), keep_days)
    report = score_halves(halves, rules)
    for line in frontier_text(report):
        progress.say(line)
    yield from _week(report)
    comparisons: list[tuple[bool, bool]] = []
    for first, last in _PARTS_OF_WEEK:
        period = Period(first * _DAY_SECONDS, last * _DAY_SECONDS)
        part = split(read_trace(replace(trace, period=period), ()), keep_days)
        comparisons.extend(_compare_with_vpa(part, rules))
    yield from _count_figures("week_parts", comparisons)
    random = np.random.default_rng(0)
    comparisons = []
    for _ in range(_SUBSETS):
        chosen = np.sort(random.choice(len(halves.names), min(_SUBSET, len(halves.names)), replace=False))
        comparisons.extend(_compare_with_vpa(halves.only(chosen), rules))
    yield from _count_figures("subsets", comparisons)
    comparisons = []
    for name in _DAYS:
        day = split(read_trace(trace_file(require(name, search_path(data))), ()), keep_days)
        comparisons.extend(_compare_with_vpa(day, rules))
    yield from _count_figures("planetlab", comparisons)


def _week(report: SizingReport) -> Iterator[Figure]:
    ours, vpa = report.methods[OURS], report.methods[VPA]
    for resource in ours.slack_ratio:
        yield Figure(
            name=f"week_{resource}_saved_ratio",
            value=1 - ours.request_ratio[resource],
            unit="",
            at_least=_LEAST_SAVED,
        )
        yield Figure(
            name=f"week_{resource}_slack_ratio",
            value=ours.slack_ratio[resource],
            unit="",
            at_most=vpa.slack_ratio[resource],
        )
        yield Figure(
            name=f"week_{resource}_above_ratio",
            value=ours.above_ratio[resource],
            unit="",
            at_most=vpa.above_ratio[resource],
        )


def _compare_with_vpa(halves: Halves, rules: SizeRules) -> Iterator[tuple[bool, bool]]:
    """Yield per resource whether ours is no worse than VPA in both figures, or worse in both."""
    methods = compare_methods(halves, rules)
    ours, vpa = methods[OURS], methods[VPA]
    for resource, slack in ours.slack_ratio.items():
        above = ours.above_ratio[resource]
        other_slack, other_above = vpa.slack_ratio[resource], vpa.above_ratio[resource]
        yield slack <= other_slack and above <= other_above, slack > other_slack and above > other_above


def _count_figures(name: str, comparisons: list[tuple[bool, bool]]) -> Iterator[Figure]:
    total = len(comparisons)
    yield Figure(
        name=f"{name}_better_ratio",
        value=sum(better for better, _ in comparisons) / total,
        unit=f"of {total}",
    )
    yield Figure(
        name=f"{name}_worse_in_both",
        value=sum(worse for _, worse in comparisons),
        unit=f"of {total}",
        at_most=0,
    )
