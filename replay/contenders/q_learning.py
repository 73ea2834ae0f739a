"""Q-learning: learns the cost of each action in each state, without a model of the service."""

from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.features.elastic.scaling.interface import (
    USAGE_UNKNOWN,
    ElasticDecision,
    Observation,
    Target,
    changes_size,
    decide_within,
    decode_learned,
    encode_learned,
    may_explore,
)
from collector.features.elastic.scaling.model_based import (
    ACTIONS,
    CHANGES,
    NO_CHANGE,
    Grid,
    State,
    known_cost,
    observed_state,
    performance_cost,
)

_VERSION = "q-learning/1"
_LEARNING_RATE = 0.1
_EXPLORED_RATIO = 0.1
_DISCOUNT = 0.99
_WORD_BYTES = 8


class _Value(msgspec.Struct, frozen=True, array_like=True):
    cost: float
    observed: int


class _Step(msgspec.Struct, frozen=True, array_like=True):
    state: State
    action: Annotated[int, Meta(ge=0, lt=len(ACTIONS))]


class _Experience(msgspec.Struct, frozen=True):
    grid: Grid = Grid()
    values: dict[int, dict[int, _Value]] = {}
    """By state and action: the expected long-term cost; 0 for an action that was not tried."""
    last: _Step | None = None


def decide(target: Target, observed: Observation, learned: bytes) -> ElasticDecision:
    """Decide for a service; an `ElasticPolicy`."""
    experience = decode_learned(learned, _VERSION, _Experience)
    found = observed_state(target, observed)
    if found is None:
        kept = encode_learned(_VERSION, msgspec.structs.replace(experience, last=None))
        return decide_within(target, observed, observed.replicas, None, (USAGE_UNKNOWN,), learned=kept)
    grid, now = found
    if experience.grid != grid:
        experience = _Experience(grid=grid)
    values = _updated(target, observed, experience, now)
    of_state = values.get(grid.number(now), {})
    allowed = grid.allowed(now)
    best = min(allowed, key=lambda action: _cost(of_state, action))
    chance, which = _draw_uniform_pair(observed)
    explores = may_explore(target, observed) and chance < _EXPLORED_RATIO
    action = allowed[int(which * len(allowed))] if explores else best
    replicas, limit = grid.after(now, action)
    reasons = (
        f"{grid.describe(now)}: {ACTIONS[action]}",
        "drawn at random, to learn its cost"
        if explores
        else f"expected long-term cost {_cost(of_state, action):.3f}, the lowest",
    )
    decision = decide_within(
        target,
        observed,
        replicas,
        limit if CHANGES[action][1] else None,
        reasons,
        learned=b"",
        explored=explores,
    )
    carried_out = action if changes_size(decision, observed) else NO_CHANGE
    kept = encode_learned(_VERSION, _Experience(grid, values, _Step(now, carried_out)))
    return msgspec.structs.replace(decision, learned=kept)


def _draw_uniform_pair(observed: Observation) -> tuple[float, float]:
    """Two pseudo-random numbers from 0 to 1 that depend only on the service and the time."""
    digest = sha256(f"{observed.service}\n{observed.at_seconds!r}".encode()).digest()
    one, other = (
        int.from_bytes(digest[place : place + _WORD_BYTES], "big") / 2 ** (8 * _WORD_BYTES)
        for place in (0, _WORD_BYTES)
    )
    return one, other


def _updated(
    target: Target, observed: Observation, experience: _Experience, now: State
) -> dict[int, dict[int, _Value]]:
    """The values, corrected by the cost of the last action."""
    values, last, grid = experience.values, experience.last, experience.grid
    performance = performance_cost(target, observed)
    if last is None or performance is None or not _led_to(last, now):
        return values
    cost = known_cost(target, grid, last.state, last.action) + target.weights.performance * performance
    following = values.get(grid.number(now), {})
    least = min(_cost(following, action) for action in grid.allowed(now))
    number = grid.number(last.state)
    before = values.get(number, {}).get(last.action, _Value(0.0, 0))
    estimate = (1 - _LEARNING_RATE) * before.cost + _LEARNING_RATE * (cost + _DISCOUNT * least)
    of_last = {**values.get(number, {}), last.action: _Value(estimate, before.observed + 1)}
    return {**values, number: of_last}


def _led_to(step: _Step, state: State) -> bool:
    """Whether the action leads to this state: if so, it was carried out."""
    more, up = CHANGES[step.action]
    return (step.state.replicas + more, step.state.level + up) == (state.replicas, state.level)


def _cost(of_state: dict[int, _Value], action: int) -> float:
    return of_state[action].cost if action in of_state else 0.0
