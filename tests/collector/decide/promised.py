"""What decisions may do to the promises of containers: random clusters, and a check per kind of decision.

A container loses by a cut of its reservation, and with all others on an overbooked node. What it loses is
added up here container by container and resource by resource, without the collector's own arithmetic.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from collector.act.planner import plan_room
from collector.analysis.bottlenecks import BottleneckKind, findings
from collector.common.liveness import Liveness
from collector.decide.policies.actions import Action, Cut
from collector.decide.policies.interface import Policy, Stability
from collector.decide.policies.resolve import PolicyChoice, with_settings
from collector.decide.policies.table import POLICIES
from collector.decide.question import PlacementQuestion, build_request
from collector.decide.ranking import place_container, place_together
from collector.decide.reservations import Reservations
from collector.snapshot.tables import OVERBOOKING_LIMITS
from tests.collector.decide.policies.clusters import (
    CURVE,
    GIB,
    PROMISES,
    SERVICES,
    Cluster,
    amount,
    random_standing,
)
from tests.collector.snapshot.builders import NodeFacts, ServiceFacts, TaskFacts
from wire.resources import Quantities

TOLERATED = {1: 0.0, 2: 1 / 6, 3: 1 / 3, 4: 1 / 2}
_ROUNDING = 1e-6
_LONG = 90_000.0
Losses = Mapping[str, float]


def _pair(amounts: Quantities) -> tuple[float, float]:
    return amounts.cpu_cores or 0.0, float(amounts.memory_bytes or 0)


def losses(cluster: Cluster) -> Losses:
    """The share of its reservation that each container does not get if all use what they reserve."""
    capacity = {each.name: _pair(each.capacity) for each in cluster.nodes}
    sums = {each.name: [0.0, 0.0] for each in cluster.nodes}
    now = {each.id: _pair(each.allocated or each.requested) for each in cluster.tasks}
    for each in cluster.tasks:
        if each.node is not None:
            for place in range(2):
                sums[each.node][place] += now[each.id][place]
    lost: dict[str, float] = {}
    for each in cluster.tasks:
        if each.node is None:
            continue
        lost[each.id] = 0.0
        for place, first in enumerate(_pair(each.requested)):
            if first > 0:
                gets = now[each.id][place] * min(1.0, capacity[each.node][place] / sums[each.node][place])
                lost[each.id] = max(lost[each.id], 1 - gets / first)
    return lost


def _check(before: Losses, after: Cluster, actions: Sequence[Action] = ()) -> None:
    """Containers that were promised too much before the decision lose no more by it."""
    facts = {each.id: each for each in after.tasks}
    for name, lost in losses(after).items():
        allowed = max(TOLERATED[facts[name].task_class], before.get(name, 0.0))
        assert lost <= allowed + _ROUNDING, (name, lost, allowed)
    for each in actions:
        if isinstance(each, Cut) and facts[each.task].task_class == 1:
            assert _pair(each.allocated) >= _pair(facts[each.task].requested)


# --- Clusters -------------------------------------------------------------------------------


def _share_kept(generator: np.random.Generator, task_class: int) -> tuple[float, float]:
    """What a container keeps of CPU and memory: most keep all, some are cut as far as their class allows."""
    most = TOLERATED[task_class]
    if task_class == 1 or generator.random() < 0.7:
        return 1.0, 1.0
    kept = 1 - most * float(generator.choice([0.3, 0.5, 1.0]))
    return (kept, kept) if generator.random() < 0.7 else (kept, 1.0)


def _tasks_on(generator: np.random.Generator, node: NodeFacts, number: int) -> list[TaskFacts]:
    """Containers whose promises hold; on one node of ten, the last one breaks some."""
    room = np.array(_pair(node.capacity))
    reserved, limit = np.zeros(2), np.inf
    strictest = int(generator.integers(1, 5))
    breaks = generator.random() < 0.1
    found: list[TaskFacts] = []
    for place in range(int(generator.integers(0, 9))):
        task_class = int(generator.integers(strictest, 5))
        first = np.array([generator.uniform(0.1, 0.5), generator.uniform(0.1, 0.5)]) * room
        first *= generator.random(2) < 0.9
        kept = _share_kept(generator, task_class)
        allowed = min(limit, 1 / (1 - max(TOLERATED[task_class] - (1 - min(kept)), 0.0)))
        if ((reserved + first * kept) > room * allowed).any() and not breaks:
            continue
        breaks = breaks and ((reserved + first * kept) <= room * allowed).all()
        reserved, limit = reserved + first * kept, allowed
        used = first * kept * generator.uniform(0.0, 0.6)
        mean = amount(float(used[0]), float(used[1]) / GIB)
        # What is not reserved is unknown, as agents report it.
        requested = Quantities(float(first[0]) or None, round(first[1]) or None)
        now = Quantities(float(first[0] * kept[0]) or None, round(first[1] * kept[1]) or None)
        found.append(
            TaskFacts(
                id=f"task-{number:02}-{place}",
                node=node.name,
                service=str(generator.choice(SERVICES)),
                used=mean,
                mean=mean,
                envelope=mean,
                observed_seconds=float(generator.choice([0.0, 86_400.0])),
                requested=requested,
                allocated=now,
                task_class=task_class,
                age_seconds=_LONG,
                settled_seconds=_LONG,
                movable=bool(generator.random() < 0.8),
                slo=random_standing(generator) if PROMISES and generator.random() < 0.3 else None,
            )
        )
    return found


@lru_cache(maxsize=8)
def promised_cluster(seed: int) -> Cluster:
    """A cluster of 1 to 30 nodes: some off, silent, closed, short or overbooked; containers of all classes,
    some of them cut or pinned; others wait."""
    generator = np.random.default_rng([seed, 3])
    nodes: list[NodeFacts] = []
    tasks: list[TaskFacts] = []
    for number in range(int(generator.choice([1, 2, 3, 5, 8, 13, 30]))):
        is_off, chance = bool(generator.random() < 0.1), generator.random(4)
        size = generator.choice([4.0, 8.0, 16.0], size=2)
        node = NodeFacts(
            name=f"node-{number:02}",
            capacity=amount(float(size[0]), float(size[1]), 1e9, 1e9),
            on=not is_off,
            liveness=Liveness.DOWN if is_off or chance[0] < 0.05 else Liveness.UP,
            accepts=bool(chance[1] < 0.95),
            bottleneck=(bool(chance[2] < 0.15), bool(chance[3] < 0.15), False, False),
            domain=str(generator.choice(["east", "west"])),
            curve=CURVE,
        )
        there = [] if is_off else _tasks_on(generator, node, number)
        use = np.array([_pair(each.used) for each in there]).reshape(-1, 2).sum(axis=0)
        if chance[2] < 0.15:
            use = np.maximum(use, 0.95 * np.array(_pair(node.capacity)))
        nodes.append(replace(node, used=amount(float(use[0]), float(use[1]) / GIB)))
        tasks += there
    tasks += [
        TaskFacts(
            id=f"waiting-{number}",
            node=None,
            service=str(generator.choice(SERVICES)),
            requested=amount(*np.round(generator.uniform(0.1, 4.0, size=2), 2)),
            task_class=int(generator.integers(1, 5)),
            movable=False,
        )
        for number in range(int(generator.integers(0, 5)))
    ]
    known = [ServiceFacts(name=name, profiled=False) for name in SERVICES]
    return Cluster(nodes, tasks, known, turn=seed)


def random_questions(seed: int) -> list[PlacementQuestion]:
    generator = np.random.default_rng([seed, 4])
    return [
        PlacementQuestion(
            service=f"new-{number}",
            reserve=amount(*np.round(generator.uniform(0.1, 7.0, size=2), 2)),
            task_class=int(generator.integers(1, 5)),
            kind=str(generator.choice(["service", "job"])),  # type: ignore[arg-type]
            spread=bool(generator.random() < 0.3),
            reserve_seconds=60.0,
        )
        for number in range(4)
    ]


# --- Decisions ------------------------------------------------------------------------------


def _placed(question: PlacementQuestion, number: int, node: str, gets: Quantities | None) -> TaskFacts:
    return TaskFacts(
        id=f"new-{number}",
        node=node,
        service=question.service,
        requested=question.reserve,
        allocated=gets,
        task_class=question.task_class or 1,
    )


def check_place(chosen: PolicyChoice, seed: int, *, may_cut: bool = True) -> None:
    """Placements one after the other: each is pending for the next ones, or runs if actions came first."""
    cluster, reservations = promised_cluster(seed), Reservations()
    base, pending = cluster.snapshot(), list[TaskFacts]()
    for number, question in enumerate(random_questions(seed)):
        found = place_container(
            reservations.fold(base, 0.0),
            question,
            chosen,
            reservations,
            default_class=1,
            now=0.0,
            may_cut=may_cut,
        )
        best = found.ranking.best
        if best is None:
            continue
        needs, gets = found.ranking.needs(best), found.ranking.gets(best)
        assert may_cut or gets is None
        before = losses(replace(cluster, tasks=[*cluster.tasks, *pending]))
        pending.append(_placed(question, number, base.nodes.names[best], gets))
        after = replace(cluster, tasks=[*cluster.tasks, *pending]).after(needs)
        _check(before, after, needs)
        if needs:
            cluster, pending, reservations = after, [], Reservations()
            base = cluster.snapshot()


def check_whole(chosen: PolicyChoice, seed: int) -> None:
    """As deployments and elastic services ask: the container itself cannot be cut."""
    check_place(chosen, seed, may_cut=False)


def check_room(chosen: PolicyChoice, seed: int) -> None:
    cluster = promised_cluster(seed)
    snapshot = cluster.snapshot()
    question = random_questions(seed)[0]
    for may_cut in (True, False):
        found = plan_room(snapshot, question, chosen, 1, may_cut=may_cut)
        assert plan_room(snapshot, found.question, chosen, 1).plan == found.plan
        if found.node is None:
            continue
        assert may_cut or found.plan.gets is None
        new = _placed(question, 0, found.node, found.plan.gets)
        after = replace(cluster, tasks=[*cluster.tasks, new]).after(found.plan.actions)
        _check(losses(cluster), after, found.plan.actions)


def check_application(chosen: PolicyChoice, seed: int) -> None:
    if chosen.policy.place_all is None:
        return
    cluster, questions = promised_cluster(seed), random_questions(seed)
    snapshot = cluster.snapshot()
    requests = [build_request(each, snapshot, 1)[0] for each in questions]
    found = place_together(snapshot, requests, chosen)
    if found.nodes:
        new = [_placed(each, at, found.nodes[at], None) for at, each in enumerate(questions)]
        _check(
            losses(cluster), replace(cluster, tasks=[*cluster.tasks, *new]).after(found.needs), found.needs
        )


def check_plan(chosen: PolicyChoice, seed: int) -> None:
    """The plan that the timer or an alert asks for: nodes have open alerts."""
    if chosen.policy.rebalance is not None:
        cluster = promised_cluster(seed)
        plan = chosen.rebalance(cluster.snapshot())
        _check(losses(cluster), cluster.after(plan.actions), plan.actions)


def check_alert(seed: int) -> None:
    """Each node where a container loses more than its class tolerates is found; none within all limits is."""
    cluster = promised_cluster(seed)
    facts = {each.id: each for each in cluster.tasks}
    lost = losses(cluster)
    broken = {
        facts[name].node for name, share in lost.items() if share > TOLERATED[facts[name].task_class] + 1e-6
    }
    snapshot = cluster.snapshot()
    found = {each.subject for each in findings(snapshot) if each.kind is BottleneckKind.OVERBOOKED}
    assert broken <= found
    uncut = np.ones(len(snapshot.nodes.names), dtype=np.bool_)
    for each in cluster.tasks:
        if each.node is not None and each.allocated != each.requested:
            uncut[snapshot.nodes.index[each.node]] = False
    within = snapshot.nodes.overbooking <= np.array(OVERBOOKING_LIMITS)[snapshot.nodes.strictest_class]
    assert not found & {snapshot.nodes.names[row] for row in np.flatnonzero(uncut & within)}


CHECKS: Mapping[str, Callable[[PolicyChoice, int], None]] = {
    "place": check_place,
    "whole": check_whole,
    "room": check_room,
    "application": check_application,
    "plan": check_plan,
}


def choices() -> list[PolicyChoice]:
    """Every policy that counts reservations: by default, all of them do."""
    assert not Stability().overbooks
    found: list[PolicyChoice] = []
    for policy in POLICIES.values():
        found.append(with_settings(policy, {}))
        if _has(policy, "may_wait"):
            found.append(with_settings(policy, {"may_wait": True}))
    return found


def _has(policy: Policy, setting: str) -> bool:
    return setting in policy.settings.__struct_fields__
