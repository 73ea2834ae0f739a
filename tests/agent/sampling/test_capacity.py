import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.sampling.rates import HostRates
from agent.sampling.sampler import DISK_FLOOR_BYTES_PER_SECOND, NETWORK_FLOOR_BYTES_PER_SECOND, Capacities
from wire.messages import Pressure
from wire.resources import Quantities, Resource, ratio

QUIET = HostRates(
    unix_seconds=1.0,
    interval_seconds=3.0,
    used=Quantities(1.0, 1000, 0.0, 0.0),
    capacity=Quantities(4.0, 8000),
    pressure=Pressure(),
)


def using(disk: float | None, network: float | None = 0.0) -> HostRates:
    return replace(QUIET, used=Quantities(1.0, 1000, disk, network))


def test_configured_capacity_is_used() -> None:
    rates = Capacities(5e8, 2e9).complete(using(6e8, 3e9))
    assert rates.capacity == Quantities(4.0, 8000, 5e8, 2e9)
    assert rates.learned_capacities == ()


def test_link_speed_is_not_learned() -> None:
    limited = replace(using(0.0, 9e9), capacity=Quantities(4.0, 8000, None, 1.25e9))
    rates = Capacities().complete(limited)
    assert rates.capacity.network_bytes_per_second == 1.25e9
    assert rates.learned_capacities == (Resource.DISK,)


def test_the_first_byte_does_not_fill_the_disk() -> None:
    rates = Capacities().complete(using(4096.0, 100.0))
    assert rates.learned_capacities == (Resource.DISK, Resource.NETWORK)
    for resource in (Resource.DISK, Resource.NETWORK):
        used = ratio(rates.used, rates.capacity, resource)
        assert used is not None
        assert used < 0.001


def test_highest_usage_becomes_the_capacity() -> None:
    capacities = Capacities()
    assert capacities.complete(using(8e8, 2e9)).capacity == Quantities(4.0, 8000, 8e8, 2e9)
    assert capacities.complete(using(1.0, 1.0)).capacity == Quantities(4.0, 8000, 8e8, 2e9)


def test_unknown_usage_has_no_capacity() -> None:
    rates = Capacities().complete(using(None, None))
    assert rates.capacity == Quantities(4.0, 8000)
    assert rates.learned_capacities == ()


def test_a_sample_without_a_rate_does_not_forget() -> None:
    capacities = Capacities()
    capacities.complete(using(8e8))
    assert capacities.complete(using(None)).capacity.disk_bytes_per_second == 8e8


@given(st.lists(st.none() | st.floats(0, 1e12), min_size=1))
def test_a_learned_capacity_never_shrinks_and_is_never_exceeded(rates: list[float | None]) -> None:
    capacities, before = Capacities(), 0.0
    for rate in rates:
        capacity = capacities.complete(using(rate, rate)).capacity
        for now, floor in (
            (capacity.disk_bytes_per_second, DISK_FLOOR_BYTES_PER_SECOND),
            (capacity.network_bytes_per_second, NETWORK_FLOOR_BYTES_PER_SECOND),
        ):
            assert now is None or now >= max(floor, rate or 0.0)
        if capacity.disk_bytes_per_second is not None:
            assert capacity.disk_bytes_per_second >= before
            before = capacity.disk_bytes_per_second
    assert (
        before == pytest.approx(max([DISK_FLOOR_BYTES_PER_SECOND, *(r for r in rates if r)])) or before == 0.0
    )
