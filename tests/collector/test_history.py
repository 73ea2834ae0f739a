import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import config
from collector.answers import Container, Node
from collector.config import Liveness
from collector.history.opening import open_for_writing
from collector.history.reading import Reader
from collector.history.sqlite import open_sqlite
from collector.history.writing import Submission, Writer
from collector.registry import Registry
from tests.collector.making import START, container, report
from wire.messages import ContainerState, Report

HOUR = 3600.0


@st.composite
def runs(draw: st.DrawFn) -> list[Report]:
    """What a few nodes say over a few runs of their agents."""
    said = []
    for node in draw(st.lists(st.sampled_from(["alpha", "beta"]), unique=True, min_size=1)):
        at = START
        for boot in draw(st.permutations(["x", "y", "z"])):
            for sequence in range(1, draw(st.integers(0, 3)) + 1):
                at += draw(st.sampled_from([0.5, 3.0, 100.0]))
                names = draw(st.sets(st.sampled_from("abc")))
                said.append(
                    report(
                        node,
                        boot=boot,
                        sequence=sequence,
                        at=at,
                        power=draw(st.sampled_from([None, report().state.power])),
                        containers=[some_container(name, at) for name in sorted(names)],
                    )
                )
    return said


def some_container(name: str, at: float) -> ContainerState:
    bare = {"power": None, "image": None, "started_at": None} if int(at) % 2 else {}
    return container(name, cpu_seconds_total=at - START, **bare)


@st.composite
def deliveries(draw: st.DrawFn, said: list[Report]) -> list[list[Report]]:
    """The same in any order, some of it more than once, in requests of any size."""
    again = draw(st.lists(st.sampled_from(said), max_size=4)) if said else []
    pending = list(draw(st.permutations(said + again)))
    requests = []
    while pending:
        size = draw(st.integers(1, 4))
        requests.append(pending[:size])
        pending = pending[size:]
    return requests


SAMPLES = """
SELECT n.name, b.name, s.sequence, s.at, s.watts, f.body,
       c.runtime_id, cf.body, cs.cpu_seconds_total, cs.watts
FROM node_samples s JOIN boots b ON b.id = s.boot_id JOIN nodes n ON n.id = b.node_id
JOIN facts f ON f.id = s.facts_id
LEFT JOIN container_samples cs ON cs.sample_id = s.id
LEFT JOIN containers c ON c.id = cs.container_id LEFT JOIN facts cf ON cf.id = cs.facts_id
ORDER BY 1, 2, 3, 7
"""

Outcome = tuple[list[Node], list[Container], list[Any], dict[Any, Any]]


def outcome(requests: Iterable[Sequence[Report]]) -> tuple[Outcome, Registry]:
    """What is known and what is stored after some requests; and what a restart would know."""
    now = START + 1000
    with closing(open_for_writing(":memory:")) as connection:
        writer, registry = Writer(connection, HOUR), Registry(Liveness())
        for reports in requests:
            (new,) = writer.add([Submission(reports, now)])
            for each, is_new in zip(reports, new, strict=True):
                if is_new:
                    registry.apply(each, now)
        restored = Registry(Liveness())
        for received in Reader(connection).last_reports():
            restored.apply(received.report, received.received_at)
        means = Reader(connection).container_means(600.0, now, None)
        samples = connection.execute(SAMPLES).fetchall()
    return (registry.nodes(now), registry.containers(now), samples, means), restored


@given(st.data())
def test_order_and_repetition_of_reports_change_nothing(data: st.DataObject) -> None:
    said = data.draw(runs())
    in_order, _ = outcome([[each] for each in said])
    as_delivered, _ = outcome(data.draw(deliveries(said)))
    assert as_delivered == in_order


@given(st.data())
def test_a_restart_knows_exactly_what_was_known_before(data: st.DataObject) -> None:
    (nodes, containers, *_), restored = outcome(data.draw(deliveries(data.draw(runs()))))
    assert restored.nodes(START + 1000) == nodes
    assert restored.containers(START + 1000) == containers


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_for_writing(str(tmp_path / "history.db"))) as connection:
        yield connection


def count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - ours


