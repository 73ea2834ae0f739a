"""The discrete states of the learning policies, their actions, and the costs of both, as in ge-kube."""

import msgspec

from collector.features.elastic.scaling.interface import (
    Observation,
    Target,
    bounded,
    cpu_levels,
    nearest_level,
    utilization,
    valid_metric,
)

ACTIONS = ("-CPU limit", "-1 replica", "no change", "+1 replica", "+CPU limit")
"""In the order of ge-kube. Of actions with equal costs, the first is taken."""
CHANGES = ((0, -1), (-1, 0), (0, 0), (1, 0), (0, 1))
"""Per action: how many replicas and how many steps of the CPU limit it adds."""
NO_CHANGE = CHANGES.index((0, 0))
UTILIZATIONS = 11
"""From 0 to 1 in tenths."""


def resource_cost(target: Target, replicas: int, limit_cores: float, highest_cores: float) -> float:
    """Resources of this size, relative to those of the largest allowed size."""
    return replicas * limit_cores / (target.replicas_max * highest_cores)


def adaptation_cost(before: int, after: int, *, vertical: bool) -> float:
    """1 for a change of the limit, which replaces every replica; the share of new replicas for one more."""
    if vertical:
        return 1.0
    return 1.0 / max(1, before) if after > before else 0.0


class State(msgspec.Struct, frozen=True, array_like=True):
    """A discrete state of a service; each number is an index from 0."""

    replicas: int
    level: int
    utilization: int


class Grid(msgspec.Struct, frozen=True, array_like=True):
    """The bounds of the states. A policy starts again when they change."""

    fewest: int = 0
    most: int = 0
    levels: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of different replicas, limits and utilizations."""
        return self.most - self.fewest + 1, len(self.levels), UTILIZATIONS

    def number(self, state: State) -> int:
        """The index of a state among all states."""
        _, levels, utilizations = self.shape
        return (state.replicas * levels + state.level) * utilizations + state.utilization

    def allowed(self, state: State) -> tuple[int, ...]:
        """The actions that keep the bounds."""
        replicas, levels, _ = self.shape
        return tuple(
            action
            for action, (more, up) in enumerate(CHANGES)
            if 0 <= state.replicas + more < replicas and 0 <= state.level + up < levels
        )

    def after(self, state: State, action: int) -> tuple[int, float]:
        """The replicas and the CPU limit that an action leads to."""
        more, up = CHANGES[action]
        return self.fewest + state.replicas + more, self.levels[state.level + up]

    def describe(self, state: State) -> str:
        """Describe a state for people."""
        count = self.fewest + state.replicas
        return (
            f"{count} {'replica' if count == 1 else 'replicas'} of {self.levels[state.level]:g} cores, "
            f"{state.utilization / (UTILIZATIONS - 1):.0%} used"
        )


def observed_state(target: Target, observed: Observation) -> tuple[Grid, State] | None:
    """The state of a service and its grid; None if its utilization is unknown."""
    levels = cpu_levels(target, observed.cpu_limit_cores)
    level = nearest_level(levels, observed.cpu_limit_cores)
    used = utilization(
        observed, levels[level] if observed.cpu_limit_cores is None else observed.cpu_limit_cores
    )
    if used is None:
        return None
    grid = Grid(target.replicas_min, target.replicas_max, levels)
    tenths = min(UTILIZATIONS - 1, int(used * (UTILIZATIONS - 1) + 0.5))
    return grid, State(bounded(target, observed.replicas) - target.replicas_min, level, tenths)


def known_cost(target: Target, grid: Grid, state: State, action: int) -> float:
    """The part of the cost of an action that needs no experience: resources and the change itself."""
    before, (after, limit) = grid.fewest + state.replicas, grid.after(state, action)
    changed = adaptation_cost(before, after, vertical=CHANGES[action][1] != 0)
    resources = resource_cost(target, after, limit, grid.levels[-1])
    return target.weights.resources * resources + target.weights.adaptation * changed


def performance_cost(target: Target, observed: Observation) -> float | None:
    """1 if the target is broken, 0 if it is met; None if the metric is unknown."""
    metric = valid_metric(observed)
    return None if metric is None else float(metric > target.metric_max)
