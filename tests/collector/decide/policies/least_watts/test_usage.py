from dataclasses import replace
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decide.policies.interface import Request
from collector.decide.policies.least_watts.policy import place
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.decide.policies.least_watts.usage import Usage, learn_usage, node_sums
from tests.collector.decide.policies.clusters import GIB, amount, random_cluster
from tests.collector.decide.policies.least_watts.builders import DEFAULTS, make_node, make_task
from tests.collector.snapshot.builders import TaskFacts, assemble
from wire.resources import Quantities

_CPU, _MEMORY, _DISK, _NETWORK = range(4)


def _usage(*tasks: TaskFacts) -> Usage:
    return learn_usage(assemble([make_node("a")], tasks))


def _without_io(task: TaskFacts) -> TaskFacts:
    """The same task, from a node that measures neither disk nor network."""
    assert task.used.cpu_cores is not None
    used = Quantities(task.used.cpu_cores, task.used.memory_bytes)
    return replace(task, used=used, mean=used, envelope=used, windows=[(1.0, 0.0, nan, nan)] * 20)


def test_the_windows_of_a_container_outweigh_its_long_term_mean() -> None:
    usage = _usage(make_task("one", "a", 1, windows=[3.0] * 29))
    assert usage.expected[0, _CPU] == pytest.approx((29 * 3 + 1) / 30)


def test_the_fewer_windows_the_more_the_long_term_mean_counts() -> None:
    usage = _usage(
        make_task("old", "a", 1, windows=[3.0] * 29), make_task("recent", "a", 1, windows=[3.0] * 3)
    )
    assert usage.expected[1, _CPU] == pytest.approx((3 * 3 + 1) / 4)


def test_a_missing_window_has_the_expected_use() -> None:
    usage = _usage(
        make_task("old", "a", 1, windows=[3.0] * 5), make_task("recent", "a", 1, windows=[3.0] * 3)
    )
    expected = usage.expected[1, _CPU]
    windows = usage.windows_of(np.array([1]))
    assert windows[0, :, _CPU] == pytest.approx([expected, expected, 3.0, 3.0, 3.0])


@given(seed=st.integers(0, 999))
def test_the_mean_of_windows_is_that_of_known_and_missing_ones(seed: int) -> None:
    draw = np.random.default_rng(seed)
    tasks = [
        make_task(f"task-{row}", "a", 1, windows=draw.uniform(0, 3, draw.integers(0, 9))) for row in range(5)
    ]
    usage = _usage(*tasks, make_task("known", "a", 1, windows=[1.0]))
    windows = usage.windows_of(np.arange(6))
    assert windows.shape[1] == usage.length
    assert usage.mean_of_windows(_CPU) == pytest.approx(windows[:, :, _CPU].mean(axis=1))


def test_without_windows_the_long_term_mean_is_expected() -> None:
    usage = _usage(make_task("one", "a", 2))
    assert usage.length == 0
    assert usage.expected[0, _CPU] == 2
    assert not usage.is_observed[0]


def test_an_unobserved_container_counts_with_the_published_share_of_its_reservation() -> None:
    new = TaskFacts(id="new", node="a", requested=amount(4, 2))
    usage = _usage(new, make_task("other", "a", 1))
    assert usage.expected[0, [_CPU, _MEMORY]] == pytest.approx([1.0, 2 * GIB])
    assert not usage.shares.containers.any()
    assert not usage.variance[0].any()


@given(share=st.floats(0, 2), count=st.integers(1, 40))
def test_the_share_is_learned_from_containers_that_are_observed(share: float, count: int) -> None:
    new = TaskFacts(id="new", node="a", requested=amount(4, 2))
    known = [
        replace(make_task(f"known-{each}", "a", 2 * share, windows=[2 * share] * 9), requested=amount(2, 0.1))
        for each in range(count)
    ]
    usage = _usage(new, *known)
    learned = (count * share + 3 * 0.25) / (count + 3)
    row = count
    assert usage.shares.containers[_CPU] == count
    assert usage.expected[row, _CPU] == pytest.approx(4 * learned, rel=1e-5)
    assert usage.expected[row, _MEMORY] == 2 * GIB


def test_memory_is_expected_by_its_envelope_or_its_present_use_if_that_is_larger() -> None:
    task = make_task("one", "a", 1)
    usage = _usage(
        replace(task, id="large", envelope=amount(1, 3), used=amount(1, 2)),
        replace(task, id="small", envelope=amount(1, 1), used=amount(1, 2)),
    )
    assert (usage.expected[:, _MEMORY] / GIB).tolist() == [3, 2]


def test_a_resource_that_is_not_reported_does_not_constrain() -> None:
    node = replace(make_node("a"), capacity=amount(10, 16, disk=1e9, network=1e9))
    new = TaskFacts(id="new", node="a", requested=amount(1, 1, disk=1e10, network=1e10))
    snapshot = assemble([node], [new, _without_io(make_task("one", "a", 1))])
    usage = learn_usage(snapshot)
    assert usage.constrains.tolist() == [True, True, False, False]
    assert not usage.expected[:, [_DISK, _NETWORK]].any()
    wanted = amount(1, 0.1, disk=1e10, network=1e10)
    request = Request(demand=wanted, mean=wanted, known=True)
    assert place(snapshot, request, LeastWattsSettings(overbooks=True)).best == 0


def test_a_resource_that_is_reported_constrains() -> None:
    node = replace(make_node("a"), capacity=amount(10, 16, disk=1e9, network=1e9))
    snapshot = assemble([node], [make_task("one", "a", 1)])
    assert learn_usage(snapshot).constrains.all()
    wanted = amount(1, 0.1, disk=1e15)
    assert place(snapshot, Request(demand=wanted, mean=wanted, known=True), DEFAULTS).best is None


@given(seed=st.integers(0, 999))
def test_expected_use_and_variance_are_finite_and_not_negative(seed: int) -> None:
    usage = learn_usage(random_cluster(seed, calm=False).snapshot())
    for each in (usage.expected, usage.variance, usage.windows_of(np.arange(len(usage.expected)))):
        assert np.isfinite(each).all()
        assert (each >= 0).all()


def test_the_windows_of_a_node_are_those_of_the_tasks_it_runs_now() -> None:
    tasks = [
        make_task("one", "a", 1, windows=[1.0, 2.0]),
        make_task("two", "a", 1, windows=[3.0, 1.0]),
        make_task("three", "b", 1, windows=[5.0, 5.0]),
    ]
    snapshot = assemble([make_node("a"), make_node("b")], tasks)
    usage = learn_usage(snapshot)
    expected, variance = node_sums(snapshot, usage)
    assert expected.sum(axis=0) == pytest.approx(usage.expected.sum(axis=0))
    assert variance.sum(axis=0) == pytest.approx(usage.variance.sum(axis=0))
