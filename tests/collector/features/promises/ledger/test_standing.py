import math

import numpy as np
import pytest

from collector.features.promises.ledger.standing import (
    availability,
    preemption_ratio,
    recoverability,
    slack,
    time_to_violation,
)


def _column(*values: float) -> np.typing.NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def test_the_service_with_the_higher_availability_may_be_the_one_that_can_wait_less() -> None:
    # 58 of 60 minutes, and 10 of 10 minutes, both promised 90 %.
    running, total = _column(58.0, 10.0), _column(60.0, 10.0)
    target, one, none = _column(0.9, 0.9), _column(1.0, 1.0), _column(0.0, 0.0)
    assert availability(running, total) == pytest.approx([58 / 60, 1.0])
    assert slack(running, total, target, one, none) == pytest.approx([4.444, 1.111], abs=0.001)


def test_nothing_is_broken_before_any_time_has_passed() -> None:
    nothing, target = _column(0.0), _column(0.9)
    assert availability(nothing, nothing) == pytest.approx([1.0])
    assert slack(nothing, nothing, target, _column(1.0), _column(0.0)) == pytest.approx([0.0])


def test_a_full_promise_is_behind_by_all_time_that_was_waited() -> None:
    behind = slack(_column(55.0), _column(60.0), _column(1.0), _column(1.0), _column(0.0))
    assert behind == pytest.approx([-5.0])
    assert recoverability(_column(55.0), _column(60.0), _column(1.0)) == pytest.approx([-5.0])


def test_a_promise_that_the_siblings_keep_alone_never_breaks() -> None:
    # Four instances are promised half of the time; the three others run.
    for contributing in (3.0, 2.0):
        endless = time_to_violation(
            _column(90.0), _column(100.0), _column(0.5), _column(4.0), _column(contributing)
        )
        assert endless == pytest.approx([math.inf])


def test_a_broken_promise_is_behind_even_if_its_siblings_run() -> None:
    behind = slack(_column(40.0), _column(100.0), _column(0.5), _column(4.0), _column(3.0))
    assert behind == pytest.approx([-20.0])


def test_the_preemption_overhead_is_a_share_of_all_time_spent_starting_and_running() -> None:
    assert preemption_ratio(_column(5.0, 0.0, 3.0), _column(45.0, 0.0, 0.0)) == pytest.approx([0.1, 0.0, 1.0])
