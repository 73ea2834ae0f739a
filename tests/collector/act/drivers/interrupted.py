"""A decision whose collector dies at a chosen point, and what the next collector makes of it.

    fuse = Fuse(at=3, sent=True)
    step = await interrupted(folder, world, MOVE, fuse)

A point is a change: a record in the journal, or a request that changes something. The collector dies right
before it, or right after it; then nothing of it runs any more, no cleanup either. The next one has the same
journal and the same engines.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from collector.act.drivers.engine.client import Engine, Engines
from collector.act.drivers.engine.containers import DockerContainer, limit_of
from collector.act.drivers.interface import Driver
from collector.act.journal import Journal
from collector.act.loop import Actor
from collector.act.planner import Decider
from collector.act.records import Step, Trigger
from collector.decide.policies.actions import Action
from collector.decide.policies.interface import Plan
from collector.history.sqlite.history import History
from tests.collector.act.builders import CHOSEN, Stage, staged
from tests.collector.builders import HEARTBEAT, START, container, state
from wire.resources import Quantities

Response = TypeVar("Response")
_ROUNDS = 400
"""Waits of an executor until a test gives up."""


class KilledError(BaseException):
    """The collector is dead: nothing may catch this."""


@dataclass
class Fuse:
    """Kills the collector at its change number `at`: before it, or after it if it was `sent`."""

    at: int = -1
    sent: bool = False
    changes: list[str] = field(default_factory=list)
    is_dead: bool = False

    async def guard(self, what: str, change: Callable[[], Awaitable[Response]]) -> Response:
        self.check()
        self.changes.append(what)
        dies = len(self.changes) == self.at + 1
        if dies and not self.sent:
            self.die()
        try:
            return await change()
        finally:
            if dies:
                self.die()

    def check(self) -> None:
        if self.is_dead:
            raise KilledError

    def die(self) -> None:
        self.is_dead = True
        raise KilledError


class Point(NamedTuple):
    """Where a collector dies on real parts: before change number `at` of an action, or right after it."""

    action: str
    at: int
    sent: bool

    def __str__(self) -> str:
        return f"{self.action}-{'after' if self.sent else 'before'}-{self.at}"

    @property
    def reports(self) -> bool:
        """Whether agents report what the action made."""
        return not self.action.endswith("unseen")

    def fuse(self) -> Fuse:
        return Fuse(self.at, self.sent)


Changes = Mapping[str, list[str]]
"""All changes of each action, in order."""


def all_points(table: Changes) -> list[Point]:
    """Return all points on real parts: before the records of moves, before and after the requests of all.

    A record is between two other changes: right after one is right before the next.
    """
    return [
        Point(action, at, sent)
        for action, changes in _real(table)
        for at, change in enumerate(changes)
        for sent in ((False, True) if change != "journal" else (False,))
        if change != "journal" or action == "move"
    ]


def halfway(table: Changes) -> list[Point]:
    """Return a point per action: half of its last requests are sent, and the journal tells of none."""
    points = []
    for action, changes in _real(table):
        end = max(at for at, change in enumerate(changes) if change != "journal") + 1
        first = end
        while changes[first - 1] != "journal":
            first -= 1
        points.append(Point(action, (first + end - 1) // 2, sent=True))
    return points


def _real(table: Changes) -> Iterator[tuple[str, list[str]]]:
    """Return the actions that the lab can carry out: its containers stay healthy."""
    return ((action, changes) for action, changes in table.items() if not action.endswith("sick"))


class DyingEngine:
    """The requests of a collector to an engine."""

    def __init__(self, engine: Engine, fuse: Fuse) -> None:
        self._engine, self._fuse = engine, fuse

    async def get(self, path: str, kind: type[Response], **parameters: str | int) -> Response:
        self._fuse.check()
        found = await self._engine.get(path, kind, **parameters)
        self._fuse.check()
        return found

    async def post(self, path: str, body: Any = None, **parameters: Any) -> bytes:
        what = path.rsplit("/", 1)[-1]
        return await self._fuse.guard(what, lambda: self._engine.post(path, body, **parameters))

    async def delete(self, path: str, **parameters: str | int) -> None:
        await self._fuse.guard("delete", lambda: self._engine.delete(path, **parameters))


class DyingHistory:
    """The records of a collector; those of the journal can be its last."""

    def __init__(self, history: History, fuse: Fuse) -> None:
        self._history, self._fuse = history, fuse

    async def get_values(self, kind: str) -> Mapping[str, bytes]:
        return await self._history.get_values(kind)

    async def put_values(self, kind: str, values: Mapping[str, bytes | None]) -> None:
        if kind != "decision":
            self._fuse.check()
            return await self._history.put_values(kind, values)
        return await self._fuse.guard("journal", lambda: self._history.put_values(kind, values))


class World(Protocol):
    """Hosts on which actions are carried out."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the hosts."""

    @property
    def keeps_promises(self) -> bool:
        """Whether the decision keeps promises: others let nothing wait that an orchestrator restarts."""

    @property
    def poll_seconds(self) -> float:
        """Time between two looks at what agents report."""

    def driver(self, fuse: Fuse) -> Driver:
        """Return a driver whose requests burn the fuse."""

    def containers(self, node: str) -> Iterator[DockerContainer]:
        """Return all containers of a node, whether they run or not."""


