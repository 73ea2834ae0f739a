"""What can keep a policy from emptying a node or moving a container, and the cluster without it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from collector.common.arrays import Flags, Rows
from collector.common.labels import ACT_LABEL, ALLOWED, MOVE_LABEL, NEVER, POWER_LABEL
from collector.common.liveness import Liveness
from collector.common.text import counted
from collector.decide.policies.actions import Action, Move, PowerOff
from collector.decide.policies.filters import node_filters
from collector.decide.policies.interface import Plan, PolicySettings, Stability
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.policies.stability import keeps_awake, no_return_nodes, reason_to_stay_on
from collector.snapshot.tables import NOWHERE, Snapshot

_NAMED = 3
"""Containers that a reason names; the others are counted."""
_MANY, _YEAR_SECONDS = 1_000_000, 366 * 86_400.0
_NO_LIMITS = Stability(cool_down_seconds=0.0, no_return_seconds=0.0, stale_seconds=_YEAR_SECONDS)
"""For policies that move nothing."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a node, or a container and its node; the cluster, and the policy that plans for it."""

    snapshot: Snapshot
    chosen: PolicyChoice
    node: int
    task: int = NOWHERE

    @property
    def node_name(self) -> str:
        return self.snapshot.nodes.names[self.node]

    @property
    def name(self) -> str:
        """The name of the node, or of the container; without one, its id."""
        tasks = self.snapshot.tasks
        return self.node_name if self.task == NOWHERE else tasks.names[self.task] or tasks.ids[self.task]

    @property
    def limits(self) -> Stability:
        settings = self.chosen.settings
        return settings if isinstance(settings, Stability) else _NO_LIMITS

    @property
    def there(self) -> Rows:
        """The containers that keep the node in use."""
        rows = self.snapshot.tasks_on(self.node)
        return rows[keeps_awake(self.snapshot)[rows]]

    def plan(self) -> Plan:
        return self.chosen.rebalance(self.snapshot)

    def actions(self, plan: Plan) -> tuple[Action, ...]:
        """Return the actions that empty the node, or move the container; none if the plan does not."""
        if self.task != NOWHERE:
            task = self.snapshot.tasks.ids[self.task]
            return tuple(each for each in plan.actions if getattr(each, "task", None) == task)
        of_node = [each for each in plan.actions if getattr(each, "node", None) == self.node_name]
        moves = tuple(each for each in of_node if isinstance(each, Move))
        off = tuple(each for each in of_node if isinstance(each, PowerOff))
        return (*moves, *off) if off or (moves and len(moves) == self.there.size) else ()

    # --- The same with changes ------------------------------------------------------------------

    def with_nodes(self, **columns: Any) -> "Case":  # noqa: ANN401 - columns of several types
        """Return the case with other values of its own node."""
        nodes = self.snapshot.nodes
        changed = {name: _at(getattr(nodes, name), self.node, value) for name, value in columns.items()}
        return replace(self, snapshot=replace(self.snapshot, nodes=nodes.with_columns(**changed)))

    def with_tasks(self, rows: Rows, **columns: Any) -> "Case":  # noqa: ANN401 - columns of several types
        """Return the case with other values of some containers."""
        if not rows.size:
            return self
        tasks = self.snapshot.tasks
        changed = {name: _at(getattr(tasks, name), rows, value) for name, value in columns.items()}
        return replace(self, snapshot=replace(self.snapshot, tasks=replace(tasks, **changed)))

    def with_settings(self, **wanted: Any) -> "Case":  # noqa: ANN401 - settings of several types
        """Return the case with other settings, as far as the policy has them."""
        before = self.chosen.settings
        known = {name: value for name, value in wanted.items() if hasattr(before, name)}
        after: PolicySettings = msgspec.structs.replace(before, **known)
        return self if after == before else replace(self, chosen=replace(self.chosen, settings=after))

    def with_label(self, rows: Iterable[int], label: str, value: str | None) -> "Case":
        """Return the case with a label of some nodes set, or removed."""
        nodes = self.snapshot.nodes
        labels = list(nodes.labels)
        for row in rows:
            others = {name: each for name, each in labels[row].items() if name != label}
            labels[row] = others if value is None else {**others, label: value}
        if tuple(labels) == nodes.labels:
            return self
        return replace(self, snapshot=replace(self.snapshot, nodes=nodes.with_columns(labels=tuple(labels))))


def _at(column: Any, rows: Any, value: Any) -> Any:  # noqa: ANN401 - columns of several types
    """Return a copy of a column with another value in some rows."""
    changed = column.copy()
    changed[rows] = value
    return changed


