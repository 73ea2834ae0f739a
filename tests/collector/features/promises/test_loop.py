"""A policy that keeps promises in the control loop: when it runs, what it may do, and what it hands back."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from collector.act.drivers.interface import ActionResult, DriverError
from collector.act.loop import ControlLoop
from collector.act.queue_events import QueueState
from collector.act.records import Decision, DecisionOutcome, Pause, StepState
from collector.common.orchestrator import TaskView
from collector.decide.policies.actions import Action, Kill, Start
from collector.decide.policies.interface import Plan, Policy, PolicySettings
from collector.decide.policies.table import POLICIES
from collector.runtime.parts import Core
from collector.serve.api.control import Api, list_waiting
from collector.snapshot.tables import Snapshot
from tests.collector.act.builders import Stage, actor_of, staged
from tests.collector.features.energy4cloud.test_waiting import Engines, Hosts
from tests.collector.features.promises.promised import Promised, with_promises
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

WHY = ("because",)
ALPHA, BETA = "id-of-lax-alpha", "id-of-lax-beta"
CHECK_SECONDS = 5.0


class Keeper:
    """A policy that keeps promises by the plans that a test gives it."""

    def __init__(self) -> None:
        self.plans: list[Sequence[Action]] = []
        self.runs = 0

    def rebalance(self, _snapshot: Snapshot, _settings: PolicySettings) -> Plan:
        self.runs += 1
        return Plan(actions=tuple(self.plans.pop(0) if self.plans else ()))


class Scene:
    def __init__(self, stage: Stage, hosts: Hosts, loop: ControlLoop, driver: Engines) -> None:
        self.stage, self.hosts, self.loop, self.driver = stage, hosts, loop, driver

    async def check(self, count: int = 1) -> None:
        for _ in range(count):
            self.stage.clock.now += CHECK_SECONDS
            self.hosts.report()
            await self.loop.run_once()

    @property
    def decisions(self) -> list[Decision]:
        """Those of the policy, without attempts to start what waits and has no promise."""
        every = self.loop.actor.situation.journal.decisions()
        return [each for each in every if each.policy == "keeper"]


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    made = Keeper()
    policy = Policy(
        name="keeper", summary="", keeps_promises=True, timer_seconds=30.0, rebalance=made.rebalance
    )
    assert isinstance(POLICIES, dict)
    monkeypatch.setitem(POLICIES, "keeper", policy)
    return made


@asynccontextmanager
async def set_up(folder: Path, **settings: object) -> AsyncIterator[Scene]:
    limits = {"max_moves_per_hour": 0, "check_seconds": CHECK_SECONDS / 3}
    async with staged(folder, policy="", timer_policy="keeper", **{**limits, **settings}) as stage:
        hosts = Hosts(stage)
        hosts.report()
        driver = Engines(hosts)
        yield Scene(stage, hosts, ControlLoop(stage.core, await actor_of(stage, driver)), driver)


@pytest.fixture
async def scene(tmp_path: Path, keeper: Keeper) -> AsyncIterator[Scene]:
    assert keeper.runs == 0
    async with set_up(tmp_path) as made:
        yield made


def stop(task: str = ALPHA, node: str = "alpha") -> Kill:
    return Kill(task=task, name=task, node=node, target=None, reasons=WHY)


def start(task: str = ALPHA, target: str = "alpha") -> Start:
    return Start(task=task, name=task, target=target, reasons=WHY)


async def test_the_policy_runs_at_its_own_interval_unless_the_settings_change_it(
    scene: Scene, keeper: Keeper, tmp_path: Path
) -> None:
    await scene.check(12)
    assert keeper.runs == 2
    async with set_up(tmp_path / "slow", timer_seconds=60.0) as slow:
        (tmp_path / "slow").mkdir(exist_ok=True)
        await slow.check(12)
    assert keeper.runs == 3


async def test_limits_of_moves_do_not_apply(scene: Scene, keeper: Keeper) -> None:
    """Without a move allowed per hour, and long before any cool-down is over."""
    keeper.plans = [[stop(), stop(BETA, "beta")], [start(), start(BETA, "beta")], [], [stop()]]
    await scene.check(24)
    assert [type(each) for each in scene.driver.orders] == [Kill, Kill, Start, Start, Kill]
    assert [each.outcome for each in scene.decisions] == [DecisionOutcome.DONE] * 3


async def test_plan_that_failed_is_tried_again(scene: Scene, keeper: Keeper) -> None:
    keeper.plans = [[stop()], [stop()]]
    carry_out = scene.driver.carry_out

    async def fail_once(action: Action) -> ActionResult:
        scene.driver.carry_out = carry_out  # type: ignore[method-assign]
        raise DriverError(f"the manager is too busy for {action.kind}")

    scene.driver.carry_out = fail_once  # type: ignore[method-assign]
    await scene.check(12)
    second, first = scene.decisions
    assert (first.steps[0].state, second.steps[0].state) == (StepState.FAILED, StepState.VERIFIED)


async def test_room_is_reserved_from_the_stop_until_after_the_start(scene: Scene, keeper: Keeper) -> None:
    kept: list[str | None] = []
    carry_out = scene.driver.carry_out

    async def watch(action: Action) -> ActionResult:
        kept.append(scene.stage.core.reservations.kept_on(BETA, scene.stage.clock.now))
        return await carry_out(action)

    keeper.plans = [[stop(BETA, "beta")], [stop(), start(BETA, "alpha")]]
    scene.driver.carry_out = watch  # type: ignore[method-assign]
    await scene.check(12)
    assert kept == [None, "alpha", "alpha"]
    assert scene.stage.core.reservations.kept_on(BETA, scene.stage.clock.now) is None
    assert scene.hosts.places[BETA] == "alpha"


async def test_parked_containers_are_handed_back_when_no_policy_starts_them(scene: Scene) -> None:
    situation = scene.loop.actor.situation
    await scene.check()
    assert scene.driver.released[-1:] == [True]
    await situation.journal.set_pause(Pause(since=scene.stage.clock.now))
    await scene.check()
    assert scene.driver.released[-1:] == [False], "nothing is started during a pause"
    await situation.journal.set_pause(None)
    await scene.check()
    assert scene.driver.released[-1:] == [True]
    await scene.loop.stop()
    assert scene.driver.released[-1:] == [False]
    other = ControlLoop(with_policy(scene.stage, "energy4cloud"), scene.loop.actor)
    scene.stage.clock.now += CHECK_SECONDS
    await other.run_once()
    assert scene.driver.released[-1:] == [False], "the policy was turned off"


def with_policy(stage: Stage, name: str) -> Core:
    control = msgspec.structs.replace(stage.core.config.control, timer_policy=name)
    return replace(stage.core, config=msgspec.structs.replace(stage.core.config, control=control))


async def test_events_call_for_a_run_before_the_timer(
    scene: Scene, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation = scene.loop.actor.situation
    waiting: list[str] = []
    plain = situation.snapshot

    async def snapshot() -> Snapshot:
        taken = await plain()
        return queue(taken, waiting)

    monkeypatch.setattr(situation, "snapshot", snapshot)
    await scene.check(2)
    assert keeper.runs == 0
    waiting.append("new")
    await scene.check(2)
    assert keeper.runs == 1, "it began to wait"
    del scene.hosts.places[ALPHA]
    await scene.check(2)
    assert keeper.runs == 2, "a container ended"


def queue(snapshot: Snapshot, waiting: Sequence[str]) -> Snapshot:
    """The same cluster with these tasks waiting, all of one service with a promise."""
    nodes = [NodeFacts(name=name, capacity=Quantities(4.0, 1000)) for name in snapshot.nodes.names]
    running = [
        TaskFacts(id=task, node=snapshot.nodes.names[node])
        for task, node in zip(snapshot.tasks.ids, snapshot.tasks.node, strict=True)
        if node >= 0
    ]
    waits = [TaskFacts(id=name, node=None, service="web") for name in waiting]
    return with_promises(assemble(nodes, [*running, *waits]), {name: Promised() for name in waiting})


NODES = [NodeFacts(name=name, capacity=Quantities(4.0, 1000)) for name in ("alpha", "beta")]
STATE = QueueState(Counter({"web": 1}), frozenset({"alpha"}), frozenset({"c1", "c2"}))


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        (lambda state: state, False),
        (lambda state: replace(state, waiting=Counter({"web": 2})), True),
        (lambda state: replace(state, waiting=Counter({"web": 1, "api": 1})), True),
        (lambda state: replace(state, waiting=Counter()), False),
        (lambda state: replace(state, nodes=frozenset({"alpha", "beta"})), True),
        (lambda state: replace(state, nodes=frozenset()), False),
        (lambda state: replace(state, running=frozenset({"c1"})), True),
        (lambda state: replace(state, running=frozenset({"c1", "c2", "c3"})), False),
        (lambda state: replace(state, waiting=Counter(), running=frozenset()), False),
    ],
)
def test_which_events_call_for_a_run(change: Callable[[QueueState], QueueState], calls: bool) -> None:  # noqa: FBT001 - a case
    assert change(STATE).calls_for_run(STATE) is calls


def test_queue_is_read_from_a_snapshot() -> None:
    tasks = [
        TaskFacts(id="t1", node=None, service="web"),
        TaskFacts(id="t2", node=None, service="web"),
        TaskFacts(id="t3", node=None, service="unpromised"),
        TaskFacts(id="c1", node="alpha", service="web"),
    ]
    closed = replace(NODES[1], accepts=False)
    snapshot = assemble([NODES[0], closed], tasks)
    assert QueueState.of(snapshot).waiting == Counter()
    promised = with_promises(snapshot, {"t1": Promised(), "t2": Promised(), "c1": Promised()})
    assert QueueState.of(promised) == QueueState(Counter({"web": 2}), frozenset({"alpha"}), frozenset({"c1"}))


async def test_tasks_that_wait_in_the_orchestrator_are_listed(scene: Scene) -> None:
    pending = TaskView(id="t9", service=ALPHA, slot="1", created_at=5.0, stopped_on="alpha")
    never = TaskView(id="t8", service="new", created_at=4.0)
    scene.driver.has_queue = True
    scene.driver.view_now = replace(scene.driver.view_now, pending=(pending, never))
    await scene.loop.actor.situation.refresh()
    api = Api.of(scene.stage.core, scene.loop)
    [listed] = (await list_waiting(api)).waiting
    assert (listed.id, listed.name, listed.node, listed.since) == ("t9", f"{ALPHA}.1", "alpha", 5.0)
