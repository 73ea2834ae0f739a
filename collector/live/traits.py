"""What labels and settings say of nodes and containers.

A label that cannot be read says nothing: the default holds, and it is the careful one.

| label of a container | values | default |
|---|---|---|
| `wattpack.class` | 1 (nothing is taken from it) to 4 (overbooked up to 200 %) | `placement.default_class` |
| `wattpack.kind` | `service`, `job`, `daemon` (one on every node) | `service` |
| `wattpack.move` | `allowed`, `never` | `allowed` |

| label of a node | values | default |
|---|---|---|
| `wattpack.generation` | `any`, `nursery`, `young`, `old` | `any` |
| `wattpack.accept` | `allowed`, `never` | `allowed` |
| `wattpack.power` | `allowed`, `never` (is not switched off) | `allowed`, `never` for managers |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from collector.config import NodeRule
from collector.snapshot.tables import Generation, TaskKind

_CLASS, _KIND, _MOVE = "wattpack.class", "wattpack.kind", "wattpack.move"
_GENERATION, _ACCEPT = "wattpack.generation", "wattpack.accept"
_NEVER = "never"
_CLASSES = {"1": 1, "2": 2, "3": 3, "4": 4}
_KINDS = {kind.name.lower(): kind for kind in TaskKind}
_GENERATIONS = {generation.name.lower(): generation for generation in Generation}


class TaskTraits(NamedTuple):
    """What may be done with a container."""

    task_class: int
    kind: TaskKind
    movable: bool


def task_traits(labels: Mapping[str, str], default_class: int) -> TaskTraits:
    """What a container's labels say."""
    return TaskTraits(
        _CLASSES.get(labels.get(_CLASS, ""), default_class),
        _KINDS.get(labels.get(_KIND, ""), TaskKind.SERVICE),
        labels.get(_MOVE) != _NEVER,
    )


@dataclass(frozen=True, slots=True)
class NodeTraits:
    """What a node is kept for."""

    labels: Mapping[str, str]
    generation: Generation
    accepts: bool


def node_traits(name: str, rules: Mapping[str, NodeRule], told: Mapping[str, str]) -> NodeTraits:
    """What the rules whose pattern fits a node say, the last one that says something; then its own labels."""
    fitting = [rule for pattern, rule in rules.items() if fnmatchcase(name, pattern)]
    labels = dict(told)
    for rule in fitting:
        labels |= rule.labels
    generation = _GENERATIONS.get(labels.get(_GENERATION, ""), Generation.ANY)
    accepts = labels.get(_ACCEPT) != _NEVER
    for rule in fitting:
        generation = generation if rule.generation is None else _GENERATIONS[rule.generation]
        accepts = accepts if rule.accepts is None else rule.accepts
    return NodeTraits(labels, generation, accepts)
