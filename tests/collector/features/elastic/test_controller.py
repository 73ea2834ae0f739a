"""Decisions about elastic services: observed, decided, carried out, remembered."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from collector.act.drivers.interface import ActionResult
from collector.act.records import DecisionOutcome, StepState
from collector.common.orchestrator import Mode, OrchestratorState, ServiceView, TaskView
from collector.config import CollectorConfig, DriverConfig
from collector.decide.policies.actions import Action, Resize, Scale
from collector.features.elastic.controllers import ElasticController
from collector.features.elastic.scaling.interface import (
    ElasticDecision,
    ElasticPolicy,
    Observation,
    Target,
)
from collector.features.elastic.status import STORED_STATES
from tests.collector.act.builders import HOG, NODES, FakeDriver, Stage, actor_of, hog_id, staged, view
from tests.collector.builders import HEARTBEAT, container, state
from wire.messages import ContainerProbe
from wire.resources import Quantities
from wire.sketch import Sketch

RULE = Target(metric_max=0.5, replicas_max=3, cpu_step_cores=0.5, decide_seconds=30.0, policy="scripted")


@dataclass
class Script:
    """A policy that wants what the test says, and learns how often it was asked."""

    replicas: int = 1
    cores: float | None = None
    seen: list[Observation] = field(default_factory=list)

    def decide(self, _target: Target, observation: Observation, learned: bytes) -> ElasticDecision:
        self.seen.append(observation)
        return ElasticDecision(
            replicas=self.replicas,
            cpu_limit_cores=self.cores,
            reasons=("it was asked to",),
            learned=learned + b"x",
        )

    @property
    def policies(self) -> dict[str, ElasticPolicy]:
        return {"scripted": self.decide}


def replicas_view(replicas: int, cores: float | None = None, **service: object) -> OrchestratorState:
    before = view()
    tasks = tuple(
        TaskView(container=hog_id(copy), service=HOG, node=NODES[copy], state="running")
        for copy in range(replicas)
    )
    found = ServiceView(name=HOG, replicas=replicas, limit=Quantities(cores))
    return replace(before, services=(replace(found, **service),), tasks=tasks)  # type: ignore[arg-type]


@dataclass
class ScalingDriver(FakeDriver):
    """Scales in its own books, and lets agents report it."""

    stage: Stage | None = None

    async def carry_out(self, action: Action) -> ActionResult:
        await super().carry_out(action)
        now = next(each for each in self.view_now.services if each.name == HOG)
        if isinstance(action, Scale):
            self.view_now = replicas_view(action.replicas, now.limit.cpu_cores)
        elif isinstance(action, Resize):
            self.view_now = replicas_view(now.replicas, action.cpu_limit_cores)
        (now,) = self.view_now.services
        if self.stage is not None:
            report(self.stage, now.replicas, now.limit.cpu_cores)
        there = tuple(each.container for each in self.view_now.tasks)
        return ActionResult(what="changed", before=b"as it was", containers=there)


def report(
    stage: Stage, replicas: int, cores: float | None = None, cpu_seconds: float = 0.0, seconds: float = 0.1
) -> None:
    """What agents report of the service: its containers, their CPU time and response times."""
    for copy, node in enumerate(NODES):
        there = (
            container(
                HOG,
                id=hog_id(copy),
                service=HOG,
                limit=Quantities(cores),
                used=Quantities(0.25, 1 << 20),
                cpu_seconds_total=cpu_seconds,
            ),
        )
        sketch = Sketch()
        for _ in range(10):
            sketch.add(seconds)
        is_there = copy < replicas
        stage.send_report(
            node,
            state=state(),
            containers=there if is_there else (),
            heartbeat=HEARTBEAT,
            probes=(ContainerProbe(container=hog_id(copy), seconds=sketch),) if is_there else (),
        )


def rules(config: CollectorConfig) -> dict[str, Target]:
    found = config.tables(Target)
    assert isinstance(found, dict)
    return found


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        # The policy of the test is in no table of policies.
        rules(made.core.config)[HOG] = RULE
        yield made


async def controller_of(stage: Stage, driver: FakeDriver, script: Script) -> ElasticController:
    made = ElasticController(await actor_of(stage, driver), policies=script.policies)
    await made.start(AsyncExitStack())
    return made


async def test_a_service_is_scaled_as_its_policy_decides_and_new_replicas_are_placed(stage: Stage) -> None:
    report(stage, 1, seconds=2.0)
    driver = ScalingDriver(view_now=replicas_view(1), stage=stage)
    script = Script(replicas=2)
    controller = await controller_of(stage, driver, script)
    await controller.run()
    [action] = driver.orders
    assert isinstance(action, Scale)
    assert (action.replicas_before, action.replicas) == (1, 2)
    assert len(action.nodes) == 1
    assert set(action.nodes) < set(NODES), "the placement policy chose a node"
    [seen] = script.seen
    assert seen.metric == pytest.approx(2.0, rel=0.02)
    assert (seen.replicas, seen.changed_at_seconds) == (1, None)
    [status] = controller.statuses()
    assert status.observed == seen
    assert (status.wanted_replicas, seen.requests, status.problem) == (2, 10, None)
    assert status.change == f"scale hog from 1 to 2 replicas, the new ones on {action.nodes[0]}"
    assert status.change_reasons == ("it was asked to",)
    assert controller.decided == {(HOG, "changed"): 1}
    assert stage.core.reservations.placements(stage.clock.now) == [], "what was reserved is used"


async def test_where_the_policy_finds_no_room_the_orchestrator_chooses(stage: Stage) -> None:
    report(stage, 1)
    driver = ScalingDriver(view_now=replicas_view(1, reserve=Quantities(64.0)), stage=stage)
    controller = await controller_of(stage, driver, Script(replicas=2))
    await controller.run()
    [action] = driver.orders
    assert isinstance(action, Scale)
    assert action.nodes == ()
    assert "the placement policy finds a node for 0 of 1 new replicas of hog" in (
        controller.statuses()[0].change_reasons
    )


async def test_a_constraint_that_only_the_orchestrator_knows_is_left_to_it(stage: Stage) -> None:
    report(stage, 1)
    driver = ScalingDriver(view_now=replicas_view(1, constraints=("engine.labels.disk==ssd",)), stage=stage)
    controller = await controller_of(stage, driver, Script(replicas=2))
    await controller.run()
    [action] = driver.orders
    assert isinstance(action, Scale)
    assert action.nodes == ()
    reasons = controller.statuses()[0].change_reasons
    assert "only the orchestrator can check its constraint engine.labels.disk==ssd" in reasons


async def test_in_kubernetes_the_scheduler_places_new_replicas(stage: Stage) -> None:
    report(stage, 1)
    kubernetes = msgspec.structs.replace(
        stage.core.config, driver=DriverConfig(name="kubernetes"), elastic={}
    )
    rules(kubernetes)[HOG] = RULE
    stage.core = replace(stage.core, config=kubernetes)
    driver = ScalingDriver(view_now=replicas_view(1), stage=stage)
    controller = await controller_of(stage, driver, Script(replicas=2))
    await controller.run()
    [action] = driver.orders
    assert isinstance(action, Scale)
    assert action.nodes == ()


async def test_a_service_is_decided_about_at_its_own_interval(stage: Stage) -> None:
    report(stage, 1)
    script = Script(replicas=1)
    controller = await controller_of(stage, FakeDriver(view_now=replicas_view(1)), script)
    await controller.run()
    stage.clock.now += 29
    await controller.run()
    assert len(script.seen) == 1
    stage.clock.now += 1
    report(stage, 1, cpu_seconds=15.0)
    await controller.run()
    assert len(script.seen) == 2
    assert script.seen[1].cpu_used_cores == pytest.approx(0.5), "CPU time since the last decision"
    assert controller.decided == {(HOG, "kept"): 2}


async def test_the_cpu_limit_changes_and_a_change_within_the_cool_down_is_refused(stage: Stage) -> None:
    report(stage, 1, 1.0)
    driver = ScalingDriver(view_now=replicas_view(1, 1.0), stage=stage)
    script = Script(replicas=1, cores=0.5)
    controller = await controller_of(stage, driver, script)
    await controller.run()
    [action] = driver.orders
    assert isinstance(action, Resize)
    assert (action.cpu_limit_cores_before, action.cpu_limit_cores) == (1.0, 0.5)
    script.replicas = 2
    stage.clock.now += 31
    report(stage, 1, 0.5)
    await controller.run()
    assert len(driver.orders) == 1
    [status] = controller.statuses()
    assert status.problem is not None
    assert "changed" in status.problem
    assert controller.decided[HOG, "failed"] == 1


async def test_a_decision_out_of_bounds_is_refused(stage: Stage) -> None:
    report(stage, 1)
    driver = ScalingDriver(view_now=replicas_view(1), stage=stage)
    controller = await controller_of(stage, driver, Script(replicas=4))
    await controller.run()
    assert driver.orders == []
    [status] = controller.statuses()
    assert status.problem == "hog must not have 4 replicas: 1 to 3"


async def test_learned_state_survives_a_restart_and_another_policy_starts_without_it(stage: Stage) -> None:
    report(stage, 1)
    driver, script = FakeDriver(view_now=replicas_view(1)), Script()
    controller = await controller_of(stage, driver, script)
    await controller.run()
    again = await controller_of(stage, driver, script)
    await again.run()
    assert len(script.seen) == 1, "the interval goes on over a restart"
    assert again._tracked[HOG].learned == b"x"
    stage.clock.now += 30
    report(stage, 1)
    await again.run()
    assert again._tracked[HOG].learned == b"xx"
    rules(stage.core.config)[HOG] = msgspec.structs.replace(RULE, policy="other")
    other = await controller_of(stage, driver, script)
    await other.run()
    assert other._tracked[HOG].learned == b""
    assert other.statuses()[0].decided_at is not None


async def test_services_that_are_gone_are_forgotten_the_first_ones_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.features.elastic.status._KEPT_GONE", 2)
    driver = FakeDriver(view_now=replicas_view(1))
    controller = await controller_of(stage, driver, Script())
    for number in range(5):
        report(stage, 1)
        driver.view_now = replicas_view(1, name=f"new-{number}")
        rules(stage.core.config)[f"new-{number}"] = RULE
        await controller._actor.situation.refresh()
        await controller.run()
        stage.clock.now += 60
    kept = {"new-2", "new-3", "new-4"}
    assert controller._tracked.keys() == (await stage.core.history.get_values(STORED_STATES)).keys() == kept
    assert {name for name, _ in controller.decided} <= kept
    driver.is_away = True
    stage.clock.now += 8 * 86_400
    await controller._actor.situation.refresh()
    await controller.run()
    assert controller._tracked.keys() == kept, "nothing is known about them"
    driver.is_away, driver.view_now = False, replicas_view(1, name="plain")
    await controller._actor.situation.refresh()
    await controller.run()
    assert controller._tracked.keys() == {"new-4"}, "it was listed until now"


async def test_a_service_that_was_stopped_while_resources_are_short_is_not_decided_about(
    stage: Stage,
) -> None:
    report(stage, 0)
    driver, script = FakeDriver(view_now=replicas_view(0, stopped_replicas=2)), Script(replicas=2)
    controller = await controller_of(stage, driver, script)
    await controller._actor.situation.refresh()
    await controller.run()
    assert (script.seen, driver.orders, controller.decided) == ([], [], {})


async def test_an_unreadable_stored_state_is_ignored(stage: Stage) -> None:
    await stage.core.history.put_values("elastic", {HOG: b"?", "old": b"\x81\xa7version\x02"})
    report(stage, 1)
    controller = await controller_of(stage, FakeDriver(view_now=replicas_view(1)), Script())
    await controller.run()
    assert [each.service for each in controller.statuses()] == [HOG]


async def test_a_missing_metric_is_shown_and_passed_to_the_policy(stage: Stage) -> None:
    stage.begin()
    script = Script()
    controller = await controller_of(stage, FakeDriver(view_now=replicas_view(1)), script)
    await controller.run()
    assert script.seen[0].metric is None
    [status] = controller.statuses()
    assert "probe.enabled" in (status.problem or "")
    rules(stage.core.config)[HOG] = msgspec.structs.replace(RULE, query="up")
    stage.clock.now += 30
    await controller.run()
    assert controller.statuses()[0].problem == "store.url is not set"


async def test_a_service_that_is_being_updated_is_not_changed(stage: Stage) -> None:
    report(stage, 1)
    script = Script(replicas=2)
    driver = ScalingDriver(view_now=replicas_view(1, is_updating=True), stage=stage)
    controller = await controller_of(stage, driver, script)
    await controller.run()
    assert (script.seen, driver.orders) == ([], [])


async def test_without_an_orchestrator_decisions_are_described(stage: Stage) -> None:
    report(stage, 2, 1.0)
    driver = FakeDriver(dry=True)
    controller = await controller_of(stage, driver, Script(replicas=1))
    await controller.run()
    [status] = controller.statuses()
    assert status.observed is not None
    assert (status.observed.replicas, status.observed.cpu_limit_cores) == (2, 1.0)
    assert status.change == "scale hog from 2 to 1 replica"
    assert driver.orders == []
    # A service that no agent reports is not there.
    rules(stage.core.config).clear()
    rules(stage.core.config)["nobody"] = RULE
    await controller.run()
    assert controller.statuses() == []


async def test_a_change_that_fails_is_recorded_with_its_reason(stage: Stage) -> None:
    report(stage, 1)
    driver = ScalingDriver(view_now=replicas_view(1), fails="no room", stage=stage)
    actor = await actor_of(stage, driver)
    controller = ElasticController(actor, policies=Script(replicas=2).policies)
    await controller.run()
    [decision] = actor.situation.journal.decisions()
    assert (decision.outcome, decision.steps[0].state) == (DecisionOutcome.FAILED, StepState.FAILED)
    assert decision.settings["observation"]["service"] == HOG
    assert controller.statuses()[0].problem == "no room"
    assert stage.core.reservations.placements(stage.clock.now) == []


async def test_a_failed_decision_does_not_affect_other_services(stage: Stage) -> None:
    report(stage, 1)
    driver = ScalingDriver(view_now=replicas_view(1), stage=stage)
    broken = ServiceView(name="absurd", labels={"wattpack.elastic": "1"})
    driver.view_now = replace(driver.view_now, services=(broken, *driver.view_now.services))
    rules(stage.core.config)["absurd"] = RULE
    script = Script()

    def decide(target: Target, observation: Observation, learned: bytes) -> ElasticDecision:
        if observation.service == "absurd":
            raise OverflowError("too large")
        return script.decide(target, observation, learned)

    actor = await actor_of(stage, driver)
    controller = ElasticController(actor, policies={"scripted": decide})
    await controller.start(AsyncExitStack())
    await controller.run()
    absurd, fine = controller.statuses()
    assert absurd.problem == "the decision failed: too large; see the log of the collector"
    assert (fine.problem, len(script.seen)) == (None, 1)
    assert controller.decided["absurd", "failed"] == 1
    await controller.run()
    assert controller.decided["absurd", "failed"] == 1, "it is tried again when it is due"


async def test_a_container_whose_name_another_host_has_as_well_keeps_its_settings(stage: Stage) -> None:
    twice = replicas_view(1, name=f"{HOG}@alpha", mode=Mode.STANDALONE)
    controller = await controller_of(stage, ScalingDriver(view_now=twice, stage=stage), Script())
    await controller.run()
    [status] = controller.statuses()
    assert (status.service, status.target.metric_max) == (f"{HOG}@alpha", RULE.metric_max)


async def test_a_clock_that_was_ahead_before_a_restart_stops_no_decisions(stage: Stage) -> None:
    report(stage, 1)
    driver, script = ScalingDriver(view_now=replicas_view(1), stage=stage), Script()
    ahead = await controller_of(stage, driver, script)
    await ahead.run()
    [status] = ahead.statuses()
    later = msgspec.structs.replace(status, decided_at=stage.core.clock() + 1e7)
    packed = msgspec.msgpack.encode((b"x", later))
    await stage.core.history.put_values(STORED_STATES, {HOG: packed})
    restarted = await controller_of(stage, driver, script)
    await restarted.run()
    assert len(script.seen) == 2
