from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.act.guards import GUARDS, GuardContext, first_refusal
from collector.act.guards.pace import not_too_many_for_one_node
from collector.act.records import Pause, Relief, Step, StepState
from collector.act.verdicts.learning import Spent, SpentAnswers
from collector.common.liveness import Liveness
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.config import ControlConfig
from collector.config.schedule import Schedule
from collector.decide.policies.actions import Cut, Move, PowerOff, PowerOn
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import TaskKind
from tests.collector.act.guards.builders import NODE, NOW, guard_context
from tests.collector.snapshot.builders import TaskFacts, assemble
from wire.resources import Quantities, Resource


def move(task: str = "web1", source: str = "alpha", target: str = "beta", **changes: Any) -> Step:
    action = Move(task=task, name=task, node=source, target=target, reasons=("because",))
    return Step(action=action, **{"service": "web", **changes})


def power_off(node: str) -> Step:
    return Step(action=PowerOff(node=node, reasons=("because",)))


def moved(ago: float, *, state: StepState = StepState.VERIFIED, **changes: Any) -> Step:
    return move(
        task="other1",
        **{"state": state, "started_at": NOW - ago, "ended_at": NOW - ago, "service": "other", **changes},
    )


def replace_end(step: Step, ago: float) -> Step:
    return msgspec.structs.replace(step, ended_at=NOW - ago)


def refused_by(step: Step, context: GuardContext) -> tuple[str, str]:
    no = first_refusal(step, context)
    assert no is not None
    return no


def test_an_answer_is_not_called_spent_before_its_effect_can_show() -> None:
    """Optional services are not stopped meanwhile: a move that only has to settle still counts as help."""
    relief = Relief(node="alpha", resource=Resource.CPU, ratio=0.5)
    again = move(reliefs=(relief,), answers_alert=True)
    spent = SpentAnswers({("alpha", Resource.CPU): {"web": Spent("it is not known yet", is_judged=False)}})
    settings = ControlConfig(cool_down_seconds=0, settle_seconds=60)
    for ago, guard in ((30, "settle"), (90, "spent")):
        context = guard_context(settings=settings, earlier=[moved(ago)], spent=spent)
        assert refused_by(again, context)[0] == guard


def test_a_container_that_the_orchestrator_does_not_list_is_not_acted_on() -> None:
    """A node can report any container: as one of another service, or the id of one that runs elsewhere."""
    view = guard_context().view
    elsewhere = (TaskView(container="web1", service="web", node="gamma", state="running"),)
    for tasks in ((), elsewhere):
        assert refused_by(move(), guard_context(view=replace(view, tasks=tasks))) == (
            "listed",
            "the orchestrator does not list web1 on alpha",
        )
    assert first_refusal(move(), guard_context(view=OrchestratorState())) is None, "there is no orchestrator"


def test_a_cut_that_frees_nothing_is_refused_but_limits_are_given_back() -> None:
    kept = "Swarm keeps its reservation of 2 cores, whatever its limits are"
    half = TaskFacts(
        id="web1",
        node="alpha",
        service="web",
        requested=Quantities(2.0, 100),
        allocated=Quantities(1.0, 100),
    )
    context = guard_context()
    context = replace(
        context,
        snapshot=assemble([NODE], [half]),
        view=replace(context.view, services=(ServiceView(name="web", replicas=2, uncut=kept),)),
    )

    def cut(cores: float) -> Step:
        action = Cut(task="web1", name="web1", node="alpha", allocated=Quantities(cores), reasons=())
        return Step(action=action, service="web")

    assert refused_by(cut(0.5), context) == ("cut", f"cutting web1 frees nothing: {kept}")
    assert first_refusal(cut(2.0), context) is None


def test_moves_that_failed_do_not_use_up_the_budget_of_the_others() -> None:
    settings = ControlConfig(max_moves_per_hour=4)
    failed = [
        moved(100 + number, state=StepState.FAILED, source=f"node{number}", target="other")
        for number in range(9)
    ]
    assert first_refusal(move(), guard_context(settings=settings, earlier=failed)) is None
    done = [moved(100 + number, source=f"node{number}", target="other") for number in range(4)]
    assert refused_by(move(), guard_context(settings=settings, earlier=done))[0] == "per_hour"


