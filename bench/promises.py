"""Random clusters, and every decision that policies make on them: how many break the promise of a container.

The same checks run in the tests on a few clusters. A container may lose what its class tolerates, by cuts and
by overbooking together, earlier cuts included.
"""

import argparse
from collections import Counter
from time import monotonic

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from tests.collector.decide.promised import CHECKS, check_alert, choices

_CLUSTERS = 10_000
_EVERY = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--clusters", type=int, default=_CLUSTERS, metavar="N", help="number of clusters")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="seed of the first cluster")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Check every kind of decision of every policy on each cluster."""
    broken, first = Counter[str](), dict[str, int]()
    chosen, began = choices(), monotonic()
    for seed in range(options.first, options.first + options.clusters):
        if seed % _EVERY == 0:
            progress.say(f"cluster {seed}: {broken.total()} decisions that break a promise so far")
        for kind, check in CHECKS.items():
            for each in chosen:
                try:
                    check(each, seed)
                except AssertionError:
                    broken[kind] += 1
                    first.setdefault(f"{kind}, {each.policy.name}", seed)
        try:
            check_alert(seed)
        except AssertionError:
            broken["alert"] += 1
            first.setdefault("alert", seed)
    figures = [
        Figure(name=f"{kind}_broken", value=broken[kind], unit="", at_most=0) for kind in (*CHECKS, "alert")
    ]
    figures.append(Figure(name="seconds", value=monotonic() - began, unit="s"))
    settings = {"clusters": options.clusters, "first": options.first, "policies": len(chosen)}
    return Result(tuple(figures), settings=settings | {"first_broken": str(first)} if first else settings)
