from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.history.rollups import (
    COARSE_SECONDS,
    FINE_SECONDS,
    ContainerReading,
    NodeReading,
    RollupRows,
    roll_up,
)
from collector.history.timeline import Sample

BEGIN = 1_800_000_000.0
"""The beginning of an hour."""
USED = (0.5, 1e6, 0.0, None, 3.0, None, None, None)


def seen(container_id: int, at: float, joules_total: float | None) -> ContainerReading:
    return ContainerReading(container_id, Sample(at, 30.0, USED), joules_total)


def ended(container_id: int, joules_total: float) -> ContainerReading:
    return ContainerReading(container_id, None, joules_total)


def word(
    at: float,
    joules_total: float | None,
    *containers: ContainerReading,
    is_heartbeat: bool = True,
    idle_watts: float = 10.0,
) -> NodeReading:
    return NodeReading(at, is_heartbeat, Sample(at, 30.0, USED), joules_total, idle_watts, containers)


def of_node(gains: RollupRows, step: int) -> tuple[float, float, float]:
    """Joules of the node, idle, and of containers."""
    rows = [row for row in gains.nodes if row[0] == step]
    joules, idle, containers = (sum(row[place] or 0.0 for row in rows) for place in (-5, -4, -3))
    return joules, idle, containers


def of_containers(gains: RollupRows, step: int) -> dict[int, float]:
    sums: defaultdict[int, float] = defaultdict(float)
    for container_id, row in gains.containers:
        if row[0] == step:
            sums[container_id] += row[-1] or 0.0
    return {container_id: joules for container_id, joules in sums.items() if joules}


@pytest.mark.parametrize("step", [FINE_SECONDS, COARSE_SECONDS])
def test_energy_is_the_increase_of_the_counters(step: int) -> None:
    words = [
        word(BEGIN, 1000.0, seen(1, BEGIN, 50.0)),
        word(BEGIN + 400, 9000.0, seen(1, BEGIN + 400, 250.0), seen(2, BEGIN + 400, 30.0)),
    ]
    gains = roll_up(words, {})
    assert of_node(gains, step) == pytest.approx((8000.0, 4000.0, 230.0))
    assert of_containers(gains, step) == pytest.approx({1: 200.0, 2: 30.0})


def test_energy_is_even_over_the_time_between_heartbeats() -> None:
    words = [word(BEGIN + 200, 0.0, seen(1, BEGIN, 0.0)), word(BEGIN + 500, 3000.0, seen(1, BEGIN, 60.0))]
    rows = {row[1]: row[-5] for row in roll_up(words, {}).nodes if row[0] == FINE_SECONDS}
    first = BEGIN // FINE_SECONDS
    assert rows == pytest.approx({first: 1000.0, first + 1: 2000.0})


def test_a_container_that_came_and_went_between_heartbeats_is_counted() -> None:
    words = [
        word(BEGIN, 0.0),
        word(BEGIN + 60, None, ended(7, 25.0), is_heartbeat=False),
        word(BEGIN + 300, 5000.0),
    ]
    gains = roll_up(words, {})
    assert of_containers(gains, FINE_SECONDS) == {7: 25.0}
    assert gains.ended == {7: 25.0}


def test_a_container_started_again_goes_on_where_its_counter_was() -> None:
    words = [word(BEGIN, 0.0), word(BEGIN + 300, 5000.0, seen(7, BEGIN + 300, 40.0))]
    assert of_containers(roll_up(words, {7: 25.0}), FINE_SECONDS) == {7: 15.0}
    # Or, where the agent had forgotten it, from nothing.
    assert of_containers(roll_up(words, {7: 90.0}), FINE_SECONDS) == {7: 40.0}


def test_a_node_without_a_counter_has_the_energy_of_its_containers() -> None:
    words = [word(BEGIN, None, seen(1, BEGIN, 0.0)), word(BEGIN + 300, None, seen(1, BEGIN + 300, 60.0))]
    assert of_node(roll_up(words, {}), FINE_SECONDS) == pytest.approx((60.0, 0.0, 60.0))


@st.composite
def speeches(draw: st.DrawFn) -> list[NodeReading]:
    """What a node says that counts all its energy, with restarts of its counters now and then."""
    at, node, counters = BEGIN + draw(st.floats(0, 3600)), 1000.0, {1: 0.0, 2: 5.0}
    words = [word(at, node, *(seen(each, at, joules) for each, joules in counters.items()))]
    for _ in range(draw(st.integers(1, 6))):
        at += draw(st.floats(0.0, 4000.0))
        is_heartbeat = draw(st.booleans())
        if draw(st.integers(0, 9)) == 0:
            node, counters = 0.0, dict.fromkeys(counters, 0.0)
        for each in counters:
            more = draw(st.floats(0, 500))
            counters[each] += more
            node += more + draw(st.floats(0, 500))
        reported = counters if is_heartbeat else {1: counters[1]}
        containers = [seen(each, at, joules) for each, joules in reported.items()]
        words.append(word(at, node if is_heartbeat else None, *containers, is_heartbeat=is_heartbeat))
    at += 100.0
    words.append(word(at, node, *(seen(each, at, joules) for each, joules in counters.items())))
    return words


@given(speeches())
def test_in_every_bucket_idle_system_and_containers_are_the_node(words: list[NodeReading]) -> None:
    gains = roll_up(words, {})
    containers: defaultdict[tuple[float | None, float | None], float] = defaultdict(float)
    for _, row in gains.containers:
        containers[row[0], row[1]] += row[-1] or 0.0
    for row in gains.nodes:
        joules, idle, of_all = (each or 0.0 for each in row[-5:-2])
        assert of_all == pytest.approx(containers[row[0], row[1]], abs=1e-6)
        assert idle >= -1e-9
        assert joules - idle - of_all >= -1e-6
    assert of_node(gains, FINE_SECONDS) == pytest.approx(of_node(gains, COARSE_SECONDS))


@given(speeches(), st.data())
def test_rolling_up_bit_by_bit_is_rolling_up_at_once(words: list[NodeReading], data: st.DataObject) -> None:
    heartbeats = [place for place, each in enumerate(words) if each.is_heartbeat]
    cut = data.draw(st.sampled_from(heartbeats))
    bits = [roll_up(words[: cut + 1], {}), roll_up(words[cut:], {})]
    whole = roll_up(words, {})
    for step in (FINE_SECONDS, COARSE_SECONDS):
        summed = [sum(each) for each in zip(*(of_node(bit, step) for bit in bits), strict=True)]
        assert summed == pytest.approx(list(of_node(whole, step)), abs=1e-6)
        seconds = [sum(row[2] or 0.0 for row in part.nodes if row[0] == step) for part in (*bits, whole)]
        assert seconds[0] + seconds[1] == pytest.approx(seconds[2])