def test_moves_of_a_node_with_many_failures_are_refused() -> None:
    failed = [moved(100 + number, state=StepState.UNDONE, source="mallory") for number in range(5)]
    failed = [
        msgspec.structs.replace(
            each, action=msgspec.structs.replace(each.action, target=f"node{number}"), service=f"s{number}"
        )
        for number, each in enumerate(failed)
    ]
    context = guard_context(earlier=failed)
    assert first_refusal(move(), context) is None
    refusal = not_too_many_for_one_node(move(source="mallory"), context)
    assert refusal == "5 moves from or to mallory failed in the last hour, limit 5"


def test_the_alerts_of_one_node_do_not_use_up_the_moves_of_the_cluster() -> None:
    settings = ControlConfig(max_moves_per_hour=8, cool_down_seconds=0, settle_seconds=0)
    answered = [
        moved(100 + number, source="mallory", target="other", service=f"s{number}", answers_alert=True)
        for number in range(4)
    ]
    context = guard_context(settings=settings, earlier=answered)
    refusal = not_too_many_for_one_node(move(source="mallory", answers_alert=True), context)
    assert refusal == "4 moves answered alerts of mallory in the last hour, limit 4"
    assert not_too_many_for_one_node(move(source="mallory"), context) is None, "a drain is no alert"
    planned = [move(f"web{number}", answers_alert=True) for number in range(5)]
    assert not_too_many_for_one_node(planned[0], replace(context, planned=planned[:4])) is None
    refusal = not_too_many_for_one_node(planned[0], replace(context, planned=planned))
    assert refusal == "0 moves answered alerts of alpha in the last hour, and 5 more are needed, limit 4"
    assert first_refusal(move(answers_alert=True), context) is None


def test_no_guard_refuses_in_the_normal_case() -> None:
    assert first_refusal(move(), guard_context()) is None


@pytest.mark.parametrize(
    ("changes", "guard", "why"),
    [
        ({"pause": Pause(since=NOW)}, "pause", "actions are paused: run wattpack control resume to continue"),
        (
            {"pause": Pause(since=NOW, until=NOW + 90, why="an audit")},
            "pause",
            "actions are paused for another 90 s (an audit): run wattpack control resume to continue",
        ),
        ({"holder": "the other"}, "lease", "another collector holds the lease: the other"),
        (
            {"schedule": Schedule.of("wed", "UTC")},
            "window",
            "actions are not allowed at this time (control.allowed_times: wed)",
        ),
        (
            {"nodes": {"beta": {"report_age_seconds": 61.0}}},
            "fresh",
            "the last report of beta is 61 s old, limit 60 s",
        ),
        (
            {"nodes": {"alpha": {"liveness": Liveness.DOWN, "report_age_seconds": 30.0}}},
            "fresh",
            "alpha is down: its last report is 30 s old",
        ),
        (
            {"nodes": {"beta": {"accepts": False}}},
            "plan",
            "beta accepts no containers: it is drained, paused or opted out",
        ),
        (
            {"view": OrchestratorState(nodes=(NodeView(name="alpha"), NodeView(name="gamma")))},
            "plan",
            "beta is not a node of the orchestrator",
        ),
        (
            {"view": OrchestratorState(nodes=(NodeView(name="beta", ready=False),))},
            "plan",
            "beta is not ready in the orchestrator",
        ),
        (
            {
                "view": OrchestratorState(
                    nodes=(NodeView(name="alpha", labels={"wattpack.act": "never"}), NodeView(name="beta"))
                )
            },
            "labels",
            "alpha has opted out with the label wattpack.act=never",
        ),
        (
            {
                "view": OrchestratorState(
                    services=(ServiceView(name="web", labels={"wattpack.act": "never"}),)
                )
            },
            "labels",
            "web has opted out with the label wattpack.act=never",
        ),
        (
            {"settings": ControlConfig(opt_in=True)},
            "labels",
            "web has not opted in: control.opt_in requires the label wattpack.act=allowed",
        ),
        (
            {"view": OrchestratorState(services=(ServiceView(name="web", stays="it has a volume"),))},
            "stays",
            "web cannot move: it has a volume",
        ),
        (
            {"earlier": (moved(5, state=StepState.STARTED),)},
            "at_once",
            "1 container already moving, limit 1",
        ),
        (
            {"settings": ControlConfig(max_moves_per_hour=1), "earlier": (moved(3599),)},
            "per_hour",
            "1 move in the last hour, limit 1",
        ),
        (
            {"earlier": (moved(100, service="web"),)},
            "cool_down",
            "web moved 100 s ago: wait another 500 s",
        ),
        (
            {"earlier": (moved(20, service="web", state=StepState.FAILED),)},
            "cool_down",
            "web failed to move 20 s ago: wait another 40 s",
        ),
        ({"trouble": "the manager does not answer"}, "driver", "the manager does not answer"),
        (
            {"taken_over_at": NOW - 10},
            "settle",
            "another collector acted until 10 s ago: wait until its changes show",
        ),
        (
            {"earlier": (moved(10),)},
            "settle",
            "alpha was part of a move 10 s ago: wait until its effect shows",
        ),
        (
            {
                "settings": ControlConfig(max_concurrent_moves=5),
                "own": (moved(1, state=StepState.STARTED, service="web"),),
            },
            "risk",
            "2 of 2 replicas of web would move at the same time, limit 1",
        ),
        (
            {
                "settings": ControlConfig(max_concurrent_moves=5, max_moving_memory_bytes=100_000_000),
                "own": (moved(1, state=StepState.STARTED, memory_bytes=101_000_000),),
            },
            "risk",
            "101 MB of memory would move at the same time, limit 100 MB",
        ),
    ],
)
def test_each_guard_refuses_with_a_reason(changes: dict[str, Any], guard: str, why: str) -> None:
    assert refused_by(move(), guard_context(**changes)) == (guard, why)


