"""Collectors that die at every change of every action, on real Docker hosts and a real Swarm.

The tests kill each action once, half-way. Here a collector dies before and after each of its requests, and
moves also at each record in the journal; on hosts, a process that moves a container is killed with kill -9
before each change. The next collector must leave nothing doubled or lost, and its journal must be true.
"""

import argparse
import asyncio
import tempfile
import traceback
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from time import monotonic

from bench.common.progress import Progress
from bench.common.requirements import Need, lab_part
from bench.common.results import Figure, Result
from tests.collector.act.drivers.interrupted import all_points
from tests.collector.features.docker import test_interrupted as hosts_in_memory
from tests.collector.features.swarm import test_interrupted as swarm_in_memory
from tests.lab.engines.swarm import Swarm, swarm
from tests.lab.interrupted.hosts import interrupt_on_hosts, kill_on_hosts
from tests.lab.interrupted.swarm import interrupt_on_swarm
from wire.errors import UserError

Attempt = Callable[[Swarm, Path], Coroutine[object, object, None]]
"""Kills a collector at one point, and checks what the next one makes of it."""


def _attempts() -> dict[str, Attempt]:
    """Return all attempts, by kind and point."""
    on_hosts, on_swarm = hosts_in_memory.POINTS, swarm_in_memory.POINTS
    return {
        **{f"hosts/{point}": partial(interrupt_on_hosts, point=point) for point in all_points(on_hosts)},
        **{f"killed/move-before-{at}": partial(kill_on_hosts, at=at) for at in range(len(on_hosts["move"]))},
        **{f"swarm/{point}": partial(interrupt_on_swarm, point=point) for point in all_points(on_swarm)},
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--only", nargs="*", metavar="START", default=[""], help="run only these: hosts, swarm/move, ..."
    )


def needs(_options: argparse.Namespace) -> list[Need]:
    """A Swarm; two of its nodes are the plain hosts."""
    return [lab_part("swarm")]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Kill a collector at all points, and count those after which something is wrong."""
    chosen = {name: each for name, each in _attempts().items() if name.startswith(tuple(options.only))}
    if not chosen:
        raise UserError(f"--only: no point begins with {' or '.join(options.only)}")
    with swarm(nodes=3) as cluster:
        outcomes = [run_all(kind, chosen, cluster, progress) for kind in ("hosts", "killed", "swarm")]
    figures = [figure for figures, _ in outcomes for figure in figures]
    return Result(tuple(figures), {"wrong": [name for _, wrong in outcomes for name in wrong]})


def run_all(
    kind: str, attempts: Mapping[str, Attempt], cluster: Swarm, progress: Progress
) -> tuple[list[Figure], list[str]]:
    """Return the figures of a kind, and the points after which something is wrong."""
    began, wrong = monotonic(), list[str]()
    chosen = {name: each for name, each in attempts.items() if name.startswith(f"{kind}/")}
    for name, attempt in chosen.items():
        progress.say(f"{name}, {len(wrong)} wrong so far")
        with tempfile.TemporaryDirectory() as folder:
            try:
                asyncio.run(attempt(cluster, Path(folder)))
            except Exception:  # noqa: BLE001 - whatever it is, the other points are tried
                wrong.append(name)
                progress.say(traceback.format_exc())
    if not chosen:
        return [], []
    figures = [
        Figure(name=f"{kind}_wrong", value=len(wrong), unit=f"of {len(chosen)} points", at_most=0),
        Figure(name=f"{kind}_seconds", value=monotonic() - began, unit="s"),
    ]
    return figures, wrong
