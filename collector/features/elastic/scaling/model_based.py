"""Model-based reinforcement learning, as in ge-kube: a model of the service from experience, solved in full.

The model is that of the authors (Rossi et al., IEEE CLOUD 2019): transitions of utilization from one decision
to the next, counted over all actions; and per state the probability that the target is broken, which cannot
fall with utilization nor rise with resources. The policy takes the action with the lowest expected long-term
cost, never one at random. All costs are 0 at first, so that it tries unknown actions.

Its discrete states, their actions and costs are those of all learning policies of ge-kube.
"""

import msgspec
import numpy as np

from collector.common.arrays import Floats
from collector.features.elastic.scaling.interface import (
    USAGE_UNKNOWN,
    ElasticDecision,
    Observation,
    Target,
    bounded,
    cpu_levels,
    decide_within,
    decode_learned,
    encode_learned,
    may_explore,
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


_VERSION = "model-based/2"
_DISCOUNT = 0.99
_LEARNING_RATE = 0.1
"""Weight of an observation in the probability that the target is broken; the first one counts in full."""
_PRECISION = 1e-4
_MOST_SWEEPS = 3000


class _StateEstimate(msgspec.Struct, frozen=True, array_like=True):
    state: State
    broken: float
    """Probability that the target is broken."""
    observed: int
    """Number of observations."""


class _Model(msgspec.Struct, frozen=True):
    grid: Grid = Grid()
    transitions: tuple[tuple[int, ...], ...] = ((0,) * UTILIZATIONS,) * UTILIZATIONS
    """Number of transitions from each utilization to each."""
    states: tuple[_StateEstimate, ...] = ()
    """The states in which the service was observed."""
    last: int | None = None
    """The utilization at the last decision."""


def decide(target: Target, observed: Observation, learned: bytes) -> ElasticDecision:
    """Decide for a service; an `ElasticPolicy`."""
    model = decode_learned(learned, _VERSION, _Model)
    found = observed_state(target, observed)
    if found is None:
        kept = encode_learned(_VERSION, msgspec.structs.replace(model, last=None))
        return decide_within(target, observed, observed.replicas, None, (USAGE_UNKNOWN,), learned=kept)
    grid, now = found
    if model.grid != grid:
        model = _Model(grid=grid)
    model = _learn(target, observed, model, now)
    costs = _solve(target, model)[now.replicas, now.level, now.utilization]
    tried = {(each.state.replicas, each.state.level) for each in model.states}
    allowed = [
        each
        for each in grid.allowed(now)
        if may_explore(target, observed) or not _is_unknown(now, each, tried)
    ]
    action = min(allowed, key=lambda each: (costs[each], each))
    replicas, limit = grid.after(now, action)
    reasons = (
        f"{grid.describe(now)}: {ACTIONS[action]}",
        f"expected long-term cost {costs[action]:.3f}, the lowest",
    )
    learned = encode_learned(_VERSION, model)
    return decide_within(
        target, observed, replicas, limit if CHANGES[action][1] else None, reasons, learned=learned
    )


def _is_unknown(state: State, action: int, tried: set[tuple[int, int]]) -> bool:
    """Whether an action takes resources away, and leads to a size that was not observed."""
    more, up = CHANGES[action]
    return more + up < 0 and (state.replicas + more, state.level + up) not in tried


def _learn(target: Target, observed: Observation, model: _Model, now: State) -> _Model:
    """Count the transition, and correct the probability of the current state."""
    transitions = model.transitions
    if model.last is not None:
        rows = [list(row) for row in transitions]
        rows[model.last][now.utilization] += 1
        transitions = tuple(tuple(row) for row in rows)
    broken = performance_cost(target, observed)
    states = {each.state: each for each in model.states}
    if broken is not None:
        before = states.get(now)
        estimate = broken if before is None else before.broken + _LEARNING_RATE * (broken - before.broken)
        states[now] = _StateEstimate(now, estimate, 1 if before is None else before.observed + 1)
    return msgspec.structs.replace(
        model, transitions=transitions, states=tuple(states.values()), last=now.utilization
    )


def _broken(model: _Model) -> Floats:
    """The probability that the target is broken, for all states: as observed, or inferred from other states.

    A state with fewer resources or more utilization is no better than an observed one; the contrary is no
    worse. Where inferences disagree, the most frequently observed state counts.
    """
    found = np.zeros(model.grid.shape)
    replicas, levels, tenths = np.indices(model.grid.shape)
    for each in sorted(model.states, key=lambda each: each.observed):
        state = each.state
        worse = (replicas <= state.replicas) & (levels <= state.level) & (tenths >= state.utilization)
        better = (replicas >= state.replicas) & (levels >= state.level) & (tenths <= state.utilization)
        found[worse] = np.maximum(found[worse], each.broken)
        found[better] = np.minimum(found[better], each.broken)
    for each in model.states:
        found[each.state.replicas, each.state.level, each.state.utilization] = each.broken
    return found


def _solve(target: Target, model: _Model) -> Floats:
    """The expected long-term cost of every action in every state; infinite if it is not allowed."""
    grid = model.grid
    replicas, levels, _ = grid.shape
    counts = np.array(model.transitions, dtype=np.float64)
    unobserved = counts.sum(axis=1) == 0
    counts[unobserved] = np.eye(UTILIZATIONS)[unobserved]
    probable = (counts / counts.sum(axis=1, keepdims=True)).T
    known = np.full((*grid.shape, len(ACTIONS)), np.inf)
    for replica, level in np.ndindex(replicas, levels):
        state = State(replica, level, 0)
        for action in grid.allowed(state):
            known[replica, level, :, action] = known_cost(target, grid, state, action)
    penalty = target.weights.performance * _broken(model)
    values = np.zeros(grid.shape)
    costs = known
    for _ in range(_MOST_SWEEPS):
        ahead = (penalty + _DISCOUNT * values) @ probable
        costs = known.copy()
        for action, (more, up) in enumerate(CHANGES):
            before = _indices(more, replicas), _indices(up, levels)
            after = _indices(-more, replicas), _indices(-up, levels)
            costs[(*before, slice(None), action)] += ahead[after]
        best = costs.min(axis=-1)
        steps = best - values
        if steps.max() - steps.min() < _PRECISION:
            # All values still grow at the same rate, which is added here: the bounds of MacQueen.
            costs += _DISCOUNT / (1 - _DISCOUNT) * steps.mean()
            break
        values = best
    return costs


def _indices(change: int, size: int) -> slice:
    """The indices from which a change stays within the bounds."""
    return slice(max(0, -change), size - max(0, change))