ALONE = OrchestratorState(
    services=(ServiceView(name="lone", labels={"wattpack.act": "never"}, mode=Mode.STANDALONE),),
    tasks=(TaskView(container="web1", service="lone", node="alpha", state="running"),),
)
"""A container that is a service of its own to the orchestrator, and of another name or none to agents."""


@pytest.mark.parametrize("service", [None, "project/lone"])
def test_labels_count_under_any_name_that_agents_report(service: str | None) -> None:
    refused = refused_by(move(service=service), guard_context(view=ALONE))
    assert refused == ("labels", f"{service or 'web1'} has opted out with the label wattpack.act=never")


def test_a_container_without_a_service_cools_down_under_its_name() -> None:
    again = move(service=None, state=StepState.VERIFIED, started_at=NOW - 100, ended_at=NOW - 100)
    earlier = replace_task(again, "web0")
    assert refused_by(move(service=None), guard_context(earlier=(earlier,))) == (
        "cool_down",
        "web1 moved 100 s ago: wait another 500 s",
    )


def replace_task(step: Step, task: str) -> Step:
    """The same container, by name, before it got its present id."""
    return msgspec.structs.replace(step, action=msgspec.structs.replace(step.action, task=task))


def test_a_container_that_is_no_longer_there_is_not_moved() -> None:
    assert refused_by(move(task="gone"), guard_context()) == ("plan", "gone no longer runs on alpha")
    assert refused_by(move(source="gamma"), guard_context())[0] == "plan"


def test_a_node_is_switched_off_only_if_it_runs_global_services_alone() -> None:
    assert refused_by(power_off("alpha"), guard_context()) == ("empty", "alpha still runs 1 container: web1")
    everywhere = OrchestratorState(services=(ServiceView(name="web", mode=Mode.GLOBAL),))
    assert first_refusal(power_off("alpha"), guard_context(view=everywhere)) is None
    assert first_refusal(power_off("beta"), guard_context()) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"nodes": {"beta": {"labels": {"wattpack.power": "never"}}}},
            "beta has the label wattpack.power=never",
        ),
        (
            {"view": OrchestratorState(nodes=(NodeView(name="beta", labels={"wattpack.power": "never"}),))},
            "beta has the label wattpack.power=never",
        ),
        (
            {"nodes": {"beta": {"used": Quantities(2.0)}}},
            "beta uses 50.0% of its CPU outside containers: set the label wattpack.power=allowed to allow it",
        ),
        (
            {"nodes": {"alpha": {"accepts": False}, "gamma": {"on": False}}},
            "beta is the last node that accepts containers",
        ),
    ],
)
def test_a_node_that_has_to_stay_on_is_not_switched_off(changes: dict[str, Any], why: str) -> None:
    assert refused_by(power_off("beta"), guard_context(**changes)) == ("power", why)


