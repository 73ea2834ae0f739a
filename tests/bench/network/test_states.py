import numpy as np
import pytest

from bench.network.states import State, brute_force, has_room, is_within_bound, random_state
from collector.decide.policies.interface import STALE_SECONDS
from collector.decide.policies.resolve import resolve
from collector.features.network.applications.in_turn import place_application
from collector.features.network.applications.problem import build
from tests.collector.features.network.applications.states import brute_force as try_all


def small(seed: int) -> State:
    return random_state(seed, nodes=4, pods=3)


def test_brute_force_equals_a_plain_search_of_all_placements() -> None:
    for seed in range(30):
        state = small(seed)
        built = build(state.snapshot, state.requests, stale_seconds=STALE_SECONDS)
        one, other = brute_force(built, 10**6), try_all(built)
        assert one is not None
        assert one == pytest.approx(other)
        assert brute_force(built, 0) is None or np.isinf(one)


def test_a_placement_without_room_or_beyond_the_bound_is_found() -> None:
    placed = [
        (state, answer.nodes)
        for seed in range(20)
        if (state := random_state(seed)).requests
        and (answer := place_application(state.snapshot, state.requests, resolve("net-aware", {}))).nodes
    ]
    assert placed
    assert all(has_room(state, nodes) and is_within_bound(state, nodes) for state, nodes in placed)
    state, nodes = next(each for each in placed if len(each[1]) > 1)
    near_and_far = ("node-0000", "node-0002", *nodes[2:])
    assert not is_within_bound(state, near_and_far)
    crowded = random_state(0, pods=60)
    assert not has_room(crowded, ("node-0000",) * 60)
