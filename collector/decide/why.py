"""Why a plan does not empty a node, or move a container: what has to change for the policy to do it.

The policy itself gives the answer: it plans again for a cluster in which single obstacles are lifted. What is
named here are the obstacles without which the plan would contain the node or the container, and with any of
which it does not. So nothing is decided here a second time.
"""

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from collector.common.arrays import Flags, Rows
from collector.common.errors import QuestionError
from collector.common.labels import ACT_LABEL, ALLOWED, MOVE_LABEL, POWER_LABEL
from collector.common.liveness import Liveness
from collector.common.text import counted
from collector.decide.answers import Obstacle, WhyNot
from collector.decide.policies.actions import Action, Move, PowerOff
from collector.decide.policies.filters import node_filters
from collector.decide.policies.interface import Plan, PolicySettings, Stability
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.policies.stability import keep_one_on, keeps_awake, no_return_nodes, reason_to_stay_on
from collector.snapshot.tables import NOWHERE, Snapshot

_NAMED = 3
"""Containers that a reason names; the others are counted."""
_MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class Subject:
    """A node, or a container and its node."""

    name: str
    node: int
    task: int = NOWHERE

    def actions(self, snapshot: Snapshot, plan: Plan) -> tuple[Action, ...]:
        """Return the actions that empty the node, or move the container; none if the plan does not."""
        if self.task != NOWHERE:
            task = snapshot.tasks.ids[self.task]
            return tuple(each for each in plan.actions if getattr(each, "task", None) == task)
        node = snapshot.nodes.names[self.node]
        moves = tuple(each for each in plan.actions if isinstance(each, Move) and each.node == node)
        off = tuple(each for each in plan.actions if isinstance(each, PowerOff) and each.node == node)
        is_emptied = bool(moves) and len(moves) == len(holders(snapshot, self.node))
        return (*moves, *off) if off or is_emptied else ()


def find_subject(snapshot: Snapshot, name: str) -> Subject:
    """Return the node of this name, or the container of this name or id. Raise `QuestionError`."""
    nodes, tasks = snapshot.nodes, snapshot.tasks
    if name in nodes.index:
        return Subject(name, nodes.index[name])
    rows = [row for row, each in enumerate(tasks.names) if name in {each, tasks.ids[row]}]
    rows = rows or [row for row, each in enumerate(tasks.ids) if each.startswith(name)]
    if len(rows) > 1:
        raise QuestionError(f"{len(rows)} containers are named {name!r}: give the id of one", "$.why")
    if not rows:
        near = difflib.get_close_matches(name, [*nodes.names, *tasks.names], n=1)
        advice = f": did you mean {near[0]!r}?" if near else ""
        raise QuestionError(f"there is no node or container {name!r}{advice}", "$.why")
    (row,) = rows
    if tasks.node[row] == NOWHERE:
        raise QuestionError(f"{name} runs on no node: it waits for one", "$.why")
    return Subject(tasks.names[row] or tasks.ids[row], int(tasks.node[row]), row)


def holders(snapshot: Snapshot, node: int) -> Rows:
    """Return the containers that keep a node in use."""
    there = snapshot.tasks_on(node)
    return there[keeps_awake(snapshot)[there]]


