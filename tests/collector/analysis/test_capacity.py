from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.analysis import Analysis, analyse
from collector.analysis.capacity import UNKNOWN_CAPACITY, ClusterCapacity, DiskTime, cluster_capacity
from collector.analysis.services import ServiceProfile
from collector.analysis.usage import NOT_MEASURED
from collector.config import AnalysisConfig
from tests.collector.snapshot.builders import NodeFacts, assemble
from wire.resources import Quantities, Resource

SETTINGS = AnalysisConfig()
PASS = SETTINGS.interval_seconds
ENOUGH = 600.0
DECLARED = (False, False, False, False)
VIRTUAL = (False, False, True, True)
"""A virtual machine: neither its disk nor its link states a throughput."""


def node(number: int, highest: float, disk: float = 0.0, busy: float = nan) -> NodeFacts:
    """A virtual machine whose highest throughput, of disk and network, was this."""
    return NodeFacts(
        name=f"node-{number}",
        capacity=Quantities(4.0, 8 << 30, highest, highest),
        learned=VIRTUAL,
        used=Quantities(1.0, 1 << 30, disk, 1e6),
        busy=(nan, nan, busy, nan),
    )


def shop(cpu: float, disk: float, network: float) -> dict[str, ServiceProfile]:
    statistics = NOT_MEASURED.copy()
    statistics[:] = np.array([[cpu], [1e6], [disk], [network]])
    return {
        "shop": ServiceProfile(
            name="shop", image="", containers=1, nodes=1, observed_seconds=3600.0, statistics=statistics
        )
    }


def after(passes: int, nodes: list[NodeFacts], running: dict[str, ServiceProfile]) -> Analysis:
    latest = Analysis()
    for number in range(passes):
        latest = analyse(assemble(nodes, at=1e9 + PASS * number), running, latest, SETTINGS)
    return latest


def dominant(latest: Analysis) -> Resource | None:
    found = latest.services["shop"].dominant
    return None if found is None else found.resource


@pytest.mark.parametrize(("highest", "expected"), [(125e6, None), (500e6, Resource.CPU)])
def test_the_highest_traffic_seen_only_shows_that_the_network_is_not_dominant(
    highest: float, expected: Resource | None
) -> None:
    """A tenth of the CPUs; of the network, at most 27 % or 7 %, which depends on what happened to run."""
    nodes = [node(number, highest) for number in range(3)]
    assert dominant(after(3, nodes, shop(cpu=1.2, disk=0.0, network=100e6))) is expected


def test_a_disk_is_dominant_by_the_time_that_it_takes_once_disks_were_in_use_for_long_enough() -> None:
    """20 MB/s keep the disk busy for half of the time; by the highest throughput, that is a fifth of it."""
    nodes = [node(1, 100e6, disk=20e6, busy=0.5)]
    seeks = shop(cpu=1.2, disk=20e6, network=0.0)
    # 0.5 of the disk is more than 0.3 of the CPUs.
    found = after(30, nodes, seeks)
    assert dominant(found) is Resource.DISK
    assert found.capacity.amounts[2] == pytest.approx(40e6)
    streams = shop(cpu=0.2, disk=20e6, network=0.0)
    assert dominant(after(5, nodes, streams)) is None
    assert dominant(after(30, nodes, streams)) is Resource.DISK


def test_small_changes_of_what_disks_do_do_not_change_their_capacity() -> None:
    learned, capacity = np.array([VIRTUAL]), np.array([[4.0, 8e9, 100e6, 125e6]])
    one = cluster_capacity(capacity, learned, DiskTime(40e9, 1000.0, 2000.0), ENOUGH, UNKNOWN_CAPACITY)
    assert one.amounts[2] == pytest.approx(40e6)
    almost = cluster_capacity(capacity, learned, DiskTime(41e9, 1000.0, 2000.0), ENOUGH, one)
    assert almost.equals(one)
    faster = cluster_capacity(capacity, learned, DiskTime(60e9, 1000.0, 2000.0), ENOUGH, one)
    assert faster.amounts[2] == pytest.approx(60e6)


def test_nodes_that_do_not_declare_a_capacity_are_like_most_that_do() -> None:
    def network(*claims: tuple[float, bool]) -> tuple[float, bool]:
        capacity = np.array([[4.0, 8e9, 1e9, amount] for amount, _ in claims])
        learned = np.array([(False, False, False, is_learned) for _, is_learned in claims])
        found = cluster_capacity(capacity, learned, DiskTime(), ENOUGH, UNKNOWN_CAPACITY)
        return found.amounts[3], found.known[3]

    assert network((1e9, False), (1e9, False), (125e6, True)) == (3e9, True)
    assert network((1e9, False), (125e6, True)) == (1.125e9, False)
    nothing, known = network((nan, False))
    assert isnan(nothing)
    assert not known


def test_a_dead_node_and_an_idle_disk_show_nothing_about_disks() -> None:
    idle = assemble([node(1, 100e6), node(2, 100e6, disk=1e6), node(3, 100e6, disk=0.0, busy=0.3)])
    assert DiskTime().add(idle.nodes, PASS) == DiskTime()


def _amounts(capacity: list[list[float]]) -> ClusterCapacity:
    rows = np.array(capacity)
    declared = np.zeros(rows.shape, dtype=np.bool_)
    return cluster_capacity(rows, declared, DiskTime(), ENOUGH, UNKNOWN_CAPACITY)


def test_one_node_at_most_doubles_the_capacity_of_the_cluster() -> None:
    honest = [[16.0, 64e9, 5e8, 1e9]] * 10
    whole = np.array(_amounts(honest).amounts)
    assert whole.tolist() == (10 * np.array(honest[0])).tolist()
    for claim in ([1e6, 1.0, 0.0, nan], [0.0, 2.0**63, 1e15, 1e15]):
        found = np.array(_amounts([*honest, claim]).amounts)
        assert (found >= whole).all()
        assert (found <= 2 * whole).all()


@given(st.floats(0, 1e15), st.floats(0, 1))
def test_one_node_at_most_doubles_what_disks_do_or_the_time_that_they_take(used: float, busy: float) -> None:
    honest = [node(number, 100e6, disk=20e6, busy=0.5) for number in range(9)]
    found = DiskTime().add(assemble([*honest, node(9, 100e6, disk=used, busy=busy)]).nodes, 1.0)
    assert 20e6 <= found.used_bytes / found.busy_seconds <= 80e6
