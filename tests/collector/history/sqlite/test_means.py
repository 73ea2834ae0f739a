"""Averages against their definition: what held at each second of the window, added up one by one."""

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.history.interface import Mean, SubjectKind, WindowEnd
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.means import read_means
from collector.history.sqlite.writer import SqliteWriter
from tests.collector.builders import HEARTBEAT, START, container, partial_report, state
from tests.collector.report_strategies import patient
from wire.messages import ContainerPower, ContainerState, NodePower, PowerSource, Report
from wire.resources import Quantities


@dataclass(frozen=True)
class Word:
    """What one report says, in whole seconds since START; None as to the container says that it is gone."""

    at: int
    window: int
    cores: float | None
    megabytes: int | None
    watts: float | None
    cpu_seconds: float
    joules: float
    is_there: bool = True
    is_heartbeat: bool = False

    def container(self) -> ContainerState:
        watts = self.watts
        return container(
            cpu_seconds_total=self.cpu_seconds,
            used=Quantities(self.cores, None if self.megabytes is None else self.megabytes * 1_000_000),
            window_seconds=float(self.window),
            power=None if watts is None else ContainerPower(watts, PowerSource.MODEL, 0.1, self.joules),
        )

    def report(self, sequence: int) -> Report:
        one, power = self.container(), None
        if self.watts is not None:
            power = NodePower(self.watts, 0.0, 0.0, PowerSource.MODEL, 0.1, self.joules)
        return partial_report(
            sequence=sequence,
            at=START + self.at,
            state=state(used=one.used, power=power, window_seconds=one.window_seconds),
            containers=(one,) if self.is_there else (),
            gone=() if self.is_there else (one.id,),
            heartbeat=HEARTBEAT if self.is_heartbeat else None,
        )


def held_at(time: float, words: list[Word]) -> Word | None:
    """The word that held: the last one whose own time, or the end of the one before it, had begun."""
    held = None
    for before, word in zip([None, *words], words, strict=False):
        own = word.at - (word.window if word.is_there else 0)
        if (own if before is None else max(own, before.at)) <= time:
            held = word
    return held if held and held.is_there else None


def counted_at(time: float, words: list[Word], counter: str) -> float | None:
    """What a counter tells of a moment between two words."""
    for before, after in pairwise(words):
        known = before.is_there and after.is_there
        if counter == "joules":
            known = known and before.watts is not None and after.watts is not None
        risen = getattr(after, counter) - getattr(before, counter)
        if before.at <= time < after.at and known and risen >= 0:
            return float(risen / (after.at - before.at))
    return None


def expected(words: list[Word], window: int, until: int, *, counts_cpu: bool) -> Mean:
    cores, memory, watts, seconds = [], [], [], 0
    for second in range(until - window, until):
        word = held_at(second + 0.5, words)
        if word is None:
            continue
        seconds += 1
        counted = counted_at(second + 0.5, words, "cpu_seconds") if counts_cpu else None
        cores.append(word.cores if counted is None else counted)
        memory.append(None if word.megabytes is None else word.megabytes * 1_000_000)
        counted = counted_at(second + 0.5, words, "joules")
        watts.append(word.watts if counted is None else counted)
    return Mean(
        samples=0,
        seconds=seconds,
        cpu_cores=average(cores),
        memory_bytes=None if (mean := average(memory)) is None else round(mean),
        watts=average(watts),
    )


