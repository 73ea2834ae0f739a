"""What one node can do to the rollups, which all nodes share: no more than a node can have used and sent."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.history.interface import GroupBy
from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.energy import read_energy
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.rollup_store import RollupReader, RollupUpdate, add_rollups
from collector.history.sqlite.rows import Row
from collector.history.sqlite.writer import SqliteWriter
from tests.collector.builders import START, container, partial_report, report
from wire.messages import ContainerPower, ContainerState, Event, EventKind, NodePower, PowerSource, Report

DAY, MAX_WATTS = 86_400.0, 1000.0
BUCKET_JOULES = MAX_WATTS * FINE_SECONDS


class History:
    """A history in memory whose nodes draw at most `MAX_WATTS`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._writer = SqliteWriter(connection, 6 * 3600.0)
        self._reader = RollupReader(connection)

    def add(self, *reports: Report, received_at: float) -> None:
        self._writer.add([(reports, received_at)])

    def roll_up(self) -> list[RollupUpdate]:
        """Roll up once, as a pass with one turn does."""
        found = [self._reader.read(node_id, MAX_WATTS) for node_id in self._reader.pending_nodes()]
        updates = [each for each in found if each is not None]
        self._writer.change(add_rollups, updates)
        return updates

    def joules(self, by: GroupBy = GroupBy.NODE, end: float = START + 20 * DAY) -> dict[str | None, float]:
        accounts = read_energy(self.connection, START - 20 * DAY, end, by, None)
        return {each.key: each.joules for each in accounts}

    def rows(self, step: int = FINE_SECONDS) -> int:
        query = "SELECT count(*) FROM container_rollups WHERE step = ?"
        return int(self.connection.execute(query, (step,)).fetchone()[0])


@pytest.fixture
def history() -> Iterator[History]:
    with closing(open_for_writing(":memory:")) as connection:
        yield History(connection)


def claim(
    sequence: int, at: float, joules: float, *containers: ContainerState, node: str = "mallory"
) -> Report:
    power = NodePower(90.0, 40.0, 10.0, PowerSource.RAPL, 0.03, joules)
    return report(node, sequence=sequence, at=at, containers=containers, power=power)


def drawing(name: str, joules: float) -> ContainerState:
    return container(name, power=ContainerPower(2.0, PowerSource.MODEL, 0.2, joules))


def test_a_counter_that_leaps_counts_as_the_most_that_a_node_can_use(history: History) -> None:
    bounded = 0
    for number in range(3):
        at = START + 300 * number
        honest = claim(number + 1, at, 30_000.0 * number, node="honest")
        leap = claim(number + 1, at, 1e17 * number, drawing("web", 3e16 * number))
        history.add(honest, leap, received_at=at)
        bounded += sum(each.rows.bounded_buckets for each in history.roll_up())
    assert bounded > 0
    joules = history.joules()
    assert joules["honest"] == pytest.approx(60_000.0)
    # Two intervals of 300 s overlap three buckets.
    assert 600 * MAX_WATTS <= (joules["mallory"] or 0.0) <= 3 * BUCKET_JOULES
    # Its containers keep their share of it.
    assert history.joules(GroupBy.CONTAINER)["id-of-web"] == pytest.approx(0.3 * joules["mallory"])


def test_energy_of_containers_that_ended_is_bounded_too(history: History) -> None:
    events = tuple(
        Event(EventKind.DIED, START + 60, container=f"c{number}", joules_total=1e17) for number in range(9)
    )
    history.add(claim(1, START, 0.0), received_at=START)
    history.add(partial_report("mallory", sequence=2, at=START + 60, events=events), received_at=START + 60)
    history.add(claim(3, START + 300, 100.0), received_at=START + 300)
    history.roll_up()
    assert sum(history.joules(GroupBy.CONTAINER).values()) <= 2 * BUCKET_JOULES * 1.001


@given(
    claims=st.lists(
        st.tuples(
            st.floats(0, 400),
            st.one_of(st.floats(-8 * DAY, 2 * DAY), st.just(0.0)),
            st.floats(0, 1e17),
            st.booleans(),
        ),
        min_size=2,
        max_size=12,
    ),
    is_at_once=st.booleans(),
)
def test_whatever_it_claims_a_node_uses_no_more_than_it_can(
    claims: list[tuple[float, float, float, bool]],
    is_at_once: bool,  # noqa: FBT001 - given by name
) -> None:
    """Any times, counters that go up and down, any number of runs."""
    with closing(open_for_writing(":memory:")) as connection:
        history, now = History(connection), START
        for number, (later, offset, joules, restarts) in enumerate(claims, 1):
            now += later
            made = claim(number, now + offset, joules, drawing("web", joules / 2))
            if restarts:
                made = msgspec.structs.replace(made, boot=f"boot-{number}")
            history.add(made, received_at=now)
            if not is_at_once:
                history.roll_up()
        history.roll_up()
        # A report can wait in a spool for a week; the buckets at both ends count as whole.
        most = MAX_WATTS * (7 * DAY + (now - START) + 60) + 2 * BUCKET_JOULES
        total = sum(history.joules().values())
        assert total <= most
        assert sum(history.joules(GroupBy.CONTAINER).values()) <= total * (1 + 1e-9)
        for step in (FINE_SECONDS, COARSE_SECONDS):
            query = "SELECT max(joules) FROM node_rollups WHERE step = ?"
            (highest,) = connection.execute(query, (step,)).fetchone()
            assert (highest or 0.0) <= MAX_WATTS * step * (1 + 1e-9)


