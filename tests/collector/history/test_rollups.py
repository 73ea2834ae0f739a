from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS, Readings, RollupRows, roll_up

BEGIN = 1_800_000_000.0
"""The beginning of an hour."""
USED = (0.5, 1e6, 0.0, None, 3.0, None, None, None)
NODE = -1


class Word(NamedTuple):
    """What a node says once: its counter, and those of containers that run or ended."""

    at: float
    joules_total: float | None
    running: Mapping[int, float] = {}
    ended: Mapping[int, float] = {}
    is_heartbeat: bool = True


def rolled_up(
    words: Sequence[Word],
    ended_joules: Mapping[int, float] | None = None,
    ages: Mapping[int, float] | None = None,
) -> RollupRows:
    reports, samples, ends = [], [], []
    for number, each in enumerate(words):
        reports.append((number + 7, each.at, words[0].at, each.is_heartbeat, 10.0))
        samples.append((NODE, number + 7, 1.0, each.joules_total, 30.0, *USED))
        samples += [(key, number + 7, 1.0, joules, 30.0, *USED) for key, joules in each.running.items()]
        ends += [(key, number + 7, joules) for key, joules in each.ended.items()]
    return roll_up(Readings.of(reports, samples, ends), ended_joules or {}, ages=ages)


def of_node(gains: RollupRows, step: int) -> tuple[float, float, float]:
    """Joules of the node, idle, and of containers."""
    rows = [row for row in gains.nodes if row[0] == step]
    joules, idle, containers = (sum(row[place] or 0.0 for row in rows) for place in (-5, -4, -3))
    return joules, idle, containers


def of_containers(gains: RollupRows, step: int) -> dict[int, float]:
    sums: defaultdict[int, float] = defaultdict(float)
    for row in gains.containers:
        if row[0] == step:
            sums[int(row[2] or 0)] += row[-1] or 0.0
    return {container_id: joules for container_id, joules in sums.items() if joules}


@pytest.mark.parametrize("step", [FINE_SECONDS, COARSE_SECONDS])
def test_energy_is_the_increase_of_the_counters(step: int) -> None:
    words = [
        Word(BEGIN, 1000.0, {1: 50.0}),
        Word(BEGIN + 400, 9000.0, {1: 250.0, 2: 30.0}),
    ]
    gains = rolled_up(words, ages={2: 100.0})
    assert of_node(gains, step) == pytest.approx((8000.0, 4000.0, 230.0))
    assert of_containers(gains, step) == pytest.approx({1: 200.0, 2: 30.0})


def test_energy_is_even_over_the_time_between_heartbeats() -> None:
    words = [Word(BEGIN + 200, 0.0, {1: 0.0}), Word(BEGIN + 500, 3000.0, {1: 60.0})]
    rows = {row[1]: row[-5] for row in rolled_up(words).nodes if row[0] == FINE_SECONDS}
    first = BEGIN // FINE_SECONDS
    assert rows == pytest.approx({first: 1000.0, first + 1: 2000.0})


def test_a_container_that_came_and_went_between_heartbeats_is_counted() -> None:
    words = [
        Word(BEGIN, 0.0),
        Word(BEGIN + 60, None, ended={7: 25.0}, is_heartbeat=False),
        Word(BEGIN + 300, 5000.0),
    ]
    gains = rolled_up(words, ages={7: 20.0})
    assert of_containers(gains, FINE_SECONDS) == {7: 25.0}
    assert gains.ended == {7: 25.0}


@pytest.mark.parametrize(("age", "joules"), [(299.0, 7e6 + 10), (301.0, 10.0), (None, 10.0)])
def test_a_first_value_counts_if_the_container_started_since(age: float | None, joules: float) -> None:
    words = [Word(BEGIN, 0.0), Word(BEGIN + 300, 9e6, {7: 7e6}), Word(BEGIN + 600, 9.1e6, {7: 7e6 + 10})]
    found = of_containers(rolled_up(words, ages={} if age is None else {7: age}), FINE_SECONDS)
    assert found == pytest.approx({7: joules})


def test_a_container_started_again_goes_on_where_its_counter_was() -> None:
    words = [Word(BEGIN, 0.0), Word(BEGIN + 300, 5000.0, {7: 40.0})]
    assert of_containers(rolled_up(words, {7: 25.0}), FINE_SECONDS) == {7: 15.0}
    # Or, where the agent had forgotten it, from nothing.
    assert of_containers(rolled_up(words, {7: 90.0}), FINE_SECONDS) == {7: 40.0}


def test_a_node_without_a_counter_has_the_energy_of_its_containers() -> None:
    words = [Word(BEGIN, None, {1: 0.0}), Word(BEGIN + 300, None, {1: 60.0})]
    assert of_node(rolled_up(words), FINE_SECONDS) == pytest.approx((60.0, 0.0, 60.0))


@st.composite
def speeches(draw: st.DrawFn) -> list[Word]:
    """What a node says that counts all its energy, with restarts of its counters now and then."""
    at, node, counters = BEGIN + draw(st.floats(0, 3600)), 1000.0, {1: 0.0, 2: 5.0}
    words = [Word(at, node, dict(counters))]
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
        words.append(Word(at, node if is_heartbeat else None, dict(reported), is_heartbeat=is_heartbeat))
    at += 100.0
    words.append(Word(at, node, dict(counters)))
    return words


@given(speeches())
def test_in_every_bucket_idle_system_and_containers_are_the_node(words: list[Word]) -> None:
    gains = rolled_up(words)
    containers: defaultdict[tuple[float | None, float | None], float] = defaultdict(float)
    for row in gains.containers:
        containers[row[0], row[1]] += row[-1] or 0.0
    for row in gains.nodes:
        joules, idle, of_all = (each or 0.0 for each in row[-5:-2])
        assert of_all == pytest.approx(containers[row[0], row[1]], abs=1e-6)
        assert idle >= -1e-9
        assert joules - idle - of_all >= -1e-6
    assert of_node(gains, FINE_SECONDS) == pytest.approx(of_node(gains, COARSE_SECONDS))


@given(speeches(), st.data())
def test_rolling_up_bit_by_bit_is_rolling_up_at_once(words: list[Word], data: st.DataObject) -> None:
    heartbeats = [place for place, each in enumerate(words) if each.is_heartbeat]
    cut = data.draw(st.sampled_from(heartbeats))
    bits = [rolled_up(words[: cut + 1]), rolled_up(words[cut:])]
    whole = rolled_up(words)
    for step in (FINE_SECONDS, COARSE_SECONDS):
        summed = [sum(each) for each in zip(*(of_node(bit, step) for bit in bits), strict=True)]
        assert summed == pytest.approx(list(of_node(whole, step)), abs=1e-6)
        seconds = [sum(row[2] or 0.0 for row in part.nodes if row[0] == step) for part in (*bits, whole)]
        assert seconds[0] + seconds[1] == pytest.approx(seconds[2])
