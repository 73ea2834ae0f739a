"""Optional services on a short node, with reports by hand and a driver that changes its own books."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.act.drivers.interface import ActionResult, DriverError
from collector.act.records import DecisionOutcome, Pause, StepState, Trigger
from collector.common.labels import ACT_LABEL, NEVER, OPTIONAL_LABEL, WEIGHT_LABEL
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.decide.policies.actions import Action, Kill, Move, Scale, Start
from collector.decide.policies.interface import Plan
from collector.features.brownout.controllers import Brownout
from collector.features.brownout.settings import BrownoutConfig, PowerConfig
from tests.collector.act.builders import CHOSEN, NODES, FakeDriver, Stage, actor_of, staged
from tests.collector.builders import HEARTBEAT, container, state
from wire.messages import Alert, ContainerPower, NodePower, PowerSource
from wire.resources import Quantities, Resource

MANDATORY, LIGHT, HEAVY = "shop", "ads", "search"
WATTS_EACH = 10.0


@dataclass
class Cluster(FakeDriver):
    """Services on alpha, of which two are optional; agents report what runs."""

    stage: Stage | None = None
    runs: dict[str, int] = field(default_factory=lambda: {MANDATORY: 1, LIGHT: 1, HEAVY: 2})
    labels: dict[str, dict[str, str]] = field(
        default_factory=lambda: {
            MANDATORY: {},
            LIGHT: {OPTIONAL_LABEL: "true", WEIGHT_LABEL: "0.5"},
            HEAVY: {OPTIONAL_LABEL: "true", WEIGHT_LABEL: "2"},
        }
    )
    noted: dict[str, int] = field(default_factory=dict)
    is_short: bool = True
    is_standalone: bool = False
    broken: set[str] = field(default_factory=set)
    """Services for which every action fails."""
    stays: str | None = "it is pinned"
    """Why no service may move."""
    shortage: dict[str, Any] = field(default_factory=dict)
    """What the alert says about it."""
    is_late: bool = False
    """Whether actions take effect after the driver gave up."""

    def look(self) -> None:
        """What the orchestrator lists, and what agents report."""
        mode = Mode.STANDALONE if self.is_standalone else Mode.REPLICATED
        self.view_now = OrchestratorState(
            nodes=tuple(NodeView(name=name) for name in NODES),
            services=tuple(
                ServiceView(
                    name=name,
                    mode=mode,
                    replicas=count,
                    labels=self.labels[name],
                    stays=self.stays,
                    stopped_replicas=0 if count else self.noted.get(name, 0),
                )
                for name, count in self.runs.items()
                if count or not self.is_standalone
            ),
            tasks=tuple(
                TaskView(container=each, service=name, node="alpha", state="running")
                for name, count in self.runs.items()
                for each in self.ids(name, count)
            ),
        )
        self.report()

    def ids(self, name: str, count: int) -> list[str]:
        return [f"id-of-{name}-{copy}" for copy in range(count)]

    def report(self) -> None:
        assert self.stage is not None
        there = tuple(
            container(
                each,
                id=each,
                service=name,
                limit=Quantities(),
                used=Quantities(0.5, 10**8),
                power=ContainerPower(WATTS_EACH, PowerSource.RAPL, 0.03, 75.0),
            )
            for name, count in self.runs.items()
            for each in self.ids(name, count)
        )
        alerts = (
            (Alert(Resource.MEMORY, self.stage.clock.now, "short", **self.shortage),) if self.is_short else ()
        )
        watts = 30.0 + WATTS_EACH * len(there)
        power = NodePower(watts, 30.0, 0.0, PowerSource.RAPL, 0.03, 1500.0)
        used = Quantities(0.5 * len(there), 10**8 * len(there))
        self.stage.send_report(
            "alpha",
            state=state(used=used, power=power),
            containers=there,
            heartbeat=HEARTBEAT,
            alerts=alerts,
        )
        for node in NODES[1:]:
            idle = NodePower(0.0, 0.0, 0.0, PowerSource.RAPL, 0.03, 1500.0)
            self.stage.send_report(
                node, state=state(used=Quantities(0.1, 10**8), power=idle), heartbeat=HEARTBEAT
            )

    async def carry_out(self, action: Action) -> ActionResult:
        self.orders.append(action)
        if self.fails is not None:
            raise DriverError(self.fails)
        if self.is_late or getattr(action, "name", getattr(action, "service", "")) in self.broken:
            raise DriverError("no answer in time")
        return self.do(action)

    def carry_out_late(self) -> None:
        self.do(self.orders[-1])

    def do(self, action: Action) -> ActionResult:
        match action:
            case Scale(service=name, replicas=replicas):
                self.noted[name] = self.runs[name]
                self.runs[name] = replicas
                there = tuple(self.ids(name, replicas))
            case Kill(name=name):
                self.runs[name], there = 0, ()
            case Start(name=name, task=task):
                self.runs[name], there = 1, (task,)
            case _:
                raise AssertionError(action)
        self.look()
        return ActionResult(what="done", before=b"as it was", containers=there)


def with_settings(stage: Stage, *, budget: float = 0.0, **brownout: Any) -> None:
    config = msgspec.structs.replace(
        stage.core.config,
        brownout=BrownoutConfig(**brownout),
        power=PowerConfig(cluster_budget_watts=budget),
    )
    stage.core = replace(stage.core, config=config)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


async def begun(stage: Stage, driver: Cluster) -> Brownout:
    driver.stage = stage
    driver.look()
    return Brownout(await actor_of(stage, driver))


async def turns(
    stage: Stage, driver: Cluster, brownout: Brownout, seconds: float, *, policy: bool = False
) -> None:
    """Let time pass, with a turn every five seconds."""
    end = stage.clock.now + seconds
    while stage.clock.now < end:
        stage.clock.now += 5.0
        driver.look()
        await brownout._actor.situation.refresh()
        await brownout.run(CHOSEN if policy else None)


def names(driver: Cluster) -> list[tuple[str, int]]:
    return [(each.service, each.replicas) for each in driver.orders if isinstance(each, Scale)]


async def test_optional_services_stop_by_weight_and_mandatory_ones_never(stage: Stage) -> None:
    driver = Cluster()
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    assert names(driver) == [(LIGHT, 0)]
    await turns(stage, driver, brownout, 10)
    assert names(driver) == [(LIGHT, 0)], "the effect can still show"
    await turns(stage, driver, brownout, 100)
    assert names(driver) == [(LIGHT, 0), (HEAVY, 0)]
    assert driver.runs[MANDATORY] == 1
    stopped = brownout.stopped
    assert [each.service for each in stopped] == [HEAVY, LIGHT]
    assert {each.waits_for for each in stopped} == {"alpha is short of memory"}
    (first, *_) = reversed(brownout._actor.situation.journal.decisions())
    assert (first.trigger, first.policy, first.outcome) == (
        Trigger.BROWNOUT,
        "brownout",
        DecisionOutcome.DONE,
    )
    assert first.steps[0].action.reasons == ("alpha is short of memory", "it is optional, with weight 0.5")


async def test_stopped_services_start_again_the_heaviest_first_with_all_replicas(stage: Stage) -> None:
    driver = Cluster()
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 60)
    driver.is_short = False
    await turns(stage, driver, brownout, 15)
    assert len(driver.orders) == 2, "not before it is calm"
    await turns(stage, driver, brownout, 45)
    assert names(driver)[2:] == [(HEAVY, 2), (LIGHT, 1)]
    assert brownout.stopped == []
    assert await stage.core.history.get_values("brownout") == {}


@pytest.mark.slow
async def test_services_do_not_flap(stage: Stage) -> None:
    """A node that is short whenever the service runs: the pauses double."""
    driver = Cluster(runs={MANDATORY: 1, LIGHT: 1})
    brownout = await begun(stage, driver)
    for _ in range(720):
        driver.is_short = driver.runs[LIGHT] > 0
        await turns(stage, driver, brownout, 5)
    assert len(driver.orders) <= 16, "in an hour"


async def test_a_restarted_collector_starts_stopped_services(stage: Stage) -> None:
    driver = Cluster()
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    driver.is_short = False
    restarted = await begun(stage, driver)
    assert restarted.stopped == []
    await turns(stage, driver, restarted, 60)
    assert names(driver) == [(LIGHT, 0), (LIGHT, 1)]


async def test_the_time_of_a_restore_does_not_count_as_calm(stage: Stage) -> None:
    driver = Cluster()
    await turns(stage, driver, await begun(stage, driver), 5)
    driver.is_short = False
    restarted = await begun(stage, driver)
    stage.clock.now += 600
    await turns(stage, driver, restarted, 15)
    assert names(driver) == [(LIGHT, 0)], "no report could arrive"
    await turns(stage, driver, restarted, 45)
    assert names(driver) == [(LIGHT, 0), (LIGHT, 1)]


async def test_a_collector_that_lost_its_history_finds_the_stop_on_the_service(
    stage: Stage, tmp_path: Path
) -> None:
    driver = Cluster()
    await turns(stage, driver, await begun(stage, driver), 60)
    driver.is_short = False
    (tmp_path / "new").mkdir()
    async with staged(tmp_path / "new") as other:
        other.clock.now = stage.clock.now
        brownout = await begun(other, driver)
        await turns(other, driver, brownout, 80)
    assert driver.runs == {MANDATORY: 1, LIGHT: 1, HEAVY: 2}


async def test_a_service_that_was_started_by_hand_is_forgotten(stage: Stage) -> None:
    driver = Cluster()
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    driver.runs[LIGHT], driver.is_short = 3, False
    await turns(stage, driver, brownout, 60)
    assert driver.runs[LIGHT] == 3
    assert brownout.stopped == []


async def test_a_service_that_was_removed_is_forgotten(stage: Stage) -> None:
    driver = Cluster()
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    del driver.runs[LIGHT]
    driver.is_short = False
    await turns(stage, driver, brownout, 60)
    assert brownout.stopped == []


async def test_moves_come_first(stage: Stage) -> None:
    driver = Cluster(stays=None)
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 25, policy=True)
    assert driver.orders == []
    driver.stays = "it is pinned"
    await turns(stage, driver, brownout, 5, policy=True)
    assert names(driver) == [(LIGHT, 0)], "pinned again, nothing can move"


async def test_moves_that_do_not_suffice_without_one_that_a_guard_refuses_do_not_come_first(
    stage: Stage,
) -> None:
    named = f"id-of-{MANDATORY}-0"
    driver = Cluster(stays=None, shortage={"excess_ratio": 0.4, "container": named}, broken={named})
    brownout = await begun(stage, driver)
    actor = brownout._actor
    decision = await actor.planner.answer_alerts(CHOSEN)
    assert decision is not None
    ended = await actor.executor.carry_out(decision)
    assert [each.state for each in ended.steps] == [StepState.FAILED, StepState.DROPPED]
    await turns(stage, driver, brownout, 5, policy=True)
    assert names(driver) == [(LIGHT, 0)]


async def test_a_move_of_another_node_that_a_guard_refuses_stops_nothing_here(stage: Stage) -> None:
    driver = Cluster(stays=None)
    brownout = await begun(stage, driver)
    moves = (("gone", "beta"), (f"id-of-{MANDATORY}-0", "alpha"))
    plan = Plan(
        actions=tuple(Move(task=task, node=node, target="gamma", reasons=("short",)) for task, node in moves)
    )
    chosen = replace(CHOSEN, policy=replace(CHOSEN.policy, rebalance=lambda *_: plan))
    stage.clock.now += 5
    driver.look()
    assert not await brownout.run(chosen)
    assert driver.orders == []


async def test_if_a_guard_refuses_the_next_service_stops(stage: Stage) -> None:
    driver = Cluster()
    driver.labels[LIGHT][ACT_LABEL] = NEVER
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 30)
    assert names(driver) == [(HEAVY, 0)]
    latest = brownout._actor.situation.journal.decisions()[0]
    opted_out = f"{LIGHT} has opted out with the label {ACT_LABEL}={NEVER}"
    assert latest.left == (f"{LIGHT} is not stopped: {opted_out}",)


async def test_a_failed_stop_is_forgotten_once_the_service_runs_and_is_tried_again(stage: Stage) -> None:
    driver = Cluster(runs={MANDATORY: 1, LIGHT: 1}, fails="no manager")
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    assert len(driver.orders) == 1
    await turns(stage, driver, brownout, 15)
    assert brownout.stopped == []
    assert len(driver.orders) == 1, "the same attempt would fail again"
    driver.fails = None
    await turns(stage, driver, brownout, 20)
    assert driver.runs[LIGHT] == 0


@pytest.mark.slow
async def test_a_service_that_cannot_be_stopped_does_not_delay_others(stage: Stage) -> None:
    driver = Cluster(broken={LIGHT})
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 25)
    assert driver.runs == {MANDATORY: 1, LIGHT: 1, HEAVY: 0}
    await turns(stage, driver, brownout, 3600)
    assert len(driver.orders) <= 10, "the pauses double"


@pytest.mark.slow
@pytest.mark.parametrize("is_standalone", [False, True])
async def test_a_service_that_cannot_start_does_not_delay_others(
    stage: Stage, *, is_standalone: bool
) -> None:
    """The heaviest comes first, so its failures would delay the others forever."""
    driver = Cluster(runs={MANDATORY: 1, LIGHT: 1, HEAVY: 1}, is_standalone=is_standalone)
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 60)
    assert driver.runs == {MANDATORY: 1, LIGHT: 0, HEAVY: 0}
    driver.is_short, driver.broken = False, {HEAVY}
    await turns(stage, driver, brownout, 60)
    assert driver.runs == {MANDATORY: 1, LIGHT: 1, HEAVY: 0}
    await turns(stage, driver, brownout, 3600)
    assert len(driver.orders) <= 13, "the pauses double"
    driver.broken = set()
    await turns(stage, driver, brownout, 3600)
    assert driver.runs == {MANDATORY: 1, LIGHT: 1, HEAVY: 1}
    assert brownout.stopped == []


@pytest.mark.parametrize("is_standalone", [False, True])
async def test_a_stop_that_takes_effect_after_an_error_is_undone_later(
    stage: Stage, *, is_standalone: bool
) -> None:
    """An engine that answers too late: nothing else knows that its container has to start again."""
    driver = Cluster(runs={MANDATORY: 1, LIGHT: 1}, is_standalone=is_standalone, is_late=True)
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    assert driver.runs[LIGHT] == 1
    driver.carry_out_late()
    driver.is_short, driver.is_late = False, False
    await turns(stage, driver, brownout, 60)
    assert driver.runs[LIGHT] == 1
    assert isinstance(driver.orders[-1], Start if is_standalone else Scale)
    assert brownout.stopped == []


async def test_a_single_container_is_stopped_and_started_where_it_was(stage: Stage) -> None:
    driver = Cluster(is_standalone=True, runs={MANDATORY: 1, LIGHT: 1})
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    assert isinstance(driver.orders[-1], Kill)
    assert brownout._actor.situation.waiting == {}, "no policy starts it for want of room"
    driver.is_short = False
    await turns(stage, driver, brownout, 60)
    (start,) = [each for each in driver.orders if isinstance(each, Start)]
    assert (start.target, start.task, driver.runs[LIGHT]) == ("alpha", f"id-of-{LIGHT}-0", 1)


async def test_another_host_that_claims_a_stopped_container_does_not_keep_it_from_starting(
    stage: Stage,
) -> None:
    driver = Cluster(is_standalone=True, runs={MANDATORY: 1, LIGHT: 1})
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    driver.is_short = False
    liar = ServiceView(name="mine", mode=Mode.STANDALONE, labels={OPTIONAL_LABEL: "true"})
    claim = TaskView(container=f"id-of-{LIGHT}-0", service="mine", node="beta", state="running")
    for _ in range(6):
        driver.look()
        services, tasks = driver.view_now.services, driver.view_now.tasks
        driver.view_now = replace(driver.view_now, services=(*services, liar), tasks=(*tasks, claim))
        stage.clock.now += 5.0
        await brownout._actor.situation.refresh()
        await brownout.run(None)
    assert driver.runs[LIGHT] == 1


async def test_a_dry_run_records_what_it_would_stop(stage: Stage) -> None:
    driver = Cluster(dry=True)
    driver.stage = stage
    with_settings(stage)
    optional = container("ads", labels={OPTIONAL_LABEL: "true"}, service="ads")
    stage.send_report(
        "alpha",
        state=state(),
        containers=(optional, container("shop")),
        heartbeat=HEARTBEAT,
        alerts=(Alert(Resource.MEMORY, stage.clock.now, "short"),),
    )
    brownout = Brownout(await actor_of(stage, driver))
    assert await brownout.run(None)
    assert not await brownout.run(None)
    (decision,) = brownout._actor.situation.journal.decisions()
    assert (decision.outcome, decision.steps[0].action.kind) == (DecisionOutcome.DRY, "kill")
    assert (driver.orders, brownout.stopped) == ([], [])


async def test_while_paused_nothing_stops_or_starts(stage: Stage) -> None:
    driver = Cluster()
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    journal = brownout._actor.situation.journal
    await journal.set_pause(Pause(since=stage.clock.now))
    await turns(stage, driver, brownout, 60)
    driver.is_short = False
    await turns(stage, driver, brownout, 60)
    assert names(driver) == [(LIGHT, 0)]
    await journal.set_pause(None)
    await turns(stage, driver, brownout, 30)
    assert names(driver) == [(LIGHT, 0), (LIGHT, 1)]


async def test_brownout_can_be_disabled(stage: Stage) -> None:
    with_settings(stage, enabled=False)
    driver = Cluster()
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 30)
    assert driver.orders == []


async def test_a_watt_budget_stops_services_until_it_is_kept(stage: Stage) -> None:
    """70 W with all four containers: without the lightest 60 W, of which the budget is 65 W."""
    with_settings(stage, budget=65.0, fill_ratio=1.0)
    driver = Cluster(is_short=False)
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 15)
    assert driver.orders == [], "power has to exceed the budget for a while"
    await turns(stage, driver, brownout, 120)
    assert names(driver) == [(LIGHT, 0)], "one is enough, and it does not fit again"
    (stopped,) = brownout.stopped
    assert stopped.why == "the cluster uses 70.0 W of 65 W"
    assert stopped.watts == WATTS_EACH
    assert "power budget leaves 5.0 W" in stopped.waits_for
    driver.runs[MANDATORY] = 0
    await turns(stage, driver, brownout, 60)
    assert names(driver) == [(LIGHT, 0), (LIGHT, 1)]


async def test_damaged_records_are_ignored(stage: Stage) -> None:
    lost = {
        "service": "y",
        "weight": 1.0,
        "replicas": 1,
        "since": 0.0,
        "why": "",
        "container": "y",
        "used": {},
    }
    await stage.core.history.put_values("brownout", {"x": b"\xff", "y": msgspec.msgpack.encode(lost)})
    driver = Cluster(is_short=False)
    brownout = await begun(stage, driver)
    await turns(stage, driver, brownout, 5)
    assert brownout.stopped == []