def dying_engines(engines: Mapping[str, Any], fuse: Fuse) -> Engines:
    return Engines({name: cast("Engine", DyingEngine(each, fuse)) for name, each in engines.items()})


async def interrupted(
    folder: Path, world: World, action: Action, fuse: Fuse, *, reports: bool = True
) -> Step:
    """Carry out an action until the fuse burns; return the step after the next collector has recovered it.

    With `reports`, agents report what runs; without, they report nothing new, so that the action is undone.
    """
    with suppress(KilledError):
        await begin(folder, world, action, fuse, reports=reports)
    return await recovered(folder, world, action, reports=reports)


async def begin(folder: Path, world: World, action: Action, fuse: Fuse, *, reports: bool = True) -> None:
    """Decide on an action, and carry it out until the fuse burns."""
    async with staged(folder) as stage:
        _report(stage, world)
        actor = await _actor(stage, world, fuse, reports=reports)
        decider = replace(Decider.of(CHOSEN), keeps_promises=world.keeps_promises)
        snapshot = await actor.situation.snapshot()
        decision = await actor.planner.record(Trigger.TIMER, decider, snapshot, Plan(actions=(action,)))
        assert decision is not None
        await actor.executor.carry_out(decision)


async def recovered(folder: Path, world: World, action: Action, *, reports: bool = True) -> Step:
    """Return the step after another collector has taken over; as planned if the journal has none."""
    async with staged(folder) as stage:
        _report(stage, world)
        actor = await _actor(stage, world, Fuse(), reports=reports)
        await actor.executor.recover()
        await actor.situation.release(keep_parked=world.keeps_promises)
        for decision in actor.situation.journal.decisions():
            assert decision.ended_at is not None
            return decision.steps[0]
        return Step(action=action)


async def _actor(stage: Stage, world: World, fuse: Fuse, *, reports: bool) -> Actor:
    journal = Journal(
        cast("History", DyingHistory(stage.core.history, fuse)), keep=100, keep_input_bytes=1 << 20
    )
    await journal.load()
    rounds = iter(range(_ROUNDS))

    async def wait(seconds: float) -> None:
        fuse.check()
        assert next(rounds, None) is not None, "it waits for ever"
        stage.clock.now += seconds
        if reports:
            _report(stage, world)
        await asyncio.sleep(world.poll_seconds)

    actor = Actor.of(stage.core, world.driver(fuse), journal, None, wait)
    await actor.situation.refresh()
    return actor


def _report(stage: Stage, world: World) -> None:
    """Let the agent of every node report its running containers."""
    for node in world.nodes:
        there = tuple(
            container(
                each.plain_name,
                id=each.id,
                service=each.labels.get("com.docker.swarm.service.name", each.plain_name),
                limit=limit_of(each.host_config),
                used=Quantities(0.2, 1 << 20),
                labels=dict(each.labels),
                started_at=START - 10_000,
            )
            for each in world.containers(node)
            if each.state.status == "running"
        )
        used = Quantities(0.2 * len(there), 1 << 30)
        stage.send_report(node, state=state(used=used), containers=there, heartbeat=HEARTBEAT)
