"""The will of one collector: what it knows, how it decides, and what it does."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from collector.acting.carrying_out import Hands
from collector.acting.deciding import Decider
from collector.acting.journal import Journal
from collector.acting.lease import Lease
from collector.acting.situation import Situation
from collector.core import Core
from collector.drivers.interface import Driver


@dataclass(frozen=True, slots=True)
class Actor:
    """Its parts, over one journal and one driver."""

    situation: Situation
    decider: Decider
    hands: Hands

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
        return cls(situation, Decider(situation), Hands(situation, driver, wait))
