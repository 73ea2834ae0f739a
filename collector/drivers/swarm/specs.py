"""A service's spec with constraints of ours, and as its user wrote it. Pure.

A spec replaces the one before: what is left out is dropped. So it is never made from parts, only changed, and
what we put into it for the time of a move stands in a label of the service beside what was there before:
whoever finds it, another collector after this one was killed, can take it back.
"""

import copy
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from collector.common.labels import BEFORE_LABEL
from collector.drivers.docker.client import Json

_NANOSECONDS = 1_000_000_000
_SHORTEST_MONITOR = 1
"""In nanoseconds; with 0 Swarm takes its default."""
_UPDATE, _ROLLBACK = "UpdateConfig", "RollbackConfig"


class Order(StrEnum):
    """What comes first in an update."""

    START = "start-first"
    STOP = "stop-first"
    """For what must never run twice at once: two that write to one place."""


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    constraints: list[str]
    """Ours."""
    placed: bool
    """Whether the user's spec says anything of placement."""
    update: Json | None
    """The user's; None is for none given, as below."""
    rollback: Json | None
    careful: Json
    """What we put in place of `update`."""
    backwards: Json
    """And of `rollback`."""


def is_marked(spec: Json) -> bool:
    """Whether a spec holds anything of ours."""
    return BEFORE_LABEL in (spec.get("Labels") or {})


def as_written(spec: Json) -> Json:
    """The spec as its user has it, also if it was changed since ours was added."""
    mark = _mark(spec)
    if mark is None:
        return spec
    plain = copy.deepcopy(spec)
    del plain["Labels"][BEFORE_LABEL]
    _put_constraints(plain, [each for each in constraints_of(spec) if each not in mark.constraints])
    if not mark.placed and not plain["TaskTemplate"].get("Placement"):
        plain["TaskTemplate"].pop("Placement", None)
    for key, before, ours in (
        (_UPDATE, mark.update, mark.careful),
        (_ROLLBACK, mark.rollback, mark.backwards),
    ):
        if plain.get(key) != ours:
            continue  # the user's own, by now
        if before is None:
            del plain[key]
        else:
            plain[key] = before
    return plain


def steered(spec: Json, constraints: Sequence[str], order: Order, watch_seconds: float) -> Json:
    """The user's spec with constraints of ours instead of any that were there of ours, updated with care.

    Swarm itself goes back to the user's spec if a task fails while it is watched, even if nobody is there
    any more to tell it to.
    """
    plain = as_written(spec)
    ours = [each for each in constraints if each not in constraints_of(plain)]
    careful: Json = {
        "Parallelism": 1,
        "FailureAction": "rollback",
        "Monitor": max(_SHORTEST_MONITOR, round(watch_seconds * _NANOSECONDS)),
        "MaxFailureRatio": 0,
        "Order": order.value,
    }
    backwards = {**careful, "FailureAction": "pause"}
    mark = _Mark(
        constraints=ours,
        placed="Placement" in (plain.get("TaskTemplate") or {}),
        update=plain.get(_UPDATE),
        rollback=plain.get(_ROLLBACK),
        careful=careful,
        backwards=backwards,
    )
    changed = copy.deepcopy(plain)
    changed["Labels"] = {**(plain.get("Labels") or {}), BEFORE_LABEL: msgspec.json.encode(mark).decode()}
    _put_constraints(changed, [*constraints_of(plain), *ours])
    changed[_UPDATE] = careful
    changed[_ROLLBACK] = backwards
    return changed


def constraints_of(spec: Json) -> list[str]:
    """All constraints of a service, ours as well."""
    placement: Json = (spec.get("TaskTemplate") or {}).get("Placement") or {}
    return list(placement.get("Constraints") or [])


def _put_constraints(spec: Json, constraints: list[str]) -> None:
    placement: Json = spec.setdefault("TaskTemplate", {}).get("Placement") or {}
    if constraints:
        spec["TaskTemplate"]["Placement"] = {**placement, "Constraints": constraints}
    elif "Constraints" in placement:
        spec["TaskTemplate"]["Placement"] = {
            key: value for key, value in placement.items() if key != "Constraints"
        }


def _mark(spec: Json) -> _Mark | None:
    text: Any = (spec.get("Labels") or {}).get(BEFORE_LABEL)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=_Mark)
    except msgspec.DecodeError:
        # Someone wrote into the label: what was ours can no longer be told from what is theirs.
        return _Mark(constraints=[], placed=True, update=None, rollback=None, careful={}, backwards={})
