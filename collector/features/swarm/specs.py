"""Service specs as users wrote them, and with temporary changes. Pure.

A spec replaces the previous one, and omitted fields are dropped. So a spec is only ever changed, and the
temporary changes are in a label of the service, with the original values: any collector can undo them.
"""

import copy
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Any

import msgspec

from collector.act.drivers.engine.client import Json
from collector.common.labels import BEFORE_LABEL, PARKED_LABEL, STOPPED_LABEL, parse_stopped_replicas
from wire.errors import INVALID_JSON

_NANOSECONDS = 1_000_000_000
NANOCPUS = 1e9
"""A core in Swarm's unit."""
_SHORTEST_MONITOR = 1
"""In nanoseconds; 0 means Swarm's default."""
_UPDATE, _ROLLBACK = "UpdateConfig", "RollbackConfig"
NO_NODE = "node.id==parked-by-wattpack"
"""A constraint that no node meets: ids have neither hyphens nor this length."""


class Order(StrEnum):
    """The order of an update."""

    START = "start-first"
    STOP = "stop-first"
    """For tasks that write to the same data and must not run twice."""


class ReplicaGroup(msgspec.Struct, frozen=True):
    """Nodes that get the same number of replicas of a service."""

    nodes: tuple[str, ...]
    """Ids."""
    replicas: int
    """On each of them."""


class ParkedTask(msgspec.Struct, frozen=True):
    """A task that was stopped for more urgent ones, and waits for its turn."""

    slot: int
    """Its number among the tasks of the service. The task that replaces it gets the same."""
    node: str
    """Name of the node that it ran on; empty if it never ran."""
    since: float
    """When it was stopped, as Unix time."""


_UpdateConfig = dict[str, str | int | float | bool | None]
_MOST_LETTERS = 1 << 20
"""Maximum length of the label: enough for ten thousand parked tasks."""


class _TemporaryChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `BEFORE_LABEL`: temporary changes of a spec, and the replaced values."""

    constraints: list[str] = []
    """The temporary constraints."""
    placed: bool = True
    """Whether the user's spec has a placement."""
    update: _UpdateConfig | None = None
    """The user's update configuration; None if there is none."""
    rollback: _UpdateConfig | None = None
    careful: _UpdateConfig = {}
    """The temporary update configuration."""
    groups: tuple[ReplicaGroup, ...] = ()
    """If the service is being deployed: where its replicas go, the largest numbers first."""
    parked: tuple[ParkedTask, ...] = ()
    """The tasks that wait for their turn."""
    scaled_to: int | None = None
    """The number of replicas without the parked tasks; None if the number is the user's."""


def has_temporary_changes(spec: Json) -> bool:
    """Whether a spec has temporary changes."""
    return BEFORE_LABEL in (spec.get("Labels") or {})


def is_constrained(spec: Json) -> bool:
    """Whether a spec has the temporary changes of a move or start that is under way."""
    return has_temporary_changes(spec) and not groups_of(spec) and without_constraints(spec) != spec


def user_spec(spec: Json) -> Json:
    """Return the user's spec, including changes since the temporary ones were added."""
    mark = _temporary_changes(spec)
    if mark is None:
        return spec
    plain = copy.deepcopy(spec)
    del plain["Labels"][BEFORE_LABEL]
    plain["Labels"].pop(PARKED_LABEL, None)
    if mark.scaled_to is not None and replicas_of(spec) == mark.scaled_to:
        _put_replicas(plain, mark.scaled_to + len(mark.parked))
    totals = _totals(mark.groups)
    if replicas_of(spec) in totals[:-1]:
        _put_replicas(plain, totals[-1])
    _put_constraints(plain, [each for each in constraints_of(spec) if each not in mark.constraints])
    if not mark.placed and not plain["TaskTemplate"].get("Placement"):
        plain["TaskTemplate"].pop("Placement", None)
    for key, before, ours in (
        (_UPDATE, mark.update, mark.careful),
        (_ROLLBACK, mark.rollback, _backwards(mark.careful)),
    ):
        if plain.get(key) != ours:
            continue  # changed by the user
        if before is None:
            del plain[key]
        else:
            plain[key] = before
    return plain


def with_constraints(spec: Json, constraints: Sequence[str], order: Order, watch_seconds: float) -> Json:
    """Return the user's spec with temporary constraints and a careful update configuration.

    If a task fails during the update, Swarm rolls back by itself, even without a collector. Parked tasks stay
    parked.
    """
    careful = _careful(order, watch_seconds, "rollback")
    return _with_changes(user_spec(spec), constraints, parked_tasks(spec), careful)


