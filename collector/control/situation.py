"""What a collector that acts knows: the cluster, what its orchestrator says, and who may act."""

import asyncio
import logging

from collector.common.outages import Dependency
from collector.control.guards import GuardContext
from collector.control.journal import Journal
from collector.control.lease import Lease
from collector.control.orchestrator_state import CompletedActions, allocations, hosts
from collector.control.records import IN_MOTION, Pause, Step
from collector.control.schedule import Schedule
from collector.core.parts import Core
from collector.drivers.interface import Driver, DriverError, OrchestratorState
from collector.policies.actions import Cut
from collector.snapshot.tables import Snapshot
from wire.resources import Quantities

log = logging.getLogger(__name__)

_LONG_AGO_SECONDS = 86_400.0


class Situation:
    """All that is known before something is decided or done."""

    def __init__(self, core: Core, driver: Driver, journal: Journal, lease: Lease | None) -> None:
        self.core, self._driver, self._lease = core, driver, lease
        self.settings = core.config.control
        self._timetable = Schedule.of(
            self.settings.allowed_times, self.settings.forbidden_times, self.settings.time_zone
        )
        self.journal = journal
        self.view = OrchestratorState()
        self._seen_at: float | None = None
        self._heard_again_at: float | None = None
        self.holder: str | None = "nobody yet"
        """Who acts, if this collector does not."""
        self._taken_over_at: float | None = None

    @property
    def driver_name(self) -> str:
        return self._driver.name

    @property
    def is_dry(self) -> bool:
        return self._driver.dry

    @property
    def pause(self) -> Pause | None:
        """The pause that lasts, if one does."""
        pause = self.journal.pause
        if pause is not None and pause.until is not None and pause.until <= self.core.clock():
            return None
        return pause

    @property
    def acts(self) -> bool:
        """Whether plans are carried out now."""
        return not self.is_dry and self.pause is None and self.holder is None

    @property
    def in_motion(self) -> int:
        """Steps that are begun and not ended."""
        return sum(step.state in IN_MOTION for _, step in self.journal.begun(self.core.clock()))

    @property
    def last_healed_seconds(self) -> float | None:
        """How long the last decision took that healed a bottleneck."""
        return next(
            (each.healed_seconds for each in self.journal.decisions() if each.healed_seconds is not None),
            None,
        )

    @property
    def trouble(self) -> str | None:
        """Why the driver cannot act, if it cannot."""
        return self.core.outages.parts.get(Dependency.DRIVER) or None

    @property
    def hearsay(self) -> str | None:
        """That the orchestrator is away, and how old its last word is; None while it answers."""
        if self.trouble is None:
            return None
        if self._seen_at is None:
            return f"{self.trouble}; it has said nothing of its nodes and services yet"
        ago = self.core.clock() - self._seen_at
        return f"{self.trouble}; what it said of its nodes and services is {ago:.0f} s old"

    # --- Monitor ----------------------------------------------------------------------------------

    async def hold(self) -> bool:
        """Hold the lease, or go on holding it; says whether this collector may act."""
        if self._lease is None:
            self.holder = None
            return True
        held = await self._lease.take()
        self.holder = None if held.mine else held.holder
        if held.mine and held.before is not None:
            self._taken_over_at = self.core.clock()
        return held.mine

    async def see(self) -> bool:
        """Put on the board what the orchestrator knows; says whether it answered."""
        try:
            self.view = await self._driver.view()
        except DriverError as error:
            self.core.outages.begin(Dependency.DRIVER, f"the driver {self.driver_name} cannot act: {error}")
            return False
        self._seen_at = self.core.clock()
        if self.trouble is not None:
            self._heard_again_at = self._seen_at
        self.core.outages.end(Dependency.DRIVER, f"the driver {self.driver_name} can act again")
        self.tell_board()
        return True

    async def release(self) -> None:
        """Let the driver take back what it left half done when a collector was killed."""
        try:
            for what in await self._driver.release():
                log.info("%s", what)
        except DriverError as error:
            log.warning("what was left half done stays so for now: %s", error)

    def tell_board(self) -> None:
        """Put on the board what the orchestrator said last, and what was done since."""
        board, deeds = self.core.registry.tables, CompletedActions.of(self.journal.carried_out())
        board.put_allocations(allocations(self.view, deeds, opt_in=self.settings.opt_in))
        for host in hosts(self.view, deeds):
            board.put_status(host)

    async def snapshot(self) -> Snapshot:
        """The cluster now, with what was hinted or made room for and is not there yet."""
        taken = await asyncio.to_thread(self.core.registry.tables.snapshot, self.core.clock())
        return self.core.reservations.fold(taken, self.core.clock())

    def circumstances(self, snapshot: Snapshot, own: str | None = None) -> GuardContext:
        """What guards look at, before a step of the decision that is called `own`, or of a new one."""
        now = self.core.clock()
        begun = list(self.journal.begun(now - _LONG_AGO_SECONDS))
        holder = self.holder
        if holder is None and self._lease is not None and not self._lease.is_mine:
            holder = "the lease of this one has expired"
        return GuardContext(
            now=now,
            settings=self.settings,
            timetable=self._timetable,
            snapshot=snapshot,
            view=self.view,
            pause=self.pause,
            holder=holder,
            taken_over_at=self._taken_over_at,
            trouble=self.trouble,
            heard_again_at=self._heard_again_at,
            earlier=[step for decision, step in begun if decision.id != own],
            own=[step for decision, step in begun if decision.id == own],
        )

    def limit(self, step: Step) -> Quantities | None:
        """What the node of a container that is cut sees as its limits."""
        action = step.action
        if not isinstance(action, Cut):
            return None
        for node in self.core.registry.nodes(self.core.clock(), node=action.node):
            if action.task in node.run.containers:
                return node.run.containers[action.task].value.limit
        return None
