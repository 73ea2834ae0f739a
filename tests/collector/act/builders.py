"""A small cluster whose reports a test sends, a fake driver, and the control loop on both."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from collector.act.drivers.interface import ActionResult, DriverError, HalfDoneError, Hold
from collector.act.journal import Journal
from collector.act.lease import Lease
from collector.act.loop import Actor
from collector.common.orchestrator import NodeView, OrchestratorState, ServiceView, TaskView
from collector.common.outages import Outages
from collector.config import CollectorConfig, ControlConfig, HistoryConfig, PlacementConfig
from collector.decide.policies.actions import Action, Move
from collector.decide.policies.draps import DRAPS, DrapsSettings
from collector.decide.policies.resolve import PolicyChoice
from collector.history.sqlite.history import open_history
from collector.observe.registry import Registry
from collector.runtime.parts import Core
from tests.collector.builders import HEARTBEAT, START, Clock, apply_report, container, partial_report, state
from wire.messages import Alert
from wire.resources import Quantities, Resource

NODES = ("alpha", "beta", "gamma")
HOG, STEADY = "hog", "steady"
_CORES = {HOG: 2.4, STEADY: 1.4}


def hog_id(copy: int = 0) -> str:
    return f"id-of-{HOG}" if copy == 0 else f"id-of-{HOG}-{copy}"


def service_of(container_id: str) -> str:
    """Return the service of a container id, of the first or a later container."""
    return HOG if container_id.startswith(hog_id()) else STEADY


@dataclass
class FakeDriver:
    """Records actions, and moves containers in the orchestrator's state."""

    name: str = "fake"
    dry: bool = False
    view_now: OrchestratorState = field(default_factory=OrchestratorState)
    orders: list[Action] = field(default_factory=list)
    undone: list[Action] = field(default_factory=list)
    fails: str | None = None
    is_half_done: bool = False
    """Whether a failure leaves something behind."""
    is_away: bool = False
    has_queue: bool = False
    released: list[bool] = field(default_factory=list)
    """Whether parked containers were kept, at each release."""
    held_back: list[list[str]] = field(default_factory=list)
    hangs: bool = False
    recovered: list[Action] = field(default_factory=list)
    recovery: ActionResult | DriverError | None = None
    """How a step turns out that was interrupted."""
    on_move: Callable[[Move], None] | None = None
    """Called after a move: it makes agents report the effect."""

    async def view(self) -> OrchestratorState:
        if self.is_away:
            raise DriverError("the manager does not answer")
        return self.view_now

    async def carry_out(self, action: Action) -> ActionResult:
        self.orders.append(action)
        if self.fails is not None:
            raise HalfDoneError(self.fails) if self.is_half_done else DriverError(self.fails)
        if isinstance(action, Move):
            self.move(action)
            if self.on_move is not None:
                self.on_move(action)
        if self.hangs:
            await asyncio.Event().wait()
        return ActionResult(what="done", before=b"as it was", containers=())

    async def prepare(self, action: Action) -> bytes:  # noqa: ARG002 - for others
        return b"as it was"

    async def recover(self, action: Action, noted: bytes) -> ActionResult | None:
        assert noted == b"as it was"
        self.recovered.append(action)
        if isinstance(self.recovery, DriverError):
            raise self.recovery
        return self.recovery

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
        self._sequence: Counter[str] = Counter()
        self._short: dict[str, Alert] = {}

    def send_heartbeat(
        self,
        node: str,
        *names: str,
        cpu_cores: float | None = None,
        copy: int = 0,
        busy: float = 1.0,
        started_at: float = START - 10_000,
    ) -> float:
        """Send a heartbeat of a node with these containers; return the cores in use."""
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
        self.send_report(
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
        self.send_report(node, alerts=(node_alert,))

    def send_report(self, node: str, **parts: Any) -> None:
        self._sequence[node] += 1
        report = partial_report(node, sequence=self._sequence[node], at=self.clock.now, **parts)
        apply_report(self.core.registry, report, self.clock.now)

    def begin(self) -> None:
        """Report that alpha runs both services and is short of CPU, and that the others are idle."""
        self.send_heartbeat("alpha", HOG, STEADY)
        self.send_heartbeat("beta", cpu_cores=0.2)
        self.send_heartbeat("gamma", cpu_cores=0.1)
        self.alert("alpha")

    def report_move(self, move: Move, started_at: float = START - 10_000) -> None:
        """Send the reports of agents after the hog has moved."""
        self.send_heartbeat("alpha", STEADY)
        self.send_heartbeat(move.target, HOG, copy=1, started_at=started_at)


class FluctuatingLoad:
    """Nodes whose load rises and falls, with an alert whenever they are full."""

    _FULL_CORES, _BETTER_CORES = 3.5, 3.2

    def __init__(self, stage: Stage, period_seconds: float = 50.0) -> None:
        self._stage, self._period_seconds = stage, period_seconds
        self._copies = 0
        self.places = {HOG: "alpha", STEADY: "alpha"}
        self.alerts: list[str] = []
        """The nodes that were short, in order."""

    def move(self, move: Move) -> None:
        """Report a move."""
        name = service_of(move.task)
        self.places[name] = move.target
        self._copies += name == HOG
        self.send_heartbeats()

    def send_heartbeats(self) -> None:
        """Send a heartbeat of every node, and open or close alerts."""
        phase = math.sin(2 * math.pi * self._stage.clock.now / self._period_seconds)
        for node in NODES:
            there = [name for name, place in self.places.items() if place == node]
            used = self._stage.send_heartbeat(node, *there, copy=self._copies, busy=1.25 + 0.25 * phase)
            is_short = self.alerts[-1:] == [node]
            if not is_short and used >= self._FULL_CORES:
                self.alerts.append(node)
                self._stage.alert(node)
            elif is_short and used < self._BETTER_CORES:
                self.alerts.append("")
                self._stage.alert(node, closed=True)


@asynccontextmanager
async def staged(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """Run a collector with a history in this folder."""
    clock = Clock()
    config = CollectorConfig(
        history=HistoryConfig(path=str(folder / "history.db")),
        control=ControlConfig(**{"verify_seconds": 3.0, "settle_seconds": 60.0, **settings}),
        placement=PlacementConfig(snapshot_seconds=0),
    )
    outages = Outages()
    async with open_history(config, outages) as history:
        yield Stage(Core(config, Registry(config), history, clock, outages=outages), clock)


async def actor_of(stage: Stage, driver: FakeDriver, lease: Lease | None = None) -> Actor:
    """Create an actor with the stored journal."""
    journal = Journal(stage.core.history, keep=100, keep_input_bytes=1 << 20)
    await journal.load()

    async def wait(seconds: float) -> None:
        stage.clock.now += seconds
        await asyncio.sleep(0)

    actor = Actor.of(stage.core, driver, journal, lease, wait)
    await actor.situation.renew_lease()
    await actor.situation.refresh()
    return actor


CHOSEN = PolicyChoice(DRAPS, DrapsSettings(cool_down_seconds=0.0))