def test_load_outside_containers_does_not_keep_a_labelled_node_on() -> None:
    facts = {"used": Quantities(2.0), "labels": {"wattpack.power": "allowed"}}
    assert first_refusal(power_off("beta"), guard_context(nodes={"beta": facts})) is None


def test_the_load_of_containers_that_just_left_does_not_keep_a_node_on() -> None:
    context = guard_context(nodes={"beta": {"used": Quantities(2.0)}})
    left = moved(10, source="beta", target="gamma")
    assert first_refusal(power_off("beta"), replace(context, own=(left,))) is None
    assert refused_by(power_off("beta"), replace(context, earlier=(replace_end(left, 61),)))[0] == "power"


def test_a_node_that_waits_for_a_placement_is_not_switched_off() -> None:
    context = guard_context()
    some = (1.0, 1.0, 0.0, 0.0)
    waiting = PendingTask(
        node="beta", service=None, allocated=some, envelope=some, mean=some, variance=some, task_class=1
    )
    context = replace(context, snapshot=with_pending(context.snapshot, [waiting], 1))
    assert refused_by(power_off("beta"), context) == (
        "power",
        "beta is reserved for a container that has not started yet",
    )


def test_a_daemon_neither_moves_nor_keeps_its_node_on() -> None:
    nodes = [replace(NODE, name=name) for name in ("alpha", "beta")]
    snapshot = assemble(nodes, [TaskFacts(id="web1", node="alpha", service="web", kind=TaskKind.DAEMON)])
    context = guard_context(snapshot=snapshot)
    assert refused_by(move(), context) == ("stays", "web1 is a daemon: it runs as long as its node")
    assert first_refusal(power_off("alpha"), context) is None


def test_node_that_is_off_can_be_switched_on_without_reports() -> None:
    context = guard_context(nodes={"gamma": {"on": False, "report_age_seconds": 9999.0}})
    step = Step(action=PowerOn(node="gamma", reasons=("because",)))
    assert first_refusal(step, context) is None


def test_steps_of_the_same_decision_do_not_wait_for_each_other() -> None:
    assert first_refusal(move(), guard_context(own=(moved(1),))) is None
    assert first_refusal(move(), guard_context(earlier=(moved(1),))) is not None


@given(
    ago=st.integers(0, 10_000),
    settle_seconds=st.integers(0, 5000),
    cool_down_seconds=st.integers(0, 5000),
    per_hour=st.integers(0, 3),
)
def test_after_enough_time_no_guard_refuses(
    ago: int, settle_seconds: int, cool_down_seconds: int, per_hour: int
) -> None:
    settings = ControlConfig(
        settle_seconds=settle_seconds, cool_down_seconds=cool_down_seconds, max_moves_per_hour=per_hour
    )
    no = first_refusal(move(), guard_context(settings=settings, earlier=(moved(ago, service="web"),)))
    may = ago >= max(settle_seconds, cool_down_seconds) and (1 if ago < 3600 else 0) < per_hour
    assert (no is None) == may


def test_guards_have_unique_names() -> None:
    assert len({name for name, _ in GUARDS}) == len(GUARDS)


def test_containers_of_a_node_that_is_not_ready_are_left_to_the_orchestrator() -> None:
    nodes = (NodeView(name="alpha", ready=False), NodeView(name="beta"))
    context = guard_context(
        view=OrchestratorState(nodes=nodes, services=(ServiceView(name="web", replicas=2),))
    )
    assert refused_by(move(), context) == ("plan", "alpha is not ready in the orchestrator")


def test_after_an_outage_of_the_orchestrator_nothing_moves_until_its_changes_show() -> None:
    settings = ControlConfig(settle_seconds=60)
    assert refused_by(move(), guard_context(settings=settings, driver_back_at=NOW - 59)) == (
        "settle",
        "the orchestrator recovered 59 s ago: wait until its own changes show",
    )
    assert first_refusal(move(), guard_context(settings=settings, driver_back_at=NOW - 60)) is None
