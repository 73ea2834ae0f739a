"""Guards of actions that change a whole service: its replicas, and the CPU limit of each."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.act.guards import GuardContext, first_refusal
from collector.act.records import Pause, Step, StepState
from collector.common.orchestrator import Mode, ServiceView
from collector.config import ControlConfig
from collector.decide.policies.actions import Resize, Scale, ServiceAction, SizeBounds
from tests.collector.act.guards.builders import NOW, guard_context
from wire.resources import Quantities

WHY = ("because",)
SCALE = Scale(service="web", replicas=3, replicas_before=2, reasons=WHY)
RESIZE = Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=WHY)
TARGET = SizeBounds(replicas_min=1, replicas_max=4, cool_down_seconds=100.0)
WEB = ServiceView(name="web", replicas=2, limit=Quantities(1.0))


def context(service: ServiceView = WEB, **changes: Any) -> GuardContext:
    made = guard_context(**{"bounds": {"web": TARGET}, **changes})
    return replace(made, view=replace(made.view, services=(service,)))


def step(action: ServiceAction, **facts: Any) -> Step:
    return Step(action=action, service=action.service, **facts)


def earlier(
    ago: float, state: StepState = StepState.VERIFIED, action: ServiceAction = SCALE, **facts: Any
) -> Step:
    return step(action, state=state, started_at=NOW - ago, ended_at=NOW - ago, **facts)


def refusal(action: ServiceAction, of: GuardContext | None = None) -> tuple[str, str] | None:
    return first_refusal(step(action), of or context())


@pytest.mark.parametrize("action", [SCALE, RESIZE])
def test_a_change_within_the_bounds_passes_and_pause_lease_and_labels_hold(action: ServiceAction) -> None:
    assert refusal(action) is None
    assert (refusal(action, context(pause=Pause(since=NOW))) or ("",))[0] == "pause"
    assert (refusal(action, context(holder="another")) or ("",))[0] == "lease"
    assert refusal(action, context(replace(WEB, labels={"wattpack.act": "never"}))) == (
        "labels",
        "web has opted out with the label wattpack.act=never",
    )
    opt_in = ControlConfig(opt_in=True)
    assert (refusal(action, context(settings=opt_in)) or ("",))[0] == "labels"
    assert refusal(action, context(replace(WEB, labels={"wattpack.act": "allowed"}), settings=opt_in)) is None


@given(replicas=st.integers(0, 20), low=st.integers(1, 9), more=st.integers(0, 9))
def test_no_service_has_replicas_outside_its_bounds(replicas: int, low: int, more: int) -> None:
    target = msgspec.structs.replace(TARGET, replicas_min=low, replicas_max=low + more)
    action = msgspec.structs.replace(SCALE, replicas=replicas)
    found = refusal(action, context(bounds={"web": target}))
    assert (found is None) is (low <= replicas <= low + more)
    if found is not None:
        assert found[0] == "bounds"
    shed = msgspec.structs.replace(action, sheds=True)
    assert refusal(shed, context(bounds={"web": target})) is None


@pytest.mark.parametrize(
    ("cores", "is_allowed"), [(0.1, True), (1.0, True), (0.09, False), (1.01, False), (0.0, False)]
)
def test_no_replica_has_a_cpu_limit_outside_the_bounds(cores: float, is_allowed: bool) -> None:  # noqa: FBT001 - a case
    action = msgspec.structs.replace(RESIZE, cpu_limit_cores=cores)
    found = refusal(action)
    assert (found is None) is is_allowed
    if found is not None:
        assert found == ("bounds", f"web must not be limited to {cores:g} cores: 0.1 to 1 core")


def test_without_a_target_a_limit_must_only_be_above_zero() -> None:
    free = context(bounds={})
    assert refusal(msgspec.structs.replace(RESIZE, cpu_limit_cores=64.0), free) is None
    nothing = msgspec.structs.replace(RESIZE, cpu_limit_cores=0.0)
    assert refusal(nothing, free) == (
        "bounds",
        "web must not be limited to 0 cores: it must be above 0",
    )
    assert refusal(msgspec.structs.replace(SCALE, replicas=64), free) is None


def test_a_service_is_not_changed_again_within_its_cool_down() -> None:
    assert refusal(RESIZE, context(earlier=[earlier(99.0)])) == (
        "cool_down",
        "web changed 99 s ago: wait another 1 s",
    )
    assert refusal(RESIZE, context(earlier=[earlier(100.0)])) is None
    other = msgspec.structs.replace(SCALE, service="other")
    assert refusal(RESIZE, context(earlier=[earlier(1.0, action=other)])) is None
    assert refusal(RESIZE, context(own=[earlier(1.0)])) is None, "both are one decision"


def test_a_change_that_failed_is_tried_again_sooner() -> None:
    failed = earlier(59.0, StepState.FAILED)
    assert refusal(SCALE, context(earlier=[failed])) == (
        "cool_down",
        "web failed to change 59 s ago: wait another 1 s",
    )
    assert refusal(SCALE, context(earlier=[earlier(60.0, StepState.FAILED)])) is None
    assert refusal(SCALE, context(earlier=[earlier(60.0, StepState.UNDONE)])) is not None


def test_without_a_target_the_cool_down_is_that_of_moves() -> None:
    settings = ControlConfig(cool_down_seconds=30.0)
    assert refusal(SCALE, context(bounds={}, settings=settings, earlier=[earlier(31.0)])) is None
    assert refusal(SCALE, context(bounds={}, settings=settings, earlier=[earlier(29.0)])) is not None


def test_steps_that_shed_load_neither_wait_for_the_cool_down_nor_start_one() -> None:
    shed = msgspec.structs.replace(SCALE, replicas=0, sheds=True)
    assert refusal(shed, context(earlier=[earlier(1.0)])) is None
    assert refusal(SCALE, context(earlier=[earlier(1.0, action=shed)])) is None


def test_a_service_that_someone_else_changed_is_not_changed() -> None:
    assert refusal(SCALE, context(replace(WEB, replicas=7))) == ("plan", "web now has 7 replicas")
    assert refusal(SCALE, context(replace(WEB, replicas=3))) is None, "it has what it should have"
    assert refusal(RESIZE, context(replace(WEB, limit=Quantities(2.0)))) == (
        "plan",
        "web now has a CPU limit of 2 cores",
    )
    assert refusal(RESIZE, context(replace(WEB, limit=Quantities()))) == (
        "plan",
        "web now has no CPU limit",
    )
    gone = msgspec.structs.replace(SCALE, service="gone")
    assert refusal(gone) == ("plan", "the orchestrator has no service gone")


@pytest.mark.parametrize(
    ("mode", "why"), [(Mode.GLOBAL, "it runs on every node"), (Mode.STANDALONE, "no orchestrator manages it")]
)
def test_a_service_without_replicas_is_not_scaled(mode: Mode, why: str) -> None:
    found = refusal(SCALE, context(replace(WEB, mode=mode)))
    assert found == ("plan", f"web has no replicas to change: {why}")


def test_new_replicas_go_only_to_nodes_that_report_and_accept_containers() -> None:
    placed = msgspec.structs.replace(SCALE, nodes=("beta",))
    assert refusal(placed) is None
    assert refusal(placed, context(nodes={"beta": {"accepts": False}})) == (
        "plan",
        "beta accepts no containers: it is drained, paused or opted out",
    )
    assert (refusal(placed, context(nodes={"beta": {"report_age_seconds": 999.0}})) or ("",))[0] == "fresh"
    stranger = msgspec.structs.replace(SCALE, nodes=("delta",))
    assert (refusal(stranger) or ("",))[0] == "fresh"


def test_only_brownout_starts_a_service_that_it_stopped() -> None:
    stopped = context(replace(WEB, replicas=0, stopped_replicas=2))
    start = Scale(service="web", replicas=2, replicas_before=0, reasons=WHY)
    assert refusal(start, stopped) == ("bounds", "web is optional, and is stopped while resources are short")
    assert refusal(msgspec.structs.replace(start, sheds=True), stopped) is None