def test_what_is_older_than_the_retention_goes_and_the_rest_stays(connection: sqlite3.Connection) -> None:
    writer = Writer(connection, retention_seconds=HOUR)
    for minute in range(120):
        at = START + 60 * minute
        writer.add([Submission([report(sequence=minute + 1, at=at, containers=[container()])], at)])
    now = START + 2 * HOUR
    assert writer.forget_samples(now, at_most=50) == 50
    assert writer.forget_samples(now, at_most=50) == 10
    assert writer.forget_samples(now, at_most=50) == 0
    assert count(connection, "node_samples") == count(connection, "container_samples") == 60
    assert connection.execute("SELECT min(received_at) FROM node_samples").fetchone() == (START + HOUR,)


def test_containers_that_come_and_go_do_not_make_the_file_grow_for_ever(
    connection: sqlite3.Connection,
) -> None:
    writer = Writer(connection, retention_seconds=HOUR)
    sizes = []
    for minute in range(360):
        at = START + 60 * minute
        short_lived = [container(f"job-{minute}-{number}") for number in range(5)]
        always = container("always")
        writer.add([Submission([report(sequence=minute + 1, at=at, containers=[always, *short_lived])], at)])
        if minute % 5 == 0:
            while writer.forget_samples(at, at_most=200):
                pass
            writer.forget_names(at)
            sizes.append(connection.execute("PRAGMA page_count").fetchone()[0])
    # Five each minute, kept for the retention and the tenth of it in which names are refreshed.
    assert count(connection, "containers") <= 5 * (66 + 5) + 1
    assert count(connection, "facts") <= 5 * (66 + 5) + 2
    assert max(sizes[36:]) <= 1.1 * max(sizes[:36])
    (last,) = Reader(connection).last_reports()
    assert {each.name for each in last.report.containers} >= {"always", "job-359-0"}


def test_space_is_given_back_when_most_of_the_file_is_empty(connection: sqlite3.Connection) -> None:
    writer = Writer(connection, retention_seconds=HOUR)
    many = [container(f"c{number}") for number in range(50)]
    writer.add([Submission([report(sequence=n, containers=many) for n in range(1, 101)], START)])
    before = connection.execute("PRAGMA page_count").fetchone()[0]
    writer.forget_samples(START + 2 * HOUR, at_most=1000)
    writer.forget_names(START + 2 * HOUR)
    assert connection.execute("PRAGMA page_count").fetchone()[0] < 0.6 * before


def test_a_name_forgotten_and_seen_again_is_kept_again(connection: sqlite3.Connection) -> None:
    writer = Writer(connection, retention_seconds=HOUR)
    writer.add([Submission([report(containers=[container()])], START)])
    later = START + 3 * HOUR
    writer.forget_samples(later, at_most=10)
    writer.forget_names(later)
    assert [count(connection, table) for table in ("nodes", "boots", "containers", "facts")] == [0, 0, 0, 0]
    again = report(sequence=2, at=later, containers=[container()])
    writer.add([Submission([again], later)])
    (last,) = Reader(connection).last_reports()
    assert last.report == again


def test_a_failed_write_leaves_no_trace_and_does_not_spoil_the_next(connection: sqlite3.Connection) -> None:
    writer = Writer(connection, retention_seconds=HOUR)
    good = report("alpha", containers=[container("one")])
    broken = report("beta", containers=[container("same"), container("same")])
    with pytest.raises(sqlite3.IntegrityError):
        writer.add([Submission([good], START), Submission([broken], START)])
    assert [count(connection, table) for table in ("nodes", "facts", "node_samples")] == [0, 0, 0]
    assert writer.add([Submission([good], START)]) == [[True]]
    (last,) = Reader(connection).last_reports()
    assert last.report == good


async def test_whoever_waits_shares_the_next_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    add = Writer.add

    def counted(self: Writer, submissions: Sequence[Submission]) -> list[list[bool]]:
        groups.append(len(submissions))
        return add(self, submissions)

    monkeypatch.setattr(Writer, "add", counted)
    async with open_sqlite(config.History(path=str(tmp_path / "history.db"))) as history:
        reports = [report(sequence=number) for number in range(1, 51)]
        new = await asyncio.gather(*(history.add([each], START) for each in reports))
        assert all(answer == [True] for answer in new)
        assert history.kept().reports == 50
    assert sum(groups) == 50
    assert len(groups) <= 2
