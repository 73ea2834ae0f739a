"""Ten minutes after a bottleneck was healed: the loop itself, on simulated time, as loads rise and fall.

The nodes report bottlenecks again and again, the target of the move too: a loop that answers each alert on
its own moves a service back and forth. The loop, its guards and its journal are the collector's own; the
reports of agents, the orchestrator and the clock are simulated.
"""

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.common.results import Figure
from collector.control.loop import ControlLoop
from collector.policies.actions import Move
from tests.collector.control.builders import Breathing, FakeDriver, actor_of, service_of, staged, view

_WATCHED_SECONDS = 600.0
_LOOK_SECONDS = 5.0
_BREATHS_SECONDS = (15.0, 50.0, 130.0, 300.0)
"""How long the load takes to rise and fall: faster than alerts, as fast as they settle, and slower."""


@dataclass(frozen=True, slots=True)
class _Watched:
    alerts: int
    moves: Counter[str]
    """By service."""


def ten_minutes() -> list[Figure]:
    """Every rhythm by itself; the figures are of the worst."""
    watched = [asyncio.run(_watch(seconds)) for seconds in _BREATHS_SECONDS]
    minutes = f"in {_WATCHED_SECONDS / 60:g} simulated minutes"
    rhythms = f"the worst of {len(watched)} rhythms of load"
    return [
        Figure(
            name="watched_alerts",
            value=min(each.alerts for each in watched),
            unit=f"alerts {minutes}, the fewest of {len(watched)} rhythms of load",
            at_least=2,
        ),
        Figure(
            name="watched_moves",
            value=max(each.moves.total() for each in watched),
            unit=f"moves {minutes}, {rhythms}",
            at_least=1,
            at_most=1,
        ),
        Figure(
            name="watched_moved_again",
            value=max(sum(count - 1 for count in each.moves.values()) for each in watched),
            unit=f"moves of a service that was moved before, {rhythms}",
            at_most=0,
        ),
    ]


async def _watch(breath_seconds: float) -> _Watched:
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder)) as stage:
            stage.begin()
            cluster = Breathing(stage, breath_seconds)
            driver = FakeDriver(view_now=view(), show=cluster.move)
            loop = ControlLoop(stage.core, await actor_of(stage, driver))
            until = stage.clock.now + _WATCHED_SECONDS
            while stage.clock.now < until:
                cluster.speak()
                await loop.run_once()
                stage.clock.now += _LOOK_SECONDS
            moved = [order for order in driver.orders if isinstance(order, Move)]
            return _Watched(
                alerts=sum(bool(node) for node in cluster.alerts),
                moves=Counter(service_of(order.task) for order in moved),
            )
