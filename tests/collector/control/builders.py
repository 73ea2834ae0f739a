"""A small cluster with reports by hand, a fake driver, and the control loop on both."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from collector.common.outages import Outages
from collector.config import CollectorConfig, ControlConfig, HistoryConfig, PlacementConfig
from collector.control.actor import Actor
from collector.control.journal import Journal
from collector.control.lease import Lease
from collector.core.parts import Core
from collector.drivers.interface import (
    ActionResult,
    DriverError,
    Hold,
    NodeView,
    OrchestratorState,
    ServiceView,
    TaskView,
)
from collector.history.factory import open_history
from collector.live.registry import Registry
from collector.policies.actions import Action, Move
from collector.policies.draps import DRAPS
from collector.policies.interface import FillLimits
from collector.policies.resolve import PolicyChoice
from tests.collector.builders import HEARTBEAT, START, Clock, apply_report, container, partial_report, state
from wire.messages import Alert
from wire.resources import Quantities, Resource

NODES = ("alpha", "beta", "gamma")
HOG, STEADY = "hog", "steady"
_CORES = {HOG: 2.4, STEADY: 1.4}


def hog_id(copy: int = 0) -> str:
    return f"id-of-{HOG}" if copy == 0 else f"id-of-{HOG}-{copy}"


def service_of(container_id: str) -> str:
    """Whose container an id is, the first or a later one."""
    return HOG if container_id.startswith(hog_id()) else STEADY


@dataclass
class FakeDriver:
    """Moves containers in its own books, and in what the agents say if `show` is there to say it."""

    name: str = "fake"
    dry: bool = False
    view_now: OrchestratorState = field(default_factory=OrchestratorState)
    orders: list[Action] = field(default_factory=list)
    undone: list[Action] = field(default_factory=list)
    fails: str | None = None
    is_away: bool = False
    has_queue: bool = False
    released: list[bool] = field(default_factory=list)
    """Whether parked containers were kept, at each release."""
    held_back: list[list[str]] = field(default_factory=list)
    hangs: bool = False
    show: Callable[[Move], None] | None = None

    async def view(self) -> OrchestratorState:
        if self.is_away:
            raise DriverError("the manager does not answer")
        return self.view_now

    async def carry_out(self, action: Action) -> ActionResult:
        self.orders.append(action)
        if self.fails is not None:
            raise DriverError(self.fails)
        if isinstance(action, Move):
            self.move(action)
            if self.show is not None:
                self.show(action)
        if self.hangs:
            await asyncio.Event().wait()
        return ActionResult(what="done", before=b"as it was", containers=())

    async def undo(self, action: Action, done: ActionResult) -> None:
        assert done.before == b"as it was"
        self.undone.append(action)

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:
        self.released.append(keep_parked)
        return ()

    async def hold_back(self, tasks: Collection[str]) -> tuple[str, ...]:
        self.held_back.append(sorted(tasks))
        return ()

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        return Hold(
            replicas=sum(replicas.values()),
            constraints=tuple(f"node=={node}" for node in replicas),
            labels={"mark": "held"},
        )

    def move(self, action: Move) -> None:
        tasks = [
            replace(each, container=each.container + "-1", node=action.target)
            if each.container == action.task
            else each
            for each in self.view_now.tasks
        ]
        self.view_now = replace(self.view_now, tasks=tuple(tasks))


def view(**changes: Any) -> OrchestratorState:
    """Three nodes, and two services on the first of them."""
    services = [ServiceView(name=name, replicas=1, **changes.get(name, {})) for name in (HOG, STEADY)]
    tasks = [
        TaskView(container=f"id-of-{name}", service=name, node="alpha", state="running")
        for name in (HOG, STEADY)
    ]
    nodes = [NodeView(name=name, **changes.get(name, {})) for name in NODES]
    return OrchestratorState(nodes=tuple(nodes), services=tuple(services), tasks=tuple(tasks))


class Stage:
    """A collector without a server, with nodes whose reports the test chooses."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self.core, self.clock = core, clock
        self._sequence = dict.fromkeys(NODES, 0)
        self._short: dict[str, Alert] = {}

    def speak(
        self,
        node: str,
        *names: str,
        cpu_cores: float | None = None,
        copy: int = 0,
        busy: float = 1.0,
        started_at: float = START - 10_000,
    ) -> float:
        """A whole heartbeat of a node, with these containers, more or less busy; gives the cores in use."""
        there = tuple(
            container(
                name,
                id=hog_id(copy) if name == HOG else f"id-of-{name}",
                service=name,
                limit=Quantities(),
                used=Quantities(busy * _CORES[name], 50_000_000),
                started_at=started_at,
            )
            for name in names
        )
        used = busy * sum(_CORES[name] for name in names) if cpu_cores is None else cpu_cores
        # A heartbeat that does not name an alert ends it.
        alerts = (self._short[node],) if node in self._short else ()
        self.say(
            node,
            state=state(used=Quantities(used, 10**9)),
            containers=there,
            heartbeat=HEARTBEAT,
            alerts=alerts,
        )
        return used

    def alert(self, node: str, *, closed: bool = False) -> None:
        node_alert = Alert(Resource.CPU, START, "busy", closed_at=self.clock.now if closed else None)
        self._short[node] = node_alert
        self.say(node, alerts=(node_alert,))

    def say(self, node: str, **parts: Any) -> None:
        self._sequence[node] += 1
        report = partial_report(node, sequence=self._sequence[node], at=self.clock.now, **parts)
        apply_report(self.core.registry, report, self.clock.now)

    def begin(self) -> None:
        """Alpha runs both and is short of CPU; the others are idle."""
        self.speak("alpha", HOG, STEADY)
        self.speak("beta", cpu_cores=0.2)
        self.speak("gamma", cpu_cores=0.1)
        self.alert("alpha")

    def show(self, move: Move, started_at: float = START - 10_000) -> None:
        """What agents say once the hog runs elsewhere."""
        self.speak("alpha", STEADY)
        self.speak(move.target, HOG, copy=1, started_at=started_at)


