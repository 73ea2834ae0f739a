"""Why a plan does not empty a node, or move a container: what has to change for the policy to do it.

The policy itself gives the answer: it plans again for a cluster in which single obstacles are lifted. What is
named here are the obstacles without which the plan would contain the node or the container, and with any of
which it does not. So nothing is decided here a second time.
"""

import difflib
from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from collector.common.errors import QuestionError
from collector.decide.answers import Obstacle, WhyNot
from collector.decide.obstacles import RULES, Case, Rule
from collector.decide.policies.interface import Plan
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.policies.stability import keep_one_on
from collector.snapshot.tables import NOWHERE, Snapshot


def find_case(snapshot: Snapshot, chosen: PolicyChoice, name: str) -> Case:
    """Return the question about the node of this name, or the container of this name or id.

    Raise `QuestionError` if there is none.
    """
    nodes, tasks = snapshot.nodes, snapshot.tasks
    if name in nodes.index:
        return Case(snapshot, chosen, nodes.index[name])
    rows = [row for row, each in enumerate(tasks.names) if name in {each, tasks.ids[row]}]
    rows = rows or [row for row, each in enumerate(tasks.ids) if each.startswith(name)]
    if len(rows) > 1:
        raise QuestionError(f"{len(rows)} containers are named {name!r}: give the id of one", "$.why")
    if not rows:
        near = difflib.get_close_matches(name, [*nodes.names, *tasks.names], n=1)
        advice = f": did you mean {near[0]!r}?" if near else ""
        raise QuestionError(f"there is no node or container {name!r}{advice}", "$.why")
    if tasks.node[rows[0]] == NOWHERE:
        raise QuestionError(f"{name} runs on no node: it waits for one", "$.why")
    return Case(snapshot, chosen, int(tasks.node[rows[0]]), rows[0])


def explain(case: Case) -> tuple[Plan, WhyNot]:
    """Return the plan, and why a node or container is not part of it. Takes as long as some twenty plans."""
    plan = case.plan()
    answer = WhyNot(subject=case.name, node=case.node_name)
    if actions := case.actions(plan):
        return plan, msgspec.structs.replace(answer, planned=actions)
    lifted = _needed(case)
    if lifted is None:
        found = _without_remedy(case, plan)
    else:
        found = tuple(_obstacle(case, each, lifted) for each in lifted)
    return plan, msgspec.structs.replace(answer, obstacles=found)


def _needed(case: Case) -> list[Rule] | None:
    """Return the obstacles that must be lifted, and none else; None if lifting all is not enough."""
    present = [each for each in RULES if each.lift(case) is not case]
    for without in ("no_alert", "alert"):
        left = [each for each in present if each.kind != without]
        if not _succeeds(case, left):
            continue
        for each in tuple(left):
            fewer = [other for other in left if other is not each]
            if _succeeds(case, fewer):
                left = fewer
        return left
    return None


def _succeeds(case: Case, lifted: Collection[Rule]) -> bool:
    found = _lift(case, lifted)
    return bool(found.actions(found.plan()))


def _lift(case: Case, lifted: Collection[Rule]) -> Case:
    for each in lifted:
        case = each.lift(case)
    return case


def _obstacle(case: Case, rule: Rule, lifted: Sequence[Rule]) -> Obstacle:
    if isinstance(rule.why, str):
        # The policy says it if nothing else is in the way.
        others = _lift(case, [each for each in lifted if each is not rule])
        why = others.plan().kept.get(case.node_name, rule.why)
    else:
        why = rule.why(case)
    rows = rule.containers(case).tolist() if rule.containers else ()
    names = tuple(case.snapshot.tasks.names[row] for row in rows)
    return Obstacle(kind=rule.kind, why=why, change=rule.change, containers=names)


def _without_remedy(case: Case, plan: Plan) -> tuple[Obstacle, ...]:
    """Return what the policy says where no known change would help."""
    name = case.node_name
    if not case.snapshot.nodes.on[case.node]:
        return (Obstacle(kind="off", why=f"{name} is off already"),)
    if not keep_one_on(case.snapshot, case.limits, np.array([case.node])).size:
        change = "another node that accepts containers"
        return (Obstacle(kind="last", why=f"{name} is the last node that accepts containers", change=change),)
    calm = [each for each in RULES if each.kind != "no_alert"]
    for each in (plan, _lift(case, calm).plan(), _lift(case, RULES).plan()):
        said = [each.kept[name]] if name in each.kept else []
        said += [left for left in each.left if name in left or case.name in left]
        if said:
            return tuple(Obstacle(kind="policy", why=one) for one in said)
    policy = case.chosen.policy
    why = f"{policy.name} would gain nothing by it; what it does: {policy.summary}"
    return (Obstacle(kind="policy", why=why),)
