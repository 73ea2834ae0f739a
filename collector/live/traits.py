"""What labels and settings allow for nodes and containers; the labels are in `collector.common.labels`."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from collector.common.labels import (
    ACCEPT_LABEL,
    CLASS_LABEL,
    GENERATION_LABEL,
    KIND_LABEL,
    MOVE_LABEL,
    NEVER,
    POWER_LABEL,
    SLO_LABEL,
    SLO_MODE_LABEL,
)
from collector.config import NodeRule
from collector.slo.promises import ServiceMode
from collector.snapshot.tables import Generation, TaskKind

_CLASSES = {"1": 1, "2": 2, "3": 3, "4": 4}
_KINDS = {kind.name.lower(): kind for kind in TaskKind}
_MODES = {mode.value: mode for mode in ServiceMode}
_GENERATIONS = {generation.name.lower(): generation for generation in Generation}


class TaskTraits(NamedTuple):
    """The traits of a container that its labels set."""

    task_class: int
    kind: TaskKind
    movable: bool


def task_traits(labels: Mapping[str, str], default_class: int) -> TaskTraits:
    """The traits of a container; an invalid value counts as unset."""
    return TaskTraits(
        _CLASSES.get(labels.get(CLASS_LABEL, ""), default_class),
        _KINDS.get(labels.get(KIND_LABEL, ""), TaskKind.SERVICE),
        labels.get(MOVE_LABEL) != NEVER,
    )


class PromiseTraits(NamedTuple):
    """What the labels of a service, or of its container, promise it."""

    promise: str
    """The name of a class; empty without a promise."""
    mode: ServiceMode


def promise_traits(labels: Mapping[str, str], classes: Container[str], default: str) -> PromiseTraits:
    """The promise of a service; an invalid value counts as unset.

    The default is not for daemons: those belong to their nodes.
    """
    kind = _KINDS.get(labels.get(KIND_LABEL, ""), TaskKind.SERVICE)
    promise = labels.get(SLO_LABEL, "")
    if promise not in classes:
        promise = "" if kind is TaskKind.DAEMON else default
    usual = ServiceMode.BATCH if kind is TaskKind.JOB else ServiceMode.INDEPENDENT
    return PromiseTraits(promise, _MODES.get(labels.get(SLO_MODE_LABEL, ""), usual))


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """The traits of a node that its labels and the settings set."""

    labels: Mapping[str, str]
    generation: Generation
    accepts: bool


def node_traits(
    name: str, rules: Mapping[str, NodeRule], own_labels: Mapping[str, str], *, runs_collector: bool = False
) -> NodeTraits:
    """The traits of a node. Rules whose pattern matches override its own labels; the last rule wins.

    The node that runs the collector is never switched off.
    """
    matching = [rule for pattern, rule in rules.items() if fnmatchcase(name, pattern)]
    labels = dict(own_labels)
    for rule in matching:
        labels |= rule.labels
    if runs_collector:
        labels[POWER_LABEL] = NEVER
    generation = _GENERATIONS.get(labels.get(GENERATION_LABEL, ""), Generation.ANY)
    accepts = labels.get(ACCEPT_LABEL) != NEVER
    for rule in matching:
        generation = generation if rule.generation is None else _GENERATIONS[rule.generation]
        accepts = accepts if rule.accepts is None else rule.accepts
    return NodeTraits(labels, generation, accepts)
