import sys

from hypothesis import given
from hypothesis import strategies as st

from agent.reporting.usage import UsageTally, top_containers
from wire.messages import ContainerUsage
from wire.resources import Resource
from wire.sketch import Sketch

value = st.one_of(st.none(), st.just(0.0), st.floats(0, 1e12))
sample = st.tuples(value, value, value, value)
FLOORS = (1e-4, 1.0, 1.0, 1.0)


def sketch(values: list[float | None], floor: float) -> Sketch | None:
    made = Sketch()
    for each in values:
        if each is not None:
            made.add(each, floor)
    return made if made.count else None


@given(st.lists(sample, max_size=30), st.integers(1, 40))
def test_it_is_the_sketch_of_all_samples_however_many(
    pattern: list[tuple[float | None, ...]], times: int
) -> None:
    samples = pattern * times
    tally = UsageTally()
    for each in samples:
        tally.add(each, 3.0)
    sketches = [sketch([each[index] for each in samples], FLOORS[index]) for index in range(4)]
    expected = ContainerUsage("a", *sketches) if any(sketches) else None
    assert tally.usage("a") == expected


def test_highest_usage_comes_first_and_idle_containers_are_left_out() -> None:
    tallies = {name: UsageTally() for name in "abcd"}
    for _ in range(3):
        tallies["a"].add((0.5, 10.0, None, 0.0), 3.0)
        tallies["b"].add((2.0, 30.0, None, 0.0), 3.0)
        tallies["c"].add((1.0, 20.0, None, 5.0), 3.0)
        tallies["d"].add((0.0, 10.0, None, 0.0), 3.0)
    assert top_containers(tallies, 2) == {
        Resource.CPU: ("b", "c"),
        Resource.MEMORY: ("b", "c"),
        Resource.NETWORK: ("c",),
    }
    assert top_containers(tallies, 10)[Resource.MEMORY] == ("b", "c", "a", "d")
    assert top_containers(tallies, 0) == {}


def test_containers_are_ranked_by_usage_times_time() -> None:
    tallies = {"long": UsageTally(), "short": UsageTally()}
    for _ in range(100):
        tallies["long"].add((0.5, 0.0, 0.0, 0.0), 3.0)
    tallies["short"].add((4.0, 0.0, 0.0, 0.0), 3.0)
    assert top_containers(tallies, 1)[Resource.CPU] == ("long",)


def test_a_sample_that_stands_for_long_counts_for_more() -> None:
    tallies = {"often": UsageTally(), "long": UsageTally()}
    tallies["long"].add((0.5, 0.0, 0.0, 0.0), 60.0)
    for _ in range(5):
        tallies["often"].add((0.5, 0.0, 0.0, 0.0), 3.0)
    assert top_containers(tallies, 1)[Resource.CPU] == ("long",)


def test_samples_stay_small_however_long_the_heartbeat() -> None:
    tally = UsageTally()
    for number in range(100_000):
        tally.add((0.1 + number % 10, 1e9, 5.0, 0.0), 0.2)
    held = sum(sys.getsizeof(uncounted) for uncounted in tally._uncounted)
    assert held < 4 * 1500
    usage = tally.usage("a")
    assert usage is not None
    assert usage.cpu is not None
    assert usage.cpu.count == 100_000