def test_the_same_days_are_not_claimed_again_and_again(history: History) -> None:
    """Times that jump back and forth would give each container a row for every five minutes of a week."""
    containers = [drawing(f"c{number}", 0.0) for number in range(20)]
    history.add(claim(1, START, 0.0, *containers), received_at=START)
    history.roll_up()
    for number in range(1, 20):
        at = START + 10 * number
        claimed = at - 6 * DAY if number % 2 else at
        grown = [drawing(f"c{each}", 5.0 * number) for each in range(20)]
        history.add(claim(number + 1, claimed, 200.0 * number, *grown), received_at=at)
        history.roll_up()
    assert history.rows() <= 2 * 20
    assert history.joules() == pytest.approx({"mallory": 3800.0})


def test_a_clock_that_is_set_back_loses_no_energy(history: History) -> None:
    """Its time goes on from where it was; only the interval in which that happened has no length."""
    for number in range(40):
        now = START + 300 * number
        own = now if number < 5 else now - DAY
        history.add(claim(number + 1, own, 30_000.0 * number), received_at=now)
        history.roll_up()
    assert history.joules() == pytest.approx({"mallory": 30_000.0 * 39})
    assert history.joules(end=START + 300 * 20)["mallory"] == pytest.approx(30_000.0 * 21)


@pytest.mark.parametrize("step_seconds", [-0.01, -30.0, -3600.0])
def test_reports_of_an_outage_keep_their_times_after_a_clock_was_set_back(
    history: History, step_seconds: float
) -> None:
    for number in range(10):
        now = START + 300 * number
        own = now if number < 5 else now + step_seconds
        history.add(claim(number + 1, own, 60_000.0 * number), received_at=now)
        history.roll_up()
    # Then nothing arrives for half a day, and all of it at once after that.
    later = START + 300 * 150
    history.add(
        *(
            claim(number + 1, START + 300 * number + step_seconds, 60_000.0 * number)
            for number in range(10, 150)
        ),
        received_at=later,
    )
    while any(each.has_more for each in history.roll_up()):
        pass
    assert history.joules() == pytest.approx({"mallory": 60_000.0 * 149})
    assert history.joules(end=START + 300 * 75)["mallory"] == pytest.approx(60_000.0 * 75, abs=60_001.0)


@pytest.mark.slow
def test_a_gap_of_days_on_a_crowded_node_does_not_fill_the_history(history: History) -> None:
    crowd = [drawing(f"c{number}", 0.0) for number in range(400)]
    history.add(claim(1, START - 6 * DAY, 0.0, *crowd), received_at=START)
    history.add(
        claim(2, START, 6 * DAY * 20.0, *(drawing(f"c{number}", 9.0) for number in range(400))),
        received_at=START,
    )
    history.roll_up()
    assert 0 < history.rows() <= 22_000
    assert history.joules() == pytest.approx({"mallory": 6 * DAY * 20.0})
    assert sum(history.joules(GroupBy.CONTAINER).values()) == pytest.approx(9.0 * 400)


def test_the_energy_of_a_crowded_node_in_a_gap_is_bounded_by_the_gap(history: History) -> None:
    """Its containers have rows for the last part of the gap only, but its energy is that of all of it."""
    gap, watts = 36_000.0, 300.0
    crowd = [f"c{number}" for number in range(2000)]
    history.add(claim(1, START, 0.0, *(drawing(name, 0.0) for name in crowd)), received_at=START)
    late = claim(2, START + gap, gap * watts, *(drawing(name, 1000.0) for name in crowd))
    history.add(late, received_at=START + gap)
    history.roll_up()
    assert history.joules() == pytest.approx({"mallory": gap * watts})
    assert sum(history.joules(GroupBy.CONTAINER).values()) == pytest.approx(2000 * 1000.0)
    # The next heartbeat is in the same bucket, which has room for it.
    next_at = START + gap + 30
    late = claim(3, next_at, gap * watts + 9000.0, *(drawing(name, 1000.0) for name in crowd))
    history.add(late, received_at=next_at)
    history.roll_up()
    assert history.joules() == pytest.approx({"mallory": gap * watts + 9000.0})
    # A false claim is bounded as if there were no gap.
    history.add(claim(4, next_at + gap, 1e17), received_at=next_at + gap)
    history.roll_up()
    assert history.joules()["mallory"] <= (gap + next_at + gap - START + FINE_SECONDS) * MAX_WATTS


def test_a_flood_between_two_heartbeats_is_not_read_into_memory(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.history.sqlite.rollup_store._READ_BYTES", 50_000)
    read: list[int] = []
    samples = RollupReader.samples

    def counted(self: RollupReader, given: Mapping[str, int]) -> list[Row]:
        found = samples(self, given)
        read.append(len(found))
        return found

    monkeypatch.setattr(RollupReader, "samples", counted)
    crowd = tuple(drawing(f"c{number}", 0.0) for number in range(20))
    history.add(claim(1, START, 0.0, *crowd), received_at=START)
    for sequence in range(2, 200):
        flood = partial_report("mallory", sequence=sequence, at=START + sequence, containers=crowd)
        history.add(flood, received_at=START + sequence)
    history.add(claim(200, START + 300, 500.0, *crowd), received_at=START + 300)
    for sequence in range(201, 240):
        at = START + 300 * (sequence - 199)
        history.add(claim(sequence, at, 500.0 * (sequence - 199), *crowd), received_at=at)
    passes = 0
    while any(each.has_more for each in history.roll_up()):
        passes += 1
    assert passes > 2
    assert max(read) <= 420
    assert history.joules() == pytest.approx({"mallory": 500.0 * 40})