class Breathing:
    """Nodes whose load rises and falls, and that call themselves short whenever they are full."""

    _FULL_CORES, _BETTER_CORES = 3.5, 3.2

    def __init__(self, stage: Stage, breath_seconds: float = 50.0) -> None:
        self._stage, self._breath_seconds = stage, breath_seconds
        self._copies = 0
        self.places = {HOG: "alpha", STEADY: "alpha"}
        self.alerts: list[str] = []
        """The nodes that were short, in order."""

    def move(self, move: Move) -> None:
        """What the agents see of a move."""
        name = service_of(move.task)
        self.places[name] = move.target
        self._copies += name == HOG
        self.speak()

    def speak(self) -> None:
        """Every node says how it is."""
        phase = math.sin(2 * math.pi * self._stage.clock.now / self._breath_seconds)
        for node in NODES:
            there = [name for name, place in self.places.items() if place == node]
            used = self._stage.speak(node, *there, copy=self._copies, busy=1.25 + 0.25 * phase)
            is_short = self.alerts[-1:] == [node]
            if not is_short and used >= self._FULL_CORES:
                self.alerts.append(node)
                self._stage.alert(node)
            elif is_short and used < self._BETTER_CORES:
                self.alerts.append("")
                self._stage.alert(node, closed=True)


@asynccontextmanager
async def staged(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A collector on a history of its own; the same folder is the same history."""
    clock = Clock()
    config = CollectorConfig(
        history=HistoryConfig(path=str(folder / "history.db")),
        control=ControlConfig(**{"verify_seconds": 3.0, "settle_seconds": 60.0, **settings}),
        placement=PlacementConfig(snapshot_seconds=0),
    )
    troubles = Outages()
    async with open_history(config, troubles, clock) as history:
        yield Stage(Core(config, Registry(config), history, clock, outages=troubles), clock)


async def actor_of(stage: Stage, driver: FakeDriver, lease: Lease | None = None) -> Actor:
    """What acts on a stage, knowing what was on record."""
    journal = Journal(stage.core.history, keep=100, keep_input_bytes=1 << 20)
    await journal.load()

    async def wait(seconds: float) -> None:
        stage.clock.now += seconds
        await asyncio.sleep(0)

    actor = Actor.of(stage.core, driver, journal, lease, wait)
    await actor.situation.renew_lease()
    await actor.situation.refresh()
    return actor


CHOSEN = PolicyChoice(DRAPS, FillLimits(cool_down_seconds=0.0))