def without_constraints(spec: Json) -> Json:
    """Return the spec without the temporary constraints of a move or start. Parked tasks stay parked."""
    return _with_waiting(spec, parked_tasks(spec))


def with_parked(spec: Json, tasks: Sequence[ParkedTask]) -> Json:
    """Return the spec with these tasks stopped until their turn comes.

    The task of a service with one replica waits in Swarm, for a node that meets a constraint. In a larger
    service the constraint would stop all tasks, so that it has fewer replicas instead.
    """
    slots = {each.slot for each in tasks}
    return _with_waiting(spec, (*(each for each in parked_tasks(spec) if each.slot not in slots), *tasks))


def with_unparked(spec: Json, slot: int, constraints: Sequence[str] = (), watch_seconds: float = 0.0) -> Json:
    """Return the spec with a parked task started, under temporary constraints; the others stay parked."""
    is_single = replicas_of(user_spec(spec)) == 1
    waiting = tuple(each for each in parked_tasks(spec) if each.slot != slot and not is_single)
    return _with_waiting(spec, waiting, constraints, Order.START, watch_seconds)


def _with_waiting(
    spec: Json,
    waiting: tuple[ParkedTask, ...],
    constraints: Sequence[str] = (),
    order: Order = Order.STOP,
    watch_seconds: float = 0.0,
) -> Json:
    if not waiting and not constraints:
        return user_spec(spec)
    return _with_changes(user_spec(spec), constraints, waiting, _careful(order, watch_seconds, "pause"))


def parked_tasks(spec: Json) -> tuple[ParkedTask, ...]:
    """Return the tasks of a service that wait for their turn, unless the user changed its replicas since."""
    mark = _temporary_changes(spec)
    if mark is None or (mark.scaled_to is not None and replicas_of(spec) != mark.scaled_to):
        return ()
    return mark.parked


def _careful(order: Order, watch_seconds: float, on_failure: str) -> _UpdateConfig:
    return {
        "Parallelism": 1,
        "FailureAction": on_failure,
        "Monitor": max(_SHORTEST_MONITOR, round(watch_seconds * _NANOSECONDS)),
        "MaxFailureRatio": 0,
        "Order": order.value,
    }


def _backwards(careful: _UpdateConfig) -> _UpdateConfig:
    """Return the temporary rollback configuration."""
    return {**careful, "FailureAction": "pause"}


def _with_changes(
    plain: Json, constraints: Sequence[str], waiting: tuple[ParkedTask, ...], careful: _UpdateConfig
) -> Json:
    """Return the user's spec with temporary changes, and a label with the values to restore."""
    replicas = replicas_of(plain)
    waits_in_swarm = bool(waiting) and replicas == 1
    ours = [each for each in constraints if each not in constraints_of(plain)]
    ours += [NO_NODE] if waits_in_swarm else []
    mark = _TemporaryChanges(
        constraints=ours,
        placed="Placement" in (plain.get("TaskTemplate") or {}),
        update=plain.get(_UPDATE),
        rollback=plain.get(_ROLLBACK),
        careful=careful,
        parked=waiting,
        scaled_to=replicas - len(waiting) if waiting and replicas and not waits_in_swarm else None,
    )
    changed = _marked(plain, mark)
    if waiting:
        changed["Labels"][PARKED_LABEL] = ", ".join(sorted({each.node for each in waiting if each.node}))
    if mark.scaled_to is not None:
        _put_replicas(changed, mark.scaled_to)
    return {**changed, _UPDATE: careful, _ROLLBACK: _backwards(careful)}


def _marked(plain: Json, mark: _TemporaryChanges) -> Json:
    """Return the user's spec with temporary constraints and the label."""
    changed = copy.deepcopy(plain)
    changed["Labels"] = {**(plain.get("Labels") or {}), BEFORE_LABEL: msgspec.json.encode(mark).decode()}
    _put_constraints(changed, [*constraints_of(plain), *mark.constraints])
    return changed


def groups_of(spec: Json) -> tuple[ReplicaGroup, ...]:
    """Return where the replicas of a service that is being deployed go; empty for every other service."""
    mark = _temporary_changes(spec)
    return () if mark is None else mark.groups


def hold_label(groups: Sequence[ReplicaGroup], constraints: Sequence[str]) -> str:
    """Return the label of a service that is created with temporary constraints, for its first group."""
    return msgspec.json.encode(
        _TemporaryChanges(constraints=list(constraints), groups=tuple(groups))
    ).decode()


