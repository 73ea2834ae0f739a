"""Generated arrivals: their pattern, bursts and noise."""

import numpy as np
import pytest

from replay.generators.arrivals import ArrivalsSettings, Burst, generate_arrivals


def test_the_mean_and_the_pattern_are_kept() -> None:
    settings = ArrivalsSettings(
        seconds=7200,
        day_seconds=3600,
        requests_per_second=100,
        pattern=(1.0, 3.0),
        noise_ratio=0,
        day_noise_ratio=0,
    )
    rates = generate_arrivals(settings, 1).rates
    assert rates.mean() == pytest.approx(100, rel=0.01)
    assert rates[0] == pytest.approx(50, rel=0.02)
    assert rates[180] == pytest.approx(150, rel=0.02)
    assert rates[:360] == pytest.approx(rates[360:])


def test_bursts_come_and_go() -> None:
    settings = ArrivalsSettings(
        seconds=3600,
        requests_per_second=10,
        noise_ratio=0,
        day_noise_ratio=0,
        bursts=(
            Burst(at_seconds=600, ratio=3, seconds=600, ramp_seconds=60),
            Burst(at_seconds=2400, ratio=0.5),
        ),
    )
    rates = generate_arrivals(settings, 1).rates
    assert rates[[0, 90, 150, 300]] == pytest.approx([10, 30, 10, 5])
    assert 10 < rates[62] < 30


def test_noise_depends_on_the_seed_only() -> None:
    settings = ArrivalsSettings(seconds=86_400, requests_per_second=10)
    one, same, other = (generate_arrivals(settings, seed).rates for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()
    assert 0.02 < np.log(one).std() < 0.3


def test_a_pattern_of_nothing_is_no_load() -> None:
    rates = generate_arrivals(ArrivalsSettings(requests_per_second=5, pattern=(0.0,)), 1).rates
    assert not rates.any()
