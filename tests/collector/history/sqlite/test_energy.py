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
from collector.history.rollups import COARSE_SECONDS, FINE_SECONDS
from collector.history.sqlite.energy import parts, read_energy
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.history import open_sqlite
from collector.history.sqlite.retention import RetentionJob
from collector.history.sqlite.rollup_store import RollupReader, add_rollups
from collector.history.sqlite.writer import SqliteWriter
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
        self._connection, self._condenser = connection, RollupReader(connection)
        kept = config.HistoryConfig(path=":memory:", retention_hours=6, detail_days=20 / 24, hourly_days=400)
        self._retention = RetentionJob(connection, self._writer, kept)

    def take(self, *reports: Report, received_at: float | None = None) -> None:
        for each in reports:
            self._writer.add([([each], each.at if received_at is None else received_at)])

    def expire(self, now: float, *, detail: bool = True) -> None:
        while self._retention.expire_reports(now):
            pass
        while detail and self._retention.expire_rollups(now):
            pass
        self._retention.expire_rest(now)

    def roll_up(self) -> None:
        found = [self._condenser.read(node_id) for node_id in self._condenser.pending_nodes()]
        self._writer.change(add_rollups, [each for each in found if each is not None])

    def energy(
        self, by: GroupBy, start: float = 0.0, end: float = 10 * START, label: str | None = None
    ) -> list[Account]:
        # From the beginning of time there would be very many hours.
        start, end = max(start, START - 10 * DAY), min(end, START + 20 * DAY)
        return read_energy(self._connection, start, end, by, label)

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
    end = Event(
        EventKind.STOPPED, START + 60, container="job-1", name="job", joules_total=12.5, lifetime_seconds=50.0
    )
    book.take(
        heartbeat(START, 1, 0.0),
        partial_report(sequence=2, at=START + 61, events=(end,)),
        heartbeat(START + 300, 3, 900.0),
    )
    book.roll_up()
    (job,) = book.energy(GroupBy.CONTAINER)
    assert (job.key, job.name) == ("job-1", "job")
    assert job.joules == pytest.approx(12.5)


def test_what_a_container_used_before_it_was_first_seen_is_not_counted(book: Book) -> None:
    """Its agent kept its counter while the collector did not know the container."""
    windows = {"old": 30.0, "new": 30.0, "at-once": 280.0}
    started_at = {"old": START - 5000, "new": START + 270, "at-once": START + 15}
    for clock_is_wrong_by in (0.0, 1e6):
        first, later = (
            [
                drawing(
                    f"{name}{clock_is_wrong_by}",
                    joules,
                    window_seconds=windows[name],
                    started_at=at + clock_is_wrong_by,
                )
                for name, at in started_at.items()
            ]
            for joules in (7e6, 7e6 + 10)
        )
        node = f"node{clock_is_wrong_by}"
        for number, containers in enumerate(([], first, later)):
            at = START + 300 * number
            sent = heartbeat(at + clock_is_wrong_by, number + 1, 3e7 * number, *containers, node=node)
            book.take(sent, received_at=at)
            book.roll_up()
    whole = 7e6 + 10
    assert book.joules(GroupBy.CONTAINER) == {
        f"id-of-{name}{wrong}": pytest.approx(10.0 if name == "old" else whole)
        for wrong in (0.0, 1e6)
        for name in started_at
    }


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


def test_the_first_hour_of_a_history_counts_in_full(book: Book) -> None:
    begin = START // HOUR * HOUR + 130
    for number in range(36):
        book.take(heartbeat(begin + 60 * number, number + 1, 1000.0 * number / 35, drawing("web", number)))
        book.roll_up()
    now = begin + 60 * 35
    assert book.joules(GroupBy.NODE, end=now) == {"alpha": 1000.0}
    assert book.joules(GroupBy.CONTAINER, end=now) == {"id-of-web": 35.0}
    assert book.joules(GroupBy.NODE, start=begin, end=now) == {"alpha": 1000.0}


def test_a_period_that_ends_now_includes_the_whole_last_heartbeat(book: Book) -> None:
    begin = START // HOUR * HOUR + 7 * HOUR
    book.take(heartbeat(begin, 1, 0.0), heartbeat(begin + 90, 2, 90.0))
    book.roll_up()
    assert book.joules(GroupBy.NODE, start=begin, end=begin + 90) == {"alpha": 90.0}
    assert book.joules(GroupBy.NODE, start=begin + 30, end=begin + 60) == {"alpha": 30.0}


def test_reports_that_arrive_again_after_their_retention_add_nothing(book: Book) -> None:
    first = [heartbeat(START + 300 * number, number + 1, 3000.0 * number) for number in range(4)]
    book.take(*first)
    book.roll_up()
    later = START + DAY
    second = [
        msgspec.structs.replace(
            heartbeat(later + 300 * number, number + 1, 9000.0 + 10 * number), boot="second"
        )
        for number in range(3)
    ]
    book.take(*second[:2])
    book.roll_up()
    book.expire(later + 600)
    book.take(*first, received_at=later + 650)
    book.roll_up()
    assert book.joules(GroupBy.NODE) == {"alpha": 9010.0}
    book.take(second[2], received_at=later + 700)
    book.roll_up()
    assert book.joules(GroupBy.NODE) == {"alpha": 9020.0}