@dataclass(frozen=True, slots=True)
class Rule:
    """A possible obstacle."""

    kind: str
    lift: Callable[[Case], Case]
    """Return the case without the obstacle: the same object if it is not there."""
    why: Callable[[Case], str] | str
    """Describe it. A text is used if the policy does not say why it keeps the node."""
    change: str
    containers: Callable[[Case], Rows] | None = None
    """The containers that it is about."""


# --- Containers -------------------------------------------------------------------------------------


def _fixed(case: Case) -> Rows:
    return case.there[~case.snapshot.tasks.movable[case.there]]


def _recent(case: Case) -> Rows:
    return case.there[case.snapshot.tasks.settled_seconds[case.there] < case.limits.cool_down_seconds]


def _returning(case: Case) -> Rows:
    is_kept: Flags = no_return_nodes(case.snapshot, case.limits)[case.there] != NOWHERE
    return case.there[is_kept]


def _constrained(case: Case) -> Rows:
    services = case.snapshot.tasks.service[case.there]
    return case.there[np.array([int(row) in case.snapshot.constraints for row in services], dtype=np.bool_)]


def _lift_constraints(case: Case) -> Case:
    gone = set(case.snapshot.tasks.service[_constrained(case)].tolist())
    left = {row: each for row, each in case.snapshot.constraints.items() if row not in gone}
    return replace(case, snapshot=replace(case.snapshot, constraints=left)) if gone else case


def _some(find: Callable[[Case], Rows], text: str) -> Callable[[Case], str]:
    """Describe what some containers have in common."""

    def describe(case: Case) -> str:
        rows, tasks = find(case), case.snapshot.tasks
        names = ", ".join(tasks.names[row] or tasks.ids[row] for row in rows[:_NAMED].tolist())
        more = f" and {counted(rows.size - _NAMED, 'other container')}" if rows.size > _NAMED else ""
        return f"{names}{more} {text}"

    return describe


def _cooling(case: Case) -> str:
    seconds = case.limits.cool_down_seconds
    left = seconds - float(case.snapshot.tasks.settled_seconds[_recent(case)].min())
    return _some(_recent, f"must stay for {seconds:.0f} s, another {left:.0f} s")(case)


# --- The node -----------------------------------------------------------------------------------------


def _lift_pending(case: Case) -> Case:
    pending = case.snapshot.pending
    stays = pending.nodes != case.node
    if stays.all():
        return case
    columns = ("nodes", "services", "is_known", "mean", "allocated")
    left = pending._replace(**{name: getattr(pending, name)[stays] for name in columns})
    return replace(case, snapshot=replace(case.snapshot, pending=left))


def _lift_alert(case: Case) -> Case:
    has_one = case.snapshot.nodes.has_bottleneck[case.node]
    return case.with_nodes(bottleneck=False) if has_one else case


def _open_alert(case: Case) -> Case:
    nodes, tasks, row = case.snapshot.nodes, case.snapshot.tasks, case.node
    if case.task == NOWHERE or nodes.has_bottleneck[row]:
        return case
    used = np.nan_to_num(tasks.used[case.task])
    resource = int(np.nan_to_num(used / nodes.known_capacity[row]).argmax())
    part = float(np.nan_to_num(used[resource] / nodes.used[row, resource], nan=1.0))
    return case.with_nodes(
        bottleneck=_at(nodes.bottleneck[row], resource, value=True),
        culprit=_at(nodes.culprit[row], resource, case.task),
        # The alert could close without this container.
        excess=_at(nodes.excess[row], resource, 0.5 * min(part, 1.0)),
    )


def _lift_silence(case: Case) -> Case:
    nodes, row = case.snapshot.nodes, case.node
    is_fresh = nodes.report_age_seconds[row] <= case.limits.stale_seconds
    if not nodes.on[row] or (is_fresh and nodes.liveness[row] == Liveness.UP):
        return case
    return case.with_nodes(liveness=Liveness.UP, report_age_seconds=0.0)


def _silent(case: Case) -> str:
    age = case.snapshot.nodes.report_age_seconds[case.node]
    return f"the last report of {case.node_name} is {age:.0f} s old"


def _stays_on(case: Case) -> str:
    return reason_to_stay_on(case.snapshot, case.node) or f"{case.node_name} must stay on"


def _lift_power(case: Case) -> Case:
    is_held = reason_to_stay_on(case.snapshot, case.node) is not None
    return case.with_label([case.node], POWER_LABEL, ALLOWED) if is_held else case


def _node(text: str) -> Callable[[Case], str]:
    return lambda case: f"{case.node_name} {text}"