@dataclass(frozen=True, slots=True)
class _World:
    """A cluster and the policy that plans for it."""

    snapshot: Snapshot
    chosen: PolicyChoice

    def with_nodes(self, **columns: Any) -> "_World":  # noqa: ANN401 - columns of several types
        return replace(
            self, snapshot=replace(self.snapshot, nodes=self.snapshot.nodes.with_columns(**columns))
        )

    def with_tasks(self, **columns: Any) -> "_World":  # noqa: ANN401 - columns of several types
        return replace(self, snapshot=replace(self.snapshot, tasks=replace(self.snapshot.tasks, **columns)))

    def with_settings(self, **wanted: Any) -> "_World":  # noqa: ANN401 - settings of several types
        known = {name: value for name, value in wanted.items() if hasattr(self.chosen.settings, name)}
        settings: PolicySettings = msgspec.structs.replace(self.chosen.settings, **known)
        return (
            self
            if settings == self.chosen.settings
            else replace(self, chosen=replace(self.chosen, settings=settings))
        )

    def plan(self) -> Plan:
        return self.chosen.rebalance(self.snapshot)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A possible obstacle."""

    kind: str
    lift: Callable[[_World, Subject], _World]
    """Return the cluster without the obstacle: the same object if it is not there."""
    why: Callable[[_World, Subject, str], str]
    """Describe it; the last argument is what the policy says of the node if nothing else is in the way."""
    change: str
    containers: Callable[[_World, Subject], Rows] | None = None
    """The containers that it is about."""


def explain(snapshot: Snapshot, chosen: PolicyChoice, subject: Subject) -> tuple[Plan, WhyNot]:
    """Return the plan, and why a node or container is not part of it. Takes as long as some twenty plans."""
    world = _World(snapshot, chosen)
    plan = world.plan()
    answer = WhyNot(subject=subject.name, node=snapshot.nodes.names[subject.node])
    if actions := subject.actions(snapshot, plan):
        return plan, msgspec.structs.replace(answer, planned=actions)
    lifted = _needed(world, subject)
    if lifted is None:
        found = _without_remedy(world, subject, plan)
    else:
        found = tuple(_obstacle(world, subject, each, lifted) for each in lifted)
    return plan, msgspec.structs.replace(answer, obstacles=found)


def _needed(world: _World, subject: Subject) -> list[_Rule] | None:
    """Return the obstacles that must be lifted, and none else; None if lifting all is not enough."""
    present = [each for each in _RULES if each.lift(world, subject) is not world]
    for without in ("no_alert", "alert"):
        left = [each for each in present if each.kind != without]
        if not _succeeds(world, subject, left):
            continue
        for each in list(left):
            fewer = [other for other in left if other is not each]
            if _succeeds(world, subject, fewer):
                left = fewer
        return left
    return None


def _succeeds(world: _World, subject: Subject, lifted: Collection[_Rule]) -> bool:
    found = _lift(world, subject, lifted)
    return bool(subject.actions(found.snapshot, found.plan()))


def _lift(world: _World, subject: Subject, lifted: Collection[_Rule]) -> _World:
    for each in lifted:
        world = each.lift(world, subject)
    return world


def _obstacle(world: _World, subject: Subject, rule: _Rule, lifted: Sequence[_Rule]) -> Obstacle:
    others = _lift(world, subject, [each for each in lifted if each is not rule])
    said = others.plan().kept.get(world.snapshot.nodes.names[subject.node], "")
    rows = rule.containers(world, subject) if rule.containers else np.empty(0, dtype=np.intp)
    names = tuple(world.snapshot.tasks.names[row] for row in rows.tolist())
    return Obstacle(kind=rule.kind, why=rule.why(world, subject, said), change=rule.change, containers=names)


def _without_remedy(world: _World, subject: Subject, plan: Plan) -> tuple[Obstacle, ...]:
    """Return what the policy says where no known change would help."""
    snapshot, name = world.snapshot, world.snapshot.nodes.names[subject.node]
    if not snapshot.nodes.on[subject.node]:
        return (Obstacle(kind="off", why=f"{name} is off already"),)
    rules = world.chosen.settings
    if isinstance(rules, Stability) and not keep_one_on(snapshot, rules, np.array([subject.node])).size:
        why, change = (
            f"{name} is the last node that accepts containers",
            "another node that accepts containers",
        )
        return (Obstacle(kind="last", why=why, change=change),)
    rules_left = [each for each in _RULES if each.kind != "no_alert"]
    tried = (plan, *(_lift(world, subject, each).plan() for each in (rules_left, _RULES)))
    for each in tried:
        # If nothing else stood against it, the policy would say this.
        said = [each.kept[name]] if name in each.kept else []
        said += [left for left in each.left if name in left or subject.name in left]
        if said:
            return tuple(Obstacle(kind="policy", why=one) for one in said)
    policy = world.chosen.policy
    why = f"{policy.name} would gain nothing by it; what it does: {policy.summary}"
    return (Obstacle(kind="policy", why=why),)


# --- Obstacles ------------------------------------------------------------------------------------


def _at(column: Any, rows: Any, value: Any) -> Any:  # noqa: ANN401 - columns of several types
    """Return a copy of a column with another value in some rows."""
    changed = column.copy()
    changed[rows] = value
    return changed


def _there(world: _World, subject: Subject) -> Rows:
    return holders(world.snapshot, subject.node)


def _rest(subject: Subject, world: _World) -> Rows:
    every = np.arange(len(world.snapshot.nodes.names))
    return np.delete(every, subject.node)


def _labelled(world: _World, rows: Collection[int], label: str, value: str | None) -> _World:
    """Return the cluster with a label of some nodes set, or removed."""
    labels = list(world.snapshot.nodes.labels)
    for row in rows:
        others = {name: each for name, each in labels[row].items() if name != label}
        labels[row] = others if value is None else {**others, label: value}
    return world if tuple(labels) == world.snapshot.nodes.labels else world.with_nodes(labels=tuple(labels))


def _fixed(world: _World, subject: Subject) -> Rows:
    there = _there(world, subject)
    return there[~world.snapshot.tasks.movable[there]]


def _recent(world: _World, subject: Subject) -> Rows:
    there, rules = _there(world, subject), world.chosen.settings
    seconds = rules.cool_down_seconds if isinstance(rules, Stability) else 0.0
    return there[world.snapshot.tasks.settled_seconds[there] < seconds]


def _returning(world: _World, subject: Subject) -> Rows:
    there, rules = _there(world, subject), world.chosen.settings
    if not isinstance(rules, Stability):
        return there[:0]
    is_kept: Flags = no_return_nodes(world.snapshot, rules)[there] != NOWHERE
    return there[is_kept]


def _constrained(world: _World, subject: Subject) -> Rows:
    there, snapshot = _there(world, subject), world.snapshot
    return there[[int(row) in snapshot.constraints for row in snapshot.tasks.service[there]]]


def _lift_fixed(world: _World, subject: Subject) -> _World:
    rows = _fixed(world, subject)
    return world.with_tasks(movable=_at(world.snapshot.tasks.movable, rows, True)) if rows.size else world  # noqa: FBT003


def _lift_cool_down(world: _World, subject: Subject) -> _World:
    rows, rules = _recent(world, subject), world.chosen.settings
    if not rows.size or not isinstance(rules, Stability):
        return world
    settled = world.snapshot.tasks.settled_seconds
    return world.with_tasks(settled_seconds=_at(settled, rows, rules.cool_down_seconds))


def _lift_return(world: _World, subject: Subject) -> _World:
    rows, tasks = _returning(world, subject), world.snapshot.tasks
    return world.with_tasks(came_from=_at(tasks.came_from, rows, NOWHERE)) if rows.size else world


def _lift_constraints(world: _World, subject: Subject) -> _World:
    rows, snapshot = _constrained(world, subject), world.snapshot
    gone = set(snapshot.tasks.service[rows].tolist())
    left = {row: each for row, each in snapshot.constraints.items() if row not in gone}
    return replace(world, snapshot=replace(snapshot, constraints=left)) if gone else world


def _lift_filters(world: _World, _subject: Subject) -> _World:
    snapshot = world.snapshot
    found = any(each.services(snapshot) is not None for each in node_filters(snapshot))
    return replace(world, snapshot=snapshot.without_filters()) if found else world


def _lift_pending(world: _World, subject: Subject) -> _World:
    pending = world.snapshot.pending
    stays = pending.nodes != subject.node
    if stays.all():
        return world
    columns = {
        name: getattr(pending, name)[stays] for name in ("nodes", "services", "is_known", "mean", "allocated")
    }
    return replace(world, snapshot=replace(world.snapshot, pending=pending._replace(**columns)))


def _lift_alert(world: _World, subject: Subject) -> _World:
    nodes = world.snapshot.nodes
    if not nodes.has_bottleneck[subject.node]:
        return world
    return world.with_nodes(bottleneck=_at(nodes.bottleneck, subject.node, False))  # noqa: FBT003


def _open_alert(world: _World, subject: Subject) -> _World:
    nodes, tasks = world.snapshot.nodes, world.snapshot.tasks
    if subject.task == NOWHERE or nodes.has_bottleneck[subject.node]:
        return world
    used = np.nan_to_num(tasks.used[subject.task])
    place = subject.node, int(np.nan_to_num(used / nodes.known_capacity[subject.node]).argmax())
    # The alert could close without this container.
    excess = 0.5 * min(float(np.nan_to_num(used[place[1]] / nodes.used[place], nan=1.0)), 1.0)
    return world.with_nodes(
        bottleneck=_at(nodes.bottleneck, place, True),  # noqa: FBT003
        culprit=_at(nodes.culprit, place, subject.task),
        excess=_at(nodes.excess, place, excess),
    )


def _lift_silence(world: _World, subject: Subject) -> _World:
    nodes, row = world.snapshot.nodes, subject.node
    stale_seconds = getattr(world.chosen.settings, "stale_seconds", np.inf)
    if not nodes.on[row] or (
        nodes.liveness[row] == Liveness.UP and nodes.report_age_seconds[row] <= stale_seconds
    ):
        return world
    return world.with_nodes(
        liveness=_at(nodes.liveness, row, Liveness.UP),
        report_age_seconds=_at(nodes.report_age_seconds, row, 0.0),
    )


def _lift_closed(world: _World, subject: Subject) -> _World:
    nodes = world.snapshot.nodes
    if nodes.accepts[subject.node]:
        return world
    return world.with_nodes(accepts=_at(nodes.accepts, subject.node, True))  # noqa: FBT003


def _lift_power(world: _World, subject: Subject) -> _World:
    is_held = reason_to_stay_on(world.snapshot, subject.node) is not None
    return _labelled(world, [subject.node], POWER_LABEL, ALLOWED) if is_held else world


def _lift_room(world: _World, subject: Subject) -> _World:
    nodes, rest = world.snapshot.nodes, _rest(subject, world)
    if not rest.size:
        return world
    more = nodes.capacity[rest] + np.nan_to_num(nodes.capacity[subject.node], nan=0.0)
    return world.with_nodes(capacity=_at(nodes.capacity, rest, more))


def _names(world: _World, rows: Rows) -> str:
    names = [world.snapshot.tasks.names[row] for row in rows[:_NAMED].tolist()]
    more = rows.size - len(names)
    return ", ".join(names) + (f" and {counted(more, 'other container')}" if more else "")


def _of_containers(
    find: Callable[[_World, Subject], Rows], text: str
) -> Callable[[_World, Subject, str], str]:
    return lambda world, subject, _said: f"{_names(world, find(world, subject))} {text}"


def _cooling(world: _World, subject: Subject, _said: str) -> str:
    rows, rules = _recent(world, subject), world.chosen.settings
    assert isinstance(rules, Stability)
    left = rules.cool_down_seconds - float(world.snapshot.tasks.settled_seconds[rows].min())
    return f"{_names(world, rows)} must stay for {rules.cool_down_seconds:.0f} s, another {left:.0f} s"


def _stays_on(world: _World, subject: Subject, _said: str) -> str:
    return reason_to_stay_on(world.snapshot, subject.node) or "the node must stay on"


def _silent(world: _World, subject: Subject, _said: str) -> str:
    nodes, row = world.snapshot.nodes, subject.node
    return f"the last report of {nodes.names[row]} is {nodes.report_age_seconds[row]:.0f} s old"


def _ordered(world: _World, subject: Subject, _said: str) -> str:
    node = world.snapshot.nodes.names[subject.node]
    arrivals = sum(isinstance(each, Move) and each.target == node for each in world.plan().actions)
    return (
        f"the plan moves {counted(arrivals, 'container')} to it" if arrivals else "others are emptied first"
    )


def _of_node(text: str) -> Callable[[_World, Subject, str], str]:
    return lambda world, subject, _said: f"{world.snapshot.nodes.names[subject.node]} {text}"


def _said_or(text: str) -> Callable[[_World, Subject, str], str]:
    return lambda _world, _subject, said: said or text


_RULES = (
    # What is dropped first is named last: of two changes that would do, the one that is easier to make.
    _Rule(
        "order",
        lambda world, subject: _labelled(world, _rest(subject, world).tolist(), POWER_LABEL, "never"),
        _ordered,
        "a plan after the next one",
    ),
    _Rule("room", _lift_room, _said_or("other nodes have no room"), "as much room again on other nodes"),
    _Rule(
        "reservations",
        lambda world, _subject: world.with_settings(overbooks=True),
        _said_or("the reservations on other nodes leave no room for those of its containers"),
        "smaller reservations, laxer classes, or overbooks = true",
    ),
    _Rule(
        "risk",
        lambda world, _subject: world.with_settings(short_ratio=0.5, short_ratio_of={}),
        _said_or("other nodes would be short too often"),
        "more room on other nodes, or a higher short_ratio",
    ),
    _Rule(
        "gain",
        lambda world, _subject: world.with_settings(payback_seconds=366 * 86_400.0, caution=1.0),
        _said_or("it would gain too little"),
        "a larger gain, a longer payback_seconds, or less caution",
    ),
    _Rule(
        "budget",
        lambda world, _subject: world.with_settings(moves=_MANY, moves_per_day=float(_MANY)),
        _said_or("the budget of moves is spent"),
        "a later plan, or more moves and moves_per_day",
    ),
    _Rule(
        "spare",
        lambda world, _subject: world.with_settings(spare_nodes=0),
        _of_node("is a spare node"),
        "a lower spare_nodes",
    ),
    _Rule("filters", _lift_filters, _said_or("bounds of applications keep it there"), "wider bounds"),
    _Rule(
        "constraints",
        _lift_constraints,
        _of_containers(_constrained, "may run on no other node with room: the constraints of their services"),
        "other constraints, or nodes with room that meet them",
        _constrained,
    ),
    _Rule(
        "no_return",
        _lift_return,
        _of_containers(_returning, "may not return to the node that they came from yet"),
        "time, or a shorter no_return_seconds",
        _returning,
    ),
    _Rule("cool_down", _lift_cool_down, _cooling, "time, or a shorter cool_down_seconds", _recent),
    _Rule(
        "no_alert",
        _open_alert,
        _of_node("has no open bottleneck, and the policy answers those"),
        "a bottleneck of the node that this container causes",
    ),
    _Rule(
        "alert",
        _lift_alert,
        _of_node("has an open bottleneck: such a node is relieved, not emptied"),
        "the end of the bottleneck",
    ),
    _Rule("reserved", _lift_pending, _stays_on, "the start of the container, or the end of the reservation"),
    _Rule("silent", _lift_silence, _silent, "a report of its agent"),
    _Rule(
        "closed", _lift_closed, _of_node("accepts no containers: it is left as it is"), "activating the node"
    ),
    _Rule("power", _lift_power, _stays_on, f"the label {POWER_LABEL}={ALLOWED} on the node"),
    _Rule(
        "label",
        lambda world, subject: _labelled(world, [subject.node], ACT_LABEL, None),
        _of_node(f"has opted out with the label {ACT_LABEL}"),
        "removing the label",
    ),
    _Rule(
        "stays",
        _lift_fixed,
        _of_containers(_fixed, "may not be moved"),
        f"the label {MOVE_LABEL}={ALLOWED}, if it may run elsewhere",
        _fixed,
    ),
)
