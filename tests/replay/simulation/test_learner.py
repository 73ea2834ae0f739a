"""Percentiles followed from sample to sample are those that sorting finds."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.envelopes import EnvelopeRule
from replay.simulation.learner import SLOT_SECONDS, SLOTS, Learner, Learnt

ONE = np.array([0])
PLAIN = EnvelopeRule((0.9, 0.99, 0.5, 0.9), (False, False, False, True))


def learnt(samples: Sequence[float]) -> Learnt:
    learner = Learner(1, PLAIN)
    learner.begin(ONE)
    for number, value in enumerate(samples):
        learner.add(number * 60.0, ONE, np.full((1, 4), value))
    return learner.learnt(ONE)


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=60))
def test_percentile_mean_and_variance(samples: list[float]) -> None:
    found = learnt([value * 1e6 for value in samples])
    ordered = np.sort(samples) * 1e6
    for place, percentile in enumerate((0.9, 0.99, 0.5)):
        rank = max(1, int(np.ceil(percentile * len(samples) - 1e-9)))
        expected = ordered[rank - 1] if place != 1 or ordered[rank - 1] > 1e6 else 0.0
        if place == 0:
            continue  # a million cores lie beyond the last bin
        assert found.envelope[0, place] == pytest.approx(expected, rel=0.02)
    assert found.mean[0, 1] == pytest.approx(ordered.mean())
    assert found.variance[0, 1] == pytest.approx(ordered.var(), rel=1e-6, abs=1e-3 * ordered.max() ** 2)
    assert found.samples[0] == len(samples)


def test_bursts_are_told_by_the_mean_of_what_lies_above_the_percentile() -> None:
    found = learnt([1e6] * 90 + [1e8] * 10)
    assert found.envelope[0, 2] == pytest.approx(1e6, rel=0.02)
    assert found.envelope[0, 3] == pytest.approx(1e8, rel=0.02)


def test_percentile_follows_down_again() -> None:
    found = learnt([100e6, *[2e6] * 200])
    assert found.envelope[0, 1] == pytest.approx(2e6, rel=0.02)


def test_what_is_older_than_a_day_is_forgotten() -> None:
    learner = Learner(1, PLAIN)
    learner.begin(ONE)
    learner.add(0.0, ONE, np.full((1, 4), 100e6))
    learner.add(SLOT_SECONDS, ONE, np.full((1, 4), 2e6))
    assert learner.learnt(ONE).envelope[0, 1] == pytest.approx(100e6, rel=0.02)
    learner.add(SLOTS * SLOT_SECONDS, ONE, np.full((1, 4), 2e6))
    found = learner.learnt(ONE)
    assert found.envelope[0, 1] == pytest.approx(2e6, rel=0.02)
    assert found.samples[0] == 2
    assert found.mean[0, 1] == pytest.approx(2e6)


def test_row_of_a_container_that_ended_is_given_to_the_next_as_new() -> None:
    learner = Learner(200, PLAIN)
    everyone = np.arange(150)
    learner.begin(everyone)
    learner.add(0.0, everyone, np.full((150, 4), 5e6))
    learner.end(everyone)
    learner.begin(np.array([199]))
    assert learner.samples(np.array([199]))[0] == 0
    assert learner.learnt(everyone).samples.sum() == 0
