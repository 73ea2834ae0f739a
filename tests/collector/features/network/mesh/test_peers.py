import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.common.arrays import Floats
from collector.features.network.mesh.planning import (
    MAX_FULL_MESH,
    MAX_PEERS,
    choose_near,
    choose_pairs,
    pair_key,
    probe_interval_seconds,
)
from wire.mesh import MeshMember

KEY = b"s" * 32


def peers_of(count: int, pairs: set[tuple[int, int]]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(count)]
    for one, other in pairs:
        assert one < other
        found[one].add(other)
        found[other].add(one)
    return found


def names(count: int) -> list[str]:
    return [f"node{number:04}" for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, MAX_FULL_MESH])
def test_a_small_cluster_measures_all_pairs(count: int) -> None:
    assert len(choose_pairs(names(count))) == count * (count - 1) // 2


@settings(max_examples=20)
@given(st.integers(MAX_FULL_MESH + 1, 400))
def test_a_node_of_a_large_cluster_has_few_peers_that_connect_it_to_all(count: int) -> None:
    near = [(row, row + 1) for row in range(count - 1)]
    peers = peers_of(count, choose_pairs(names(count), near))
    assert max(map(len, peers)) <= MAX_PEERS
    assert min(map(len, peers)) >= MAX_PEERS // 2
    reached, waiting = {0}, [0]
    while waiting:
        new = peers[waiting.pop()] - reached
        reached |= new
        waiting += new
    assert len(reached) == count


def test_few_peers_change_when_a_node_comes() -> None:
    before = names(300)
    pairs = {(before[one], before[other]) for one, other in choose_pairs(before)}
    after = sorted([*before, "another"])
    changed = pairs ^ {(after[one], after[other]) for one, other in choose_pairs(after)}
    assert len(changed) <= 8 * MAX_PEERS


def test_near_peers_are_the_nearest() -> None:
    place = np.arange(200.0)

    def times_from(row: int) -> Floats:
        return np.asarray(np.abs(place - place[row]))

    near = choose_near(200, times_from)
    assert max(other - one for one, other in near) <= 15
    peers = peers_of(200, set(near))
    assert max(map(len, peers)) <= MAX_PEERS // 2
    # In the middle of the line, the five nearest on each side.
    assert peers[100] == {95, 96, 97, 98, 99, 101, 102, 103, 104, 105}


member = st.builds(MeshMember, st.text(min_size=1, max_size=5), st.integers(1, 2**63 - 1), st.just(9641))


@given(member, member, member)
def test_only_the_two_nodes_of_a_pair_have_its_key(
    one: MeshMember, other: MeshMember, third: MeshMember
) -> None:
    key = pair_key(KEY, one, other)
    assert key == pair_key(KEY, other, one)
    if len({one, other, third}) == 3:
        assert key != pair_key(KEY, one, third)
    restarted = msgspec.structs.replace(one, session=one.session ^ (1 << 62))
    assert key != pair_key(KEY, restarted, other)
    assert key != pair_key(b"t" * 32, one, other)


def test_names_do_not_run_into_each_other() -> None:
    first = [MeshMember("a", 1, 1), MeshMember("bc", 2, 1)]
    second = [MeshMember("ab", 1, 1), MeshMember("c", 2, 1)]
    assert pair_key(KEY, *first) != pair_key(KEY, *second)


@given(st.integers(1, 63))
def test_probes_stay_within_the_traffic_of_a_node(peers: int) -> None:
    interval = probe_interval_seconds(peers)
    assert interval >= 5
    # A question and an answer, both ways, of 40 bytes with 28 bytes of headers each.
    assert peers * 4 * 68 / interval <= 200