# --- Other nodes ----------------------------------------------------------------------------------------


def _rest(case: Case) -> Rows:
    return np.delete(np.arange(len(case.snapshot.nodes.names)), case.node)


def _lift_room(case: Case) -> Case:
    nodes, rest = case.snapshot.nodes, _rest(case)
    if not rest.size:
        return case
    more = nodes.capacity[rest] + np.nan_to_num(nodes.capacity[case.node], nan=0.0)
    larger = nodes.with_columns(capacity=_at(nodes.capacity, rest, more))
    return replace(case, snapshot=replace(case.snapshot, nodes=larger))


def _ordered(case: Case) -> str:
    moves = [each for each in case.plan().actions if isinstance(each, Move) and each.target == case.node_name]
    return f"the plan moves {counted(len(moves), 'container')} to it" if moves else "others are emptied first"


def _lift_filters(case: Case) -> Case:
    snapshot = case.snapshot
    found = any(each.services(snapshot) is not None for each in node_filters(snapshot))
    return replace(case, snapshot=snapshot.without_filters()) if found else case


RULES = (
    # Of two changes that would do, the later one is named: it is easier to make.
    Rule(
        "order",
        lambda case: case.with_label(_rest(case).tolist(), POWER_LABEL, NEVER),
        _ordered,
        "a plan after the next one",
    ),
    Rule("room", _lift_room, "other nodes have no room", "as much room again on other nodes"),
    Rule(
        "reservations",
        lambda case: case.with_settings(overbooks=True),
        "the reservations on other nodes leave no room for those of its containers",
        "smaller reservations, laxer classes, or overbooks = true",
    ),
    Rule(
        "risk",
        lambda case: case.with_settings(short_ratio=0.5, short_ratio_of={}),
        "other nodes would be short too often",
        "more room on other nodes, or a higher short_ratio",
    ),
    Rule(
        "gain",
        lambda case: case.with_settings(payback_seconds=_YEAR_SECONDS, caution=1.0),
        "it would gain too little",
        "a larger gain, a longer payback_seconds, or less caution",
    ),
    Rule(
        "budget",
        lambda case: case.with_settings(moves=_MANY, moves_per_day=float(_MANY)),
        "the budget of moves is spent",
        "a later plan, or more moves and moves_per_day",
    ),
    Rule(
        "spare",
        lambda case: case.with_settings(spare_nodes=0),
        _node("is a spare node"),
        "a lower spare_nodes",
    ),
    Rule("filters", _lift_filters, "bounds of applications keep it there", "wider bounds"),
    Rule(
        "constraints",
        _lift_constraints,
        _some(_constrained, "may run on no other node with room: the constraints of their services"),
        "other constraints, or nodes with room that meet them",
        _constrained,
    ),
    Rule(
        "no_return",
        lambda case: case.with_tasks(_returning(case), came_from=NOWHERE),
        _some(_returning, "may not return to the node that they came from yet"),
        "time, or a shorter no_return_seconds",
        _returning,
    ),
    Rule(
        "cool_down",
        lambda case: case.with_tasks(_recent(case), settled_seconds=case.limits.cool_down_seconds),
        _cooling,
        "time, or a shorter cool_down_seconds",
        _recent,
    ),
    Rule(
        "no_alert",
        _open_alert,
        _node("has no open bottleneck, and the policy answers those"),
        "a bottleneck of the node that this container causes",
    ),
    Rule(
        "alert",
        _lift_alert,
        _node("has an open bottleneck: such a node is relieved, not emptied"),
        "the end of the bottleneck",
    ),
    Rule("reserved", _lift_pending, _stays_on, "the start of the container, or the end of the reservation"),
    Rule("silent", _lift_silence, _silent, "a report of its agent"),
    Rule(
        "closed",
        lambda case: case if case.snapshot.nodes.accepts[case.node] else case.with_nodes(accepts=True),
        _node("accepts no containers: it is left as it is"),
        "activating the node",
    ),
    Rule("power", _lift_power, _stays_on, f"the label {POWER_LABEL}={ALLOWED} on the node"),
    Rule(
        "label",
        lambda case: case.with_label([case.node], ACT_LABEL, None),
        _node(f"has opted out with the label {ACT_LABEL}"),
        "removing the label",
    ),
    Rule(
        "stays",
        lambda case: case.with_tasks(_fixed(case), movable=True),
        _some(_fixed, "may not be moved"),
        f"the label {MOVE_LABEL}={ALLOWED}, if it may run elsewhere",
        _fixed,
    ),
)
