"""The mesh of a cluster too large to measure all pairs, and of one that changes."""

import numpy as np
import pytest

from collector.common.arrays import Floats
from collector.config import CollectorConfig
from collector.features.network.mesh.mesh import Mesh
from collector.features.network.mesh.planning import MAX_PEERS
from collector.features.network.settings import MeshConfig
from tests.collector.features.network.mesh.test_coordinates import flat
from wire.mesh import MAX_RESULTS, MeshAssignment, MeshMember, PeerResult

HOUR = 3600.0


class Monotonic:
    """A clock that passes a minute with each reading, so that no update is postponed."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 60.0
        return self._now


@pytest.fixture
def mesh() -> Mesh:
    return Mesh(CollectorConfig().with_section(MeshConfig(enabled=True)), monotonic=Monotonic())


def member(node: str, session: int = 1) -> MeshMember:
    return MeshMember(node, session, 9641, "10.0.0.1")


def report(mesh: Mesh, names: list[str], table: Floats, now: float) -> None:
    """Let each node send what it measured to its peers."""
    row = {name: place for place, name in enumerate(names)}
    for node in names:
        results = [
            PeerResult(peer, float(table[row[node], row[peer]]), None, 3, 0) for peer in mesh.peers_of(node)
        ]
        assert mesh.put(member(node), results, now)


@pytest.mark.slow
async def test_a_large_cluster_measures_some_pairs_and_estimates_the_others(mesh: Mesh) -> None:
    names = [f"node{number:03}" for number in range(150)]
    table = flat(len(names), np.random.default_rng(0))
    for now in (0.0, 60.0, 120.0, 180.0):
        report(mesh, names, table, now)
        await mesh.update(now)
    delays = mesh.delays(names)
    assert delays is not None
    kinds = np.array([delays.kinds_from(row) for row in range(len(names))])
    measured = (kinds == "measured").sum(axis=1) - 1
    # Results to peers that were replaced by near ones are valid for some minutes.
    assert measured.min() >= MAX_PEERS // 2
    assert max(len(mesh.peers_of(node)) for node in names) <= MAX_PEERS
    assert (kinds != "unknown").all()
    estimated = kinds == "estimated"
    found = delays.among(np.arange(len(names)))
    errors = np.abs(found - table)[estimated] / table[estimated]
    assert np.quantile(errors, 0.9) <= 0.15
    near = np.mean(
        [
            np.mean([table[names.index(node), names.index(peer)] for peer in mesh.peers_of(node)])
            for node in names
        ]
    )
    assert near < 0.8 * table.mean()
    # A node that joins keeps the coordinates of the others, and is unknown to most until it has measured.
    assert mesh.put(member("another"), [], 181.0)
    await mesh.update(181.0)
    assert len(mesh.peers_of("another")) > MAX_PEERS // 2


def keys(assignment: MeshAssignment) -> dict[str, bytes]:
    return {peer.node: peer.key for peer in assignment.peers or ()}


async def test_keys_change_with_the_epoch_and_with_a_restart(mesh: Mesh) -> None:
    for node in ("alpha", "beta", "gamma"):
        mesh.put(member(node), [], 0.0)
    await mesh.update(0.0)
    first = mesh.assignment("alpha")
    await mesh.update(60.0)
    assert mesh.assignment("alpha") == first
    mesh.put(member("beta", session=2), [], 60.0)
    await mesh.update(60.0)
    second = mesh.assignment("alpha")
    assert second.version != first.version
    assert keys(second)["beta"] != keys(first)["beta"]
    assert keys(second)["gamma"] == keys(first)["gamma"]
    for node, session in (("alpha", 1), ("beta", 2), ("gamma", 1)):
        mesh.put(member(node, session), [], HOUR)
    await mesh.update(HOUR)
    third = keys(mesh.assignment("alpha"))
    assert not set(third.values()) & set(keys(second).values())
    assert third.keys() == {"beta", "gamma"}


async def test_a_request_of_an_earlier_run_does_not_bring_its_session_back(mesh: Mesh) -> None:
    mesh.put(member("alpha"), [], 0.0)
    mesh.put(member("beta"), [], 0.0)
    mesh.put(member("beta", session=2), [], 1.0)
    mesh.keep(member("beta"), 45.0)
    await mesh.update(45.0)
    assert [peer.session for peer in mesh.assignment("alpha").peers or ()] == [2]


async def test_nodes_that_left_are_no_peers_any_more(mesh: Mesh) -> None:
    for node in ("alpha", "beta"):
        mesh.put(member(node), [], 0.0)
    await mesh.update(0.0)
    assert mesh.peers_of("alpha") == {"beta"}
    mesh.put(member("alpha"), [], 200.0)
    await mesh.update(200.0)
    assert mesh.peers_of("alpha") == frozenset()
    assert mesh.assignment("beta").peers == ()


def test_a_node_that_changes_too_often_is_refused_until_later(mesh: Mesh) -> None:
    accepted = [mesh.put(member("alpha", session), [], 0.0) for session in range(1, 9)]
    assert accepted == [True] * 5 + [False] * 3
    assert not mesh.put(member("alpha", 9), [], 59.0)
    assert mesh.put(member("alpha", 9), [], 61.0)
    assert mesh.put(member("alpha", 9), [], 62.0)


async def test_results_of_a_node_are_bounded_and_expire(mesh: Mesh) -> None:
    for first in range(0, 3 * MAX_RESULTS, MAX_RESULTS):
        results = [PeerResult(f"node{first + number:04}", 0.01, None, 3, 0) for number in range(MAX_RESULTS)]
        mesh.put(member("alpha"), results, 0.0)
    await mesh.update(0.0)
    assert [peer for _, peer in mesh.plan.medians] == [
        f"node{2 * MAX_RESULTS + n:04}" for n in range(MAX_RESULTS)
    ]
    mesh.put(member("beta"), [PeerResult("alpha", 0.01, None, 3, 0)], 500.0)
    await mesh.update(601.0)
    assert list(mesh.plan.medians) == [("alpha", "beta")]


async def test_of_both_directions_the_larger_one_counts(mesh: Mesh) -> None:
    mesh.put(
        member("alpha"), [PeerResult("beta", 0.01, None, 3, 0), PeerResult("gamma", 0.003, None, 3, 0)], 0.0
    )
    mesh.put(member("beta"), [PeerResult("alpha", 0.03, None, 3, 0)], 0.0)
    mesh.put(member("gamma"), [PeerResult("alpha", None, None, 0, 4)], 0.0)
    await mesh.update(0.0)
    assert mesh.plan.medians == {("alpha", "beta"): 0.03, ("alpha", "gamma"): 0.003}


def test_without_a_mesh_there_are_no_delays() -> None:
    assert Mesh(CollectorConfig()).delays(("alpha", "beta")) is None
