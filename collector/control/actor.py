"""The parts of the control loop that act: situation, planner, executor."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from collector.control.executor import Executor
from collector.control.journal import Journal
from collector.control.lease import Lease
from collector.control.planner import Planner
from collector.control.situation import Situation
from collector.core.parts import Core
from collector.drivers.interface import Driver


@dataclass(frozen=True, slots=True)
class Actor:
    """Plans and carries out decisions, with one journal and one driver."""

    situation: Situation
    planner: Planner
    executor: Executor

    @classmethod
    def of(
        cls,
        core: Core,
        driver: Driver,
        journal: Journal,
        lease: Lease | None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> "Actor":
        """Create the actor of a driver. Without a lease, this collector always acts."""
        situation = Situation(core, driver, journal, lease)
        return cls(situation, Planner(situation), Executor(situation, driver, wait))
