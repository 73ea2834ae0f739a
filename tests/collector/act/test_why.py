"""What guards add to the reasons why a plan leaves a node or container as it is."""

from dataclasses import replace
from typing import Any

from collector.act.guards import GuardContext
from collector.act.records import Pause
from collector.act.why import with_guards
from collector.decide.answers import Obstacle, WhyNot
from collector.decide.policies.actions import Move, PowerOff
from collector.decide.policies.interface import Plan
from tests.collector.act.guards.builders import NODE, NOW, guard_context
from tests.collector.snapshot.builders import TaskFacts, assemble

MOVE = Move(task="web1", name="web1", node="alpha", target="beta", reasons=())
OFF = PowerOff(node="alpha", reasons=())


def asked(context: GuardContext, found: WhyNot) -> WhyNot:
    def context_of(_snapshot: Any, **_facts: Any) -> GuardContext:
        return context

    return with_guards(context_of, context.snapshot, Plan(actions=found.planned), found)


def test_what_is_planned_names_the_guards_that_refuse_it_now() -> None:
    planned = WhyNot(subject="alpha", node="alpha", planned=(MOVE, OFF))
    assert asked(guard_context(), planned).obstacles == ()
    (refused,) = asked(guard_context(pause=Pause(since=NOW, why="a test")), planned).obstacles
    assert refused.kind == "guard"
    assert refused.why.startswith("guard pause refuses it now: actions are paused (a test)")


def test_a_container_that_must_stay_is_explained_by_the_guard() -> None:
    context = guard_context()
    (service,) = context.view.services
    view = replace(context.view, services=(replace(service, stays="it has a volume on its node"),))
    task = TaskFacts(id="web1", name="web1", node="alpha", service="web", movable=False)
    snapshot = assemble([replace(NODE, name=name) for name in ("alpha", "beta")], [task])
    stays = Obstacle(kind="stays", why="web1 may not be moved", change="a label", containers=("web1",))
    found = WhyNot(subject="alpha", node="alpha", obstacles=(stays,))
    (told,) = asked(replace(context, view=view, snapshot=snapshot), found).obstacles
    assert (told.why, told.change) == ("web cannot move: it has a volume on its node", "a label")
