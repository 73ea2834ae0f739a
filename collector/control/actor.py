"""The will of one collector: what it knows, how it decides, and what it does."""

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
    """Its parts, over one journal and one driver."""

    situation: Situation
    decider: Planner
    hands: Executor

    @classmethod
    def of(
        cls,
        core: Core,
        driver: Driver,
        journal: Journal,
        lease: Lease | None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> "Actor":
        """One that acts through a driver; without a lease, nobody is asked for leave."""
        situation = Situation(core, driver, journal, lease)
        return cls(situation, Planner(situation), Executor(situation, driver, wait))
