import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import config
from collector.history.interface import Account, GroupBy
from collector.history.sqlite.connection import open_for_writing
from collector.history.sqlite.energy import EnergyReader, parts
from collector.history.sqlite.history import open_sqlite
from collector.history.sqlite.rollup_store import RollupReader, RollupWriter
from collector.history.sqlite.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.writer import SqliteWriter, Submission
from tests.collector.builders import START, container, partial_report, report, state
from wire.messages import ContainerPower, ContainerState, Event, EventKind, NodePower, PowerSource, Report

HOUR = 3600.0
DAY = 24 * HOUR
MIDNIGHT = START // DAY * DAY + DAY


def node_power(joules_total: float, idle_watts: float = 40.0) -> NodePower:
    return NodePower(90.0, idle_watts, 10.0, PowerSource.RAPL, 0.03, joules_total)


def drawing(name: str, joules_total: float, **changes: Any) -> ContainerState:
    power = ContainerPower(2.0, PowerSource.MODEL, 0.2, joules_total)
    return container(name, power=power, **changes)


def heartbeat(
    at: float, sequence: int, joules_total: float, *containers: ContainerState, node: str = "alpha"
) -> Report:
    return report(node, sequence=sequence, at=at, containers=containers, power=node_power(joules_total))


class Book:
    """A history in memory, at the level below its threads."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._writer = SqliteWriter(connection, retention_seconds=6 * HOUR)
        self._condenser, self._rollups = RollupReader(connection), RollupWriter(connection, self._writer)
        self._accountant = EnergyReader(connection)

    def take(self, *reports: Report) -> None:
        for each in reports:
            self._writer.add([Submission([each], each.at)])

    def roll_up(self) -> None:
        found = [self._condenser.read(node_id) for node_id in self._condenser.pending_nodes()]
        self._rollups.add([each for each in found if each is not None])

    def energy(
        self, by: GroupBy, start: float = 0.0, end: float = 10 * START, label: str | None = None
    ) -> list[Account]:
        # From the beginning of time there would be very many hours.
        start, end = max(start, START - 10 * DAY), min(end, START + 20 * DAY)
        return self._accountant.accounts(start, end, by, label)

    def joules(self, by: GroupBy, start: float = 0.0, end: float = 10 * START) -> dict[str | None, float]:
        return {each.key: round(each.joules, 6) for each in self.energy(by, start, end)}


@pytest.fixture
def book() -> Iterator[Book]:
    with closing(open_for_writing(":memory:")) as connection:
        yield Book(connection)


def test_a_nodes_energy_is_idle_system_and_its_containers(book: Book) -> None:
    book.take(
        heartbeat(START, 1, 1000.0, drawing("web", 50.0)),
        heartbeat(START + 300, 2, 31_000.0, drawing("web", 650.0)),
    )
    book.roll_up()
    (account,) = book.energy(GroupBy.NODE)
    assert account.key == "alpha"
    assert account.joules == pytest.approx(30_000.0)
    assert account.idle_joules == pytest.approx(12_000.0)
    assert account.system_joules == pytest.approx(17_400.0)
    assert account.containers_joules == pytest.approx(600.0)


def test_energy_is_grouped_by_container_service_label_and_day(book: Book) -> None:
    at = MIDNIGHT - 100
    first = [
        drawing("web", 0.0, service="shop", labels={"team": "red"}),
        drawing("db", 0.0, service="shop", labels={"team": "blue"}),
        drawing("cron", 0.0, service=None),
    ]
    grown = [
        msgspec.structs.replace(each, power=ContainerPower(2.0, PowerSource.MODEL, 0.2, 100.0 * (place + 1)))
        for place, each in enumerate(first)
    ]
    book.take(heartbeat(at, 1, 0.0, *first), heartbeat(at + 400, 2, 4000.0, *grown))
    book.roll_up()
    assert book.joules(GroupBy.CONTAINER) == {"id-of-web": 100.0, "id-of-db": 200.0, "id-of-cron": 300.0}
    assert book.joules(GroupBy.SERVICE) == {"shop": 300.0, None: 300.0}
    assert {each.key: each.joules for each in book.energy(GroupBy.LABEL, label="team")} == pytest.approx(
        {"red": 100.0, "blue": 200.0, None: 300.0}
    )
    assert list(book.joules(GroupBy.DAY).values()) == [1000.0, 3000.0]
    (web,) = [each for each in book.energy(GroupBy.CONTAINER) if each.key == "id-of-web"]
    assert (web.node, web.name, web.service) == ("alpha", "web", "shop")


def test_a_container_without_samples_counts_by_its_end_event(book: Book) -> None:
    end = Event(EventKind.STOPPED, START + 60, container="job-1", name="job", joules_total=12.5)
    book.take(
        heartbeat(START, 1, 0.0),
        partial_report(sequence=2, at=START + 61, events=(end,)),
        heartbeat(START + 300, 3, 900.0),
    )
    book.roll_up()
    (job,) = book.energy(GroupBy.CONTAINER)
    assert (job.key, job.name) == ("job-1", "job")
    assert job.joules == pytest.approx(12.5)


def test_duplicate_reports_and_rollups_count_once(book: Book) -> None:
    reports = [heartbeat(START + 300 * number, number + 1, 3000.0 * number) for number in range(4)]
    for each in reports:
        book.take(each)
        book.roll_up()
        book.roll_up()
    book.take(*reports)
    book.roll_up()
    assert book.joules(GroupBy.NODE) == {"alpha": 9000.0}


def test_a_new_run_of_the_agent_goes_on_with_the_same_counters(book: Book) -> None:
    book.take(heartbeat(START, 1, 1000.0, drawing("web", 10.0)))
    book.roll_up()
    second = heartbeat(START + 600, 1, 7000.0, drawing("web", 30.0))
    book.take(msgspec.structs.replace(second, boot="second"))
    book.roll_up()
    assert book.joules(GroupBy.NODE) == {"alpha": 6000.0}
    assert book.joules(GroupBy.CONTAINER) == {"id-of-web": 20.0}


def test_counters_that_restarted_count_from_zero(book: Book) -> None:
    book.take(heartbeat(START, 1, 50_000.0), heartbeat(START + 300, 2, 800.0))
    book.roll_up()
    assert book.joules(GroupBy.NODE) == {"alpha": 800.0}


@given(
    cuts=st.lists(st.floats(0, 3 * HOUR), max_size=5),
    joules=st.lists(st.floats(0, 1e6), min_size=2, max_size=6),
    seconds=st.lists(st.floats(1, HOUR), min_size=6, max_size=6),
)
def test_any_periods_that_follow_each_other_add_up(
    cuts: list[float], joules: list[float], seconds: list[float]
) -> None:
    with closing(open_for_writing(":memory:")) as connection:
        book = Book(connection)
        at, total = START, 0.0
        for number, (more, later) in enumerate(zip(joules, seconds, strict=False)):
            book.take(heartbeat(at, number + 1, total, drawing("web", total / 2)))
            at, total = at + later, total + more
        book.roll_up()
        whole = sum(joules[: len(joules) - 1])
        edges = sorted([START - DAY, *(START + cut for cut in cuts), START + DAY])
        for by, expected in ((GroupBy.NODE, whole), (GroupBy.CONTAINER, whole / 2), (GroupBy.DAY, whole)):
            told = [sum(book.joules(by, start=start, end=end).values()) for start, end in pairwise(edges)]
            assert sum(told) == pytest.approx(expected, abs=1e-3)


def test_a_period_is_whole_hours_and_finer_edges_where_there_are_any() -> None:
    hour = START // HOUR * HOUR
    assert list(parts(hour, hour + 2 * HOUR, 0.0)) == [
        (COARSE_SECONDS, hour // HOUR, 1.0),
        (COARSE_SECONDS, hour // HOUR + 1, 1.0),
    ]
    first = hour // 300
    assert list(parts(hour + 150, hour + 600, 0.0)) == [
        (FINE_SECONDS, first, 0.5),
        (FINE_SECONDS, first + 1, 1.0),
    ]
    assert list(parts(hour + 900, hour + 1800, hour + HOUR)) == [(COARSE_SECONDS, hour // HOUR, 0.25)]


async def test_accounts_survive_a_restart_and_the_samples(tmp_path: Path) -> None:
    settings = config.HistoryConfig(path=str(tmp_path / "history.db"), retention_hours=1.0)
    async with open_sqlite(settings) as history:
        await history.add([heartbeat(START, 1, 0.0), heartbeat(START + 300, 2, 600.0)], START + 300)
        await history.apply_retention(START + 301)
    async with open_sqlite(settings) as history:
        await history.apply_retention(START + 5 * HOUR)
        # The next report comes only now; the counter contains the energy since the last one.
        await history.add([heartbeat(START + 5 * HOUR, 3, 1000.0)], START + 5 * HOUR)
        await history.apply_retention(START + 5 * HOUR)
        assert history.stats().reports == 1
        (account,) = await history.energy(START - HOUR, START + 6 * HOUR, GroupBy.NODE)
        assert account.joules == pytest.approx(1000.0)


def test_a_state_without_power_has_no_energy(book: Book) -> None:
    book.take(partial_report(sequence=1, state=state(power=None), heartbeat=report().heartbeat))
    book.take(
        partial_report(sequence=2, at=START + 300, state=state(power=None), heartbeat=report().heartbeat)
    )
    book.roll_up()
    assert book.joules(GroupBy.NODE) == {"alpha": 0.0}