def with_next_group(spec: Json, node_ids: Sequence[str]) -> Json:
    """Return the spec with room for one more group; as the user wrote it if all have their replicas.

    Swarm gives a new task to the node with the fewest tasks of its service. So if only the nodes of the
    groups so far are open, and later groups have fewer replicas per node, each node gets its number.
    """
    mark, plain = _temporary_changes(spec), user_spec(spec)
    assert mark is not None
    totals, replicas = _totals(mark.groups), replicas_of(spec)
    if replicas not in totals[:-1]:
        return plain
    groups = mark.groups[: totals.index(replicas) + 2]
    chosen = {node for group in groups for node in group.nodes}
    ours = [each for each in only_on(chosen, node_ids) if each not in constraints_of(plain)]
    changed = _marked(plain, msgspec.structs.replace(mark, constraints=ours))
    _put_replicas(changed, _totals(groups)[-1])
    return changed


def only_on(chosen: Collection[str], node_ids: Iterable[str]) -> list[str]:
    """Return constraints that leave only some nodes."""
    if len(chosen) == 1:
        return [f"node.id=={node}" for node in chosen]
    return [f"node.id!={node}" for node in node_ids if node not in chosen]


def replicas_of(spec: Json) -> int | None:
    """Return the present number of replicas; None if the service runs on every node, or as a job."""
    replicated: Json | None = (spec.get("Mode") or {}).get("Replicated")
    return None if replicated is None else int(replicated.get("Replicas", 1))


def with_replicas(spec: Json, replicas: int) -> Json:
    """Return the spec with another number of replicas."""
    changed = copy.deepcopy(spec)
    _put_replicas(changed, replicas)
    return changed


def with_stopped(spec: Json, replicas: int | None) -> Json:
    """Return the spec with a note of how many replicas were stopped, or without it."""
    labels = {name: each for name, each in (spec.get("Labels") or {}).items() if name != STOPPED_LABEL}
    return {**spec, "Labels": labels if replicas is None else {**labels, STOPPED_LABEL: str(replicas)}}


def stopped_replicas(spec: Json) -> int:
    """Return how many replicas a service had before all were stopped; 0 if it was not stopped."""
    noted = str((spec.get("Labels") or {}).get(STOPPED_LABEL, ""))
    return parse_stopped_replicas(noted) if replicas_of(spec) == 0 else 0


def cpu_limit_of(spec: Json) -> int:
    """Return the CPU limit of each task, in Swarm's unit; 0 without one."""
    resources: Json = (spec.get("TaskTemplate") or {}).get("Resources") or {}
    return int((resources.get("Limits") or {}).get("NanoCPUs") or 0)


def with_cpu_limit(spec: Json, cores: float | None) -> Json:
    """Return the spec with another CPU limit of each task; None removes it."""
    changed = copy.deepcopy(spec)
    template: Json = changed.setdefault("TaskTemplate", {})
    resources: Json = template.get("Resources") or {}
    limits: Json = dict(resources.get("Limits") or {})
    if cores is None:
        limits.pop("NanoCPUs", None)
    else:
        limits["NanoCPUs"] = round(cores * NANOCPUS)
    if limits or resources.get("Limits"):
        template["Resources"] = {**resources, "Limits": limits}
    return changed


def _put_replicas(spec: Json, replicas: int) -> None:
    spec["Mode"]["Replicated"]["Replicas"] = replicas


def _totals(groups: Sequence[ReplicaGroup]) -> list[int]:
    """Return the cumulative number of replicas of the groups."""
    return list(accumulate(group.replicas * len(group.nodes) for group in groups))


def constraints_of(spec: Json) -> list[str]:
    """Return all constraints of a service, including temporary ones."""
    placement: Json = (spec.get("TaskTemplate") or {}).get("Placement") or {}
    return list(placement.get("Constraints") or [])


def _put_constraints(spec: Json, constraints: list[str]) -> None:
    template = spec.setdefault("TaskTemplate", {})
    if constraints:
        template["Placement"] = {**(template.get("Placement") or {}), "Constraints": constraints}
    else:
        (template.get("Placement") or {}).pop("Constraints", None)


def _temporary_changes(spec: Json) -> _TemporaryChanges | None:
    text: Any = (spec.get("Labels") or {}).get(BEFORE_LABEL)
    if text is None:
        return None
    try:
        if len(text) <= _MOST_LETTERS:
            return msgspec.json.decode(text, type=_TemporaryChanges)
    except INVALID_JSON:
        pass
    # If someone changed the label, temporary and user constraints can no longer be distinguished.
    return _TemporaryChanges()
