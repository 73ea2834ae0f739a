"""Q-learning: values of actions learned one by one from their costs, without a model of the service."""

import msgspec

from collector.elastic.bounds import decide_within, draws, may_explore
from collector.elastic.costs import ACTIONS, CHANGES, NOTHING
from collector.elastic.interface import ElasticDecision, ElasticPolicy, LearnedRow, Observation, Target
from collector.elastic.learned import decode_learned, encode_learned
from collector.elastic.states import (
    Grid,
    GridState,
    GridStep,
    State,
    grid_state,
    known_cost,
    performance_cost,
)

_VERSION = "q-learning/1"
_LEARNING_RATE = 0.1
_EXPLORED_RATIO = 0.1
_DISCOUNT = 0.99


class _Value(msgspec.Struct, frozen=True, array_like=True):
    cost: float
    observed: int


class _Experience(msgspec.Struct, frozen=True):
    grid: Grid = Grid()
    values: dict[int, dict[int, _Value]] = {}
    """Per number of a state and action: the expected long-term cost; 0 for an action that was not tried."""
    last: GridStep | None = None


def _decide(target: Target, seen: Observation, learned: bytes) -> ElasticDecision:
    experience = decode_learned(learned, _VERSION, _Experience)
    now = grid_state(target, seen)
    if now is None:
        reason = "CPU usage of the service is unknown"
        kept = encode_learned(_VERSION, msgspec.structs.replace(experience, last=None))
        return decide_within(target, seen, seen.replicas, None, (reason,), learned=kept)
    if experience.grid != now.grid:
        experience = _Experience(grid=now.grid)
    values = _updated(target, seen, experience, now)
    of_state = values.get(now.grid.number(now.state), {})
    allowed = now.grid.allowed(now.state)
    best = min(allowed, key=lambda action: _cost(of_state, action))
    chance, which = draws(target, seen)
    explores = may_explore(target, seen) and chance < _EXPLORED_RATIO
    action = allowed[int(which * len(allowed))] if explores else best
    replicas, limit = now.after(action)
    reasons = (
        f"{now.grid.describe(now.state)}: {ACTIONS[action]}",
        "drawn at random, to learn its cost"
        if explores
        else f"expected long-term cost {_cost(of_state, action):.3f}, the lowest",
    )
    decision = decide_within(
        target, seen, replicas, limit if CHANGES[action][1] else None, reasons, learned=b"", explored=explores
    )
    carried_out = (
        action
        if (decision.replicas, decision.cpu_limit_cores) != (seen.replicas, seen.cpu_limit_cores)
        else NOTHING
    )
    kept = encode_learned(_VERSION, _Experience(now.grid, values, GridStep(now.state, carried_out)))
    return msgspec.structs.replace(decision, learned=kept)


def _updated(
    target: Target, seen: Observation, experience: _Experience, now: GridState
) -> dict[int, dict[int, _Value]]:
    """The values after the cost of the last action is known."""
    values, last = experience.values, experience.last
    performance = performance_cost(target, seen)
    if last is None or performance is None or not now.grid.contains(last.state) or not last.led_to(now.state):
        return values
    cost = known_cost(target, now.grid, last) + target.weights.performance * performance
    following = values.get(now.grid.number(now.state), {})
    least = min(_cost(following, action) for action in now.grid.allowed(now.state))
    number = now.grid.number(last.state)
    before = values.get(number, {}).get(last.action, _Value(0.0, 0))
    estimate = (1 - _LEARNING_RATE) * before.cost + _LEARNING_RATE * (cost + _DISCOUNT * least)
    of_last = {**values.get(number, {}), last.action: _Value(estimate, before.observed + 1)}
    return {**values, number: of_last}


def _cost(of_state: dict[int, _Value], action: int) -> float:
    return of_state[action].cost if action in of_state else 0.0


def _explain(target: Target, learned: bytes) -> tuple[LearnedRow, ...]:  # noqa: ARG001 - the grid is in `learned`
    experience = decode_learned(learned, _VERSION, _Experience)
    grid = experience.grid
    _, levels, utilizations = grid.shape
    rows = []
    for number in sorted(experience.values):
        place, tenths = divmod(number, utilizations)
        state = State(*divmod(place, max(1, levels)), tenths)
        if grid.contains(state):
            rows += [
                LearnedRow(
                    state=grid.describe(state),
                    action=ACTIONS[action],
                    cost=value.cost,
                    observed=value.observed,
                )
                for action, value in sorted(experience.values[number].items())
                if 0 <= action < len(ACTIONS)
            ]
    return tuple(rows)


Q_LEARNING = ElasticPolicy(
    name="q-learning",
    summary="model-free reinforcement learning, the baseline of ge-kube",
    decide=_decide,
    explain=_explain,
)