class Machine:
    """A node whose agent counts energy: what it reports, and what it really used between heartbeats."""

    def __init__(self) -> None:
        self.at, self.boot, self.sequence = START + 1000.0, 1, 0
        self.counters = {"node": 500.0, "web": 40.0, "job": 0.0}
        self.used = dict.fromkeys(self.counters, 0.0)
        self._reported: dict[str, float] | None = None
        self.sent: list[Report] = []

    def restart_agent(self, *, loses_counters: bool) -> None:
        self.boot, self.sequence = self.boot + 1, 0
        if loses_counters:
            self.counters = dict.fromkeys(self.counters, 0.0)

    def run(self, seconds: float, web_joules: float, job_joules: float, rest_joules: float) -> None:
        self.at += seconds
        self.counters["web"] += web_joules
        self.counters["job"] += job_joules
        self.counters["node"] += web_joules + job_joules + rest_joules

    def report(self) -> Report:
        self.sequence += 1
        if self._reported is not None:
            added = {
                name: joules - self._reported[name] if joules >= self._reported[name] else joules
                for name, joules in self.counters.items()
            }
            # A reset shows only by a lower value; what containers used, their node did.
            added["node"] = max(added["node"], added["web"] + added["job"])
            for name, joules in added.items():
                self.used[name] += joules
        self._reported = dict(self.counters)
        containers = [drawing(name, self.counters[name]) for name in ("web", "job")]
        made = heartbeat(self.at, self.sequence, self.counters["node"], *containers)
        made = msgspec.structs.replace(made, boot=f"boot-{self.boot}")
        self.sent.append(made)
        return made


_JOULES = st.floats(0, 1e6)
_STEPS = st.one_of(
    st.tuples(st.just("run"), st.floats(0, 9 * HOUR), _JOULES, _JOULES, _JOULES),
    st.tuples(st.just("restart"), st.booleans()),
    st.tuples(st.just("lose")),
    st.tuples(st.just("again"), st.integers(0, 100)),
    st.tuples(st.just("expire"), st.booleans()),
    st.tuples(st.just("roll up")),
)


@pytest.mark.slow
@given(st.lists(_STEPS, min_size=3, max_size=25), st.lists(st.floats(-HOUR, 80 * HOUR), max_size=6))
def test_any_partition_of_time_adds_up_to_the_whole(steps: list[tuple[Any, ...]], cuts: list[float]) -> None:
    """Over restarts, lost reports, reports that arrive twice, and rollups that lost their details."""
    machine = Machine()
    with closing(open_for_writing(":memory:")) as connection:
        book = Book(connection)
        book.take(machine.report())
        for kind, *values in steps:
            match kind:
                case "run":
                    machine.run(*values)
                    book.take(machine.report())
                case "restart":
                    machine.restart_agent(loses_counters=values[0])
                case "lose":
                    # The counters of the next report include what this one would have reported.
                    machine.sequence += 1
                    machine.at += 60.0
                case "again":
                    book.take(machine.sent[values[0] % len(machine.sent)], received_at=machine.at)
                case "roll up":
                    book.roll_up()
                case "expire":
                    book.roll_up()
                    book.expire(machine.at, detail=values[0])
        book.roll_up()
        edges = sorted([START - DAY, *(START + cut for cut in cuts), machine.at])
        wholes = {
            GroupBy.NODE: machine.used["node"],
            GroupBy.CONTAINER: machine.used["web"] + machine.used["job"],
            GroupBy.SERVICE: machine.used["web"] + machine.used["job"],
            GroupBy.DAY: machine.used["node"],
        }
        for by, expected in wholes.items():
            periods = [sum(book.joules(by, start=start, end=end).values()) for start, end in pairwise(edges)]
            # A period without length at the very end belongs to the next period.
            edge = sum(book.joules(by, start=edges[-1], end=edges[-1] + 1e-3).values())
            assert sum(periods) + edge == pytest.approx(expected, rel=1e-6, abs=1e-3)


def test_a_period_is_whole_hours_and_finer_edges_where_there_are_any() -> None:
    hour = int(START // HOUR)
    begin = hour * HOUR
    assert list(parts(begin, begin + 2 * HOUR, 0.0)) == [(COARSE_SECONDS, hour), (COARSE_SECONDS, hour + 1)]
    first = int(begin // 300)
    assert list(parts(begin + 150, begin + 600, 0.0)) == [(FINE_SECONDS, first), (FINE_SECONDS, first + 1)]
    assert list(parts(begin + 900, begin + 1800, begin + HOUR)) == [(COARSE_SECONDS, hour)]


async def test_accounts_survive_a_restart_and_the_samples(tmp_path: Path) -> None:
    settings = config.HistoryConfig(path=str(tmp_path / "history.db"), retention_hours=1.0)
    async with open_sqlite(settings) as history:
        await history.add([heartbeat(START, 1, 0.0), heartbeat(START + 300, 2, 600.0)], START + 300)
        await history.apply_retention(START + 301)
    async with open_sqlite(settings) as history:
        await history.apply_retention(START + 302)
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