def average(values: list[float | None] | list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


@st.composite
def spoken(draw: st.DrawFn) -> list[Word]:
    """A heartbeat and some words after it, the last of which says that the container is there."""
    words: list[Word] = []
    at, cpu_seconds, joules = 0, 0.0, 0.0
    count = draw(st.integers(1, 7))
    for number in range(count):
        at += draw(st.integers(1, 40))
        cpu_seconds = draw(st.sampled_from([0.0, cpu_seconds, cpu_seconds + 5]))
        joules = draw(st.sampled_from([0.0, joules + 30]))
        words.append(
            Word(
                at=at,
                window=draw(st.sampled_from([0, 3, 30])),
                cores=draw(st.sampled_from([None, 0.25, 2.0])),
                megabytes=draw(st.sampled_from([None, 1, 300])),
                watts=draw(st.sampled_from([None, 0.0, 12.0])),
                cpu_seconds=cpu_seconds,
                joules=joules,
                is_there=number in (0, count - 1) or draw(st.integers(0, 3)) > 0,
                is_heartbeat=number == 0 or draw(st.booleans()),
            )
        )
    return words


def means(words: list[Word], window: float, until: float) -> tuple[Mean, Mean]:
    """What is answered for the node and for the container."""
    with closing(open_for_writing(":memory:")) as connection:
        reports = [word.report(number) for number, word in enumerate(words, start=1)]
        beacon = partial_report(sequence=len(words) + 1, at=START + until)
        SqliteWriter(connection, 3600.0).add([([*reports, beacon], START)])
        window_ends = [WindowEnd("alpha", "first", START + until)]
        (node,) = read_means(connection, SubjectKind.NODE, window, window_ends).values()
        (one,) = read_means(connection, SubjectKind.CONTAINER, window, window_ends).values()
    return node, one


def same(found: Mean, truth: Mean) -> bool:
    return (
        found.seconds == pytest.approx(truth.seconds)
        and found.cpu_cores == pytest.approx(truth.cpu_cores)
        and found.memory_bytes == pytest.approx(truth.memory_bytes, abs=1)
        and found.watts == pytest.approx(truth.watts)
    )


@patient
@given(words=spoken(), window=st.integers(1, 150), silence=st.integers(1, 60))
def test_a_mean_weights_each_value_by_its_seconds(words: list[Word], window: int, silence: int) -> None:
    until = words[-1].at + silence
    _, one = means(words, window, until)
    assert same(one, expected(words, window, until, counts_cpu=True))


@patient
@given(words=spoken(), window=st.integers(1, 150), silence=st.integers(1, 60))
def test_so_it_is_for_a_node_which_has_no_cpu_counter(words: list[Word], window: int, silence: int) -> None:
    until = words[-1].at + silence
    always_there = [replace(word, is_there=True) for word in words]
    node, _ = means(words, window, until)
    assert same(node, expected(always_there, window, until, counts_cpu=False))


def word(at: int, *, cores: float = 0.5, cpu_seconds: float = 0.0, is_heartbeat: bool = False) -> Word:
    return Word(at, 0, cores, 100, None, cpu_seconds, 0.0, is_heartbeat=is_heartbeat)


def test_a_value_from_before_the_window_holds_through_it() -> None:
    node, one = means([word(0, is_heartbeat=True)], window=60, until=290)
    assert node == one == Mean(samples=1, seconds=60.0, cpu_cores=0.5, memory_bytes=100_000_000, watts=None)


def test_the_time_before_the_first_report_has_no_mean() -> None:
    _, one = means([word(0, is_heartbeat=True)], window=60, until=20)
    assert (one.samples, one.seconds, one.cpu_cores) == (1, 20.0, 0.5)


def test_a_window_of_zero_length_has_the_last_value_as_mean() -> None:
    _, one = means([word(0, is_heartbeat=True)], window=60, until=0)
    assert (one.samples, one.seconds, one.cpu_cores) == (1, 0.0, 0.5)


def test_samples_are_those_that_held_at_some_time_of_the_window() -> None:
    words = [word(at, is_heartbeat=at % 20 == 0) for at in range(0, 100, 10)]
    assert means(words, window=30, until=95)[1].samples == 4
    assert means(words, window=25, until=95)[1].samples == 3


def test_a_clock_set_back_loses_the_time_before_it_and_nothing_else() -> None:
    words = [
        word(5000, cores=4.0, is_heartbeat=True),
        word(5010, cores=4.0),
        word(1000, cores=1.0),
        word(1010, cores=2.0),
    ]
    node, _ = means(words, window=60, until=1020)
    assert (node.seconds, node.cpu_cores) == (20.0, 1.5)


def test_of_many_nodes_each_has_its_own_mean() -> None:
    names = [f"node-{number}" for number in range(45)]
    with closing(open_for_writing(":memory:")) as connection:
        reports = [
            msgspec.structs.replace(word(0, cores=float(number), is_heartbeat=True).report(1), node=name)
            for number, name in enumerate(names)
        ]
        SqliteWriter(connection, 3600.0).add([(reports, START)])
        window_ends = [WindowEnd(name, "first", START + 60) for name in names]
        of_nodes = read_means(connection, SubjectKind.NODE, 30.0, window_ends)
        of_containers = read_means(connection, SubjectKind.CONTAINER, 30.0, window_ends)
    assert [of_nodes[name, None].cpu_cores for name in names] == list(range(45))
    assert [of_containers[name, "id-of-web"].cpu_cores for name in names] == list(range(45))
