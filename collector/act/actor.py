"""The parts of the control loop that act: situation, planner, executor; and the controllers of features."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from collector.act.drivers.interface import Driver
from collector.act.executor import Executor
from collector.act.journal import Journal
from collector.act.lease import Lease
from collector.act.planner import Planner
from collector.act.situation import Situation
from collector.decide.policies.resolve import PolicyChoice
from collector.runtime.parts import Core


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
        return cls(situation, Planner(situation), Executor(situation, wait))


class Controller:
    """Decides about one aspect of the cluster, and acts through the planner and the executor."""

    is_before_timer: ClassVar[bool] = False
    """Whether it runs before the timer policy; otherwise it runs last."""

    def __init__(self, actor: Actor) -> None:
        raise NotImplementedError

    async def start(self, stack: AsyncExitStack) -> None:
        """Load the stored state, and open what stays open while the control loop runs."""

    async def run(self, alert_policy: PolicyChoice | None) -> bool:
        """Decide and act; return whether the round ends here, so that the effect can show."""
        raise NotImplementedError


AnyController = TypeVar("AnyController", bound=Controller)
