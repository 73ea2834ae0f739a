"""Stability of the control loop for ten simulated minutes after a bottleneck, while load rises and falls.

The nodes report bottlenecks repeatedly, also the target of the move: a loop that reacts to each alert alone
would move a service back and forth. The loop, its guards and its journal are the collector's own; the reports
of agents, the orchestrator and the clock are simulated.
"""

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.common.results import Figure
from collector.act.loop import ControlLoop
from collector.decide.policies.actions import Move
from tests.collector.act.builders import FakeDriver, FluctuatingLoad, actor_of, service_of, staged, view

_DURATION_SECONDS = 600.0
_STEP_SECONDS = 5.0
_PERIODS_SECONDS = (15.0, 50.0, 130.0, 300.0)
"""Periods of the load: shorter than an alert takes to open, about as long, and longer."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    alerts: int
    moves: Counter[str]
    """Moves per service."""


def ten_minutes() -> list[Figure]:
    """Run the loop with each period of load; the figures are those of the worst run."""
    outcomes = [asyncio.run(_run_loop(seconds)) for seconds in _PERIODS_SECONDS]
    minutes = f"in {_DURATION_SECONDS / 60:g} simulated minutes"
    worst = f"the worst of {len(outcomes)} periods of load"
    return [
        Figure(
            name="watched_alerts",
            value=min(each.alerts for each in outcomes),
            unit=f"alerts {minutes}, the fewest of {len(outcomes)} periods of load",
            at_least=2,
        ),
        Figure(
            name="watched_moves",
            value=max(each.moves.total() for each in outcomes),
            unit=f"moves {minutes}, {worst}",
            at_least=1,
            at_most=1,
        ),
        Figure(
            name="watched_moved_again",
            value=max(sum(count - 1 for count in each.moves.values()) for each in outcomes),
            unit=f"moves of a service that was moved before, {worst}",
            at_most=0,
        ),
    ]


async def _run_loop(period_seconds: float) -> _Outcome:
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder)) as stage:
            stage.begin()
            cluster = FluctuatingLoad(stage, period_seconds)
            driver = FakeDriver(view_now=view(), on_move=cluster.move)
            loop = ControlLoop(stage.core, await actor_of(stage, driver))
            until = stage.clock.now + _DURATION_SECONDS
            while stage.clock.now < until:
                cluster.send_heartbeats()
                await loop.run_once()
                stage.clock.now += _STEP_SECONDS
            moves = [order for order in driver.orders if isinstance(order, Move)]
            return _Outcome(
                alerts=sum(bool(node) for node in cluster.alerts),
                moves=Counter(service_of(order.task) for order in moves),
            )
