import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.usage import SLOT_SECONDS, SLOTS, Ring, slot_of
from tests.collector.speaking import patient
from wire.messages import ContainerUsage
from wire.resources import Quantities, Resource
from wire.sketch import RELATIVE_ERROR, Sketch

NOW = 1_000 * SLOT_SECONDS + 60
HOUR = 3600.0

values = st.floats(1e-3, 1e12)


def sketch(*numbers: float) -> Sketch:
    made = Sketch()
    for number in numbers:
        made.add(number)
    return made


@patient
@given(st.lists(st.tuples(st.integers(1, 2 * SLOTS), st.lists(values, min_size=1)), min_size=1), st.data())
def test_p90_is_that_of_every_sample_of_the_slots_that_are_left(
    heartbeats: list[tuple[int, list[float]]], data: st.DataObject
) -> None:
    ring = Ring()
    for slot, samples in data.draw(st.permutations(heartbeats)):
        ring.add(slot, ContainerUsage("web", cpu=sketch(*samples), memory=sketch(*samples)))
    newest = max(slot for slot, _ in heartbeats)
    left = sorted(value for slot, samples in heartbeats if slot > newest - SLOTS for value in samples)
    truth = left[math.ceil(0.9 * len(left)) - 1]
    assert ring.samples == len(left)
    assert ring.p90.cpu_cores == pytest.approx(truth, rel=1.01 * RELATIVE_ERROR)
    assert ring.p90.memory_bytes == pytest.approx(truth, rel=1.01 * RELATIVE_ERROR, abs=0.5)
    assert (ring.p90.disk_bytes_per_second, ring.p90.network_bytes_per_second) == (None, None)


def test_what_is_not_measured_has_no_p90_and_an_empty_histogram_neither() -> None:
    ring = Ring()
    ring.add(1, ContainerUsage("web", cpu=sketch(0.0, 0.0), memory=Sketch()))
    assert (ring.p90, ring.samples) == (Quantities(cpu_cores=0.0), 2)


def test_numbers_beyond_reason_stay_within_what_can_be_stored_and_sent() -> None:
    ring = Ring()
    absurd = ContainerUsage("web", memory=Sketch({4000: 2**63 - 1}, 2**63 - 1))
    for _ in range(3):
        ring.add(1, absurd)
    assert ring.sketches()[Resource.MEMORY] == absurd.memory
    ring.add(1, ContainerUsage("web", memory=Sketch({4000: 5})))
    assert ring.p90.memory_bytes == 2**63 - 1


@pytest.mark.parametrize(
    ("at", "slot"),
    [
        (NOW, 1000),
        (NOW - 120, 999),
        (NOW - 20 * HOUR, 997),
        (NOW - 25 * HOUR, 1000),
        (NOW + 120, 1000),
        (NOW + SLOT_SECONDS, 1000),
        (0.0, 1000),
        (1e300, 1000),
    ],
)
def test_usage_belongs_to_when_it_was_sampled_unless_that_cannot_be_believed(at: float, slot: int) -> None:
    assert slot_of(at, NOW) == slot
