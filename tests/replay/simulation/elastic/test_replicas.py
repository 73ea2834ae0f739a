"""Requests at replicas: queueing theory gives what must come out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.simulation.elastic.run import Replica, serve


def _arrivals(rate: float, seconds: float, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.sort(random.uniform(0, seconds, random.poisson(rate * seconds)))


@pytest.mark.parametrize(
    ("replicas", "limit", "rate"), [(1, 1.0, 50.0), (4, 1.0, 280.0), (2, 0.5, 60.0), (3, 2.0, 400.0)]
)
def test_the_mean_response_time_is_that_of_processor_sharing(
    replicas: int, limit: float, rate: float
) -> None:
    """Each replica gets an equal part: 10 ms of CPU at this speed, over the share that is free."""
    servers = [Replica(limit, 0.0, 0.0) for _ in range(replicas)]
    at = _arrivals(rate, 4000.0)
    response, work = serve(servers, at, np.random.default_rng(2), 0.01, patience=60.0)
    load = rate * 0.01 / (replicas * limit)
    assert response.mean() == pytest.approx(0.01 / limit / (1 - load), rel=0.05)
    assert sum(work) == pytest.approx(rate * 0.01 * 4000, rel=0.02)


def test_requests_that_are_not_served_are_carried_over() -> None:
    server = Replica(1.0, 0.0, 0.0)
    serve([server], _arrivals(300.0, 10.0), np.random.default_rng(2), 0.01, patience=1e9)
    assert server.pending_seconds(10.0) == pytest.approx(20.0, rel=0.1)
    later, _ = serve([server], np.array([10.0]), np.random.default_rng(3), 0.01, patience=1e9)
    assert later[0] > 15.0


def test_clients_give_up() -> None:
    server = Replica(1.0, 0.0, 0.0)
    response, work = serve([server], _arrivals(300.0, 60.0), np.random.default_rng(2), 0.01, patience=2.0)
    assert response.max() < 2.2
    assert server.pending_seconds(60.0) < 2.2
    assert sum(work) == pytest.approx(60.0, rel=0.05)


def test_requests_wait_for_a_replica_that_starts() -> None:
    server = Replica(1.0, 4.5, 4.5)
    response, _ = serve([server], np.array([0.5, 4.0]), np.random.default_rng(2), 1e-6, patience=60.0)
    assert response == pytest.approx([4.0, 0.5], abs=1e-3)
    assert server.pending_seconds(2.0) < 1e-3


@settings(max_examples=30)
@given(
    st.lists(st.floats(0, 10), max_size=30).map(sorted),
    st.floats(0, 5),
    st.integers(1, 4),
    st.floats(0.01, 2.0),
)
def test_no_request_is_answered_before_it_arrives(
    times: list[float], free: float, count: int, patience: float
) -> None:
    servers = [Replica(0.5, free, free) for _ in range(count)]
    response, work = serve(servers, np.array(times), np.random.default_rng(0), 0.05, patience=patience)
    assert (response > 0).all()
    assert all(each >= 0 for each in work)
    assert all(server.free_seconds >= free for server in servers)
