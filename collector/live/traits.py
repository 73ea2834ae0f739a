"""What labels and settings allow for nodes and containers; the labels are in `collector.common.labels`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from typing import NamedTuple

import msgspec

from collector.common.labels import (
    ACCEPT_LABEL,
    APP_LABEL,
    CLASS_LABEL,
    DELAY_MAX_LABEL,
    GENERATION_LABEL,
    KIND_LABEL,
    MOVE_LABEL,
    NEVER,
    POWER_LABEL,
    TALKS_TO_LABEL,
)
from collector.config import NodeRule
from collector.snapshot.tables import Generation, TaskKind

_CLASSES = {"1": 1, "2": 2, "3": 3, "4": 4}
_KINDS = {kind.name.lower(): kind for kind in TaskKind}
_GROUP_LABELS = (
    "com.docker.stack.namespace",
    "com.docker.compose.project",
    "io.kubernetes.pod.namespace",
)
"""Labels that name an application where `wattpack.app` does not."""
_DELAY = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>us|ms|s|)")
_UNIT_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_MOST_SERVICES = 100
"""Most services in a label that lists services."""
_GENERATIONS = {generation.name.lower(): generation for generation in Generation}


class TaskTraits(NamedTuple):
    """The traits of a container that its labels set."""

    task_class: int
    kind: TaskKind
    movable: bool


def kind_of(labels: Mapping[str, str]) -> TaskKind:
    """How long a container is expected to run; an invalid value counts as unset."""
    return _KINDS.get(labels.get(KIND_LABEL, ""), TaskKind.SERVICE)


def task_traits(labels: Mapping[str, str], default_class: int) -> TaskTraits:
    """The traits of a container; an invalid value counts as unset."""
    return TaskTraits(
        _CLASSES.get(labels.get(CLASS_LABEL, ""), default_class),
        kind_of(labels),
        labels.get(MOVE_LABEL) != NEVER,
    )


class ApplicationTraits(msgspec.Struct, frozen=True, gc=False):
    """The application of a service, by its labels."""

    name: str = ""
    """Empty without one."""
    delay_max: float = inf
    """Maximum round-trip time between its nodes, in seconds; infinite without a bound."""
    talks_to: tuple[str, ...] = ()
    """Services of the application that this one talks to; empty if no label lists them."""


NO_APPLICATION = ApplicationTraits()


def application_traits(labels: Mapping[str, str], namespace: str = "") -> ApplicationTraits:
    """The application of a service; an invalid value counts as unset.

    `namespace` is that of Kubernetes, which labels of pods do not contain.
    """
    name = labels.get(APP_LABEL) or next(filter(None, map(labels.get, _GROUP_LABELS)), namespace)
    if not name:
        return NO_APPLICATION
    delay_max, talks_to = labels.get(DELAY_MAX_LABEL), labels.get(TALKS_TO_LABEL)
    if delay_max is None and talks_to is None:
        return ApplicationTraits(name)
    listed = (each.strip() for each in (talks_to or "").split(",", _MOST_SERVICES)[:_MOST_SERVICES])
    return ApplicationTraits(
        name,
        inf if delay_max is None else parse_delay(delay_max) or inf,
        tuple(each for each in listed if each),
    )


def parse_delay(text: str) -> float | None:
    """A time such as `85ms`, `0.085s` or `0.085`, in seconds; None if it is invalid, or 0."""
    found = _DELAY.fullmatch(text.strip())
    return None if found is None else float(found["number"]) * _UNIT_SECONDS[found["unit"]] or None


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
