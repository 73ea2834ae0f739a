import asyncio
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import config
from collector.config import CollectorConfig
from collector.history.interface import SubjectKind, UsageKey
from collector.history.sqlite import history as sqlite
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.history import open_sqlite
from collector.history.sqlite.means import read_means
from collector.history.sqlite.reader import read_events, read_state, read_usage
from collector.history.sqlite.retention import RetentionJob
from collector.history.sqlite.writer import SqliteWriter, Submission
from collector.observe.registry import Registry
from collector.serve.api.alerts import ClusterAlert
from collector.serve.api.containers import Container
from collector.serve.api.nodes import Node
from tests.collector.builders import HEARTBEAT, START, apply_report, container, partial_report, report
from tests.collector.listed import list_alerts, list_containers, list_nodes
from tests.collector.report_strategies import clusters, deliveries, patient
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerUsage,
    Event,
    EventKind,
    NodePower,
    PowerScope,
    PowerSource,
    Report,
)
from wire.resources import Resource
from wire.sketch import Sketch

HOUR = 3600.0


STORED = """
SELECT n.name, b.name, r.sequence, r.at, r.heartbeat, s.watts, f.body,
       c.runtime_id, cf.body, cs.cpu_seconds_total, cs.watts, e.body
FROM reports r JOIN boots b ON b.id = r.boot_id JOIN nodes n ON n.id = b.node_id
LEFT JOIN node_samples s ON s.report_id = r.id LEFT JOIN facts f ON f.id = s.facts_id
LEFT JOIN container_samples cs ON cs.report_id = r.id
LEFT JOIN containers c ON c.id = cs.container_id LEFT JOIN facts cf ON cf.id = cs.facts_id
LEFT JOIN events e ON e.report_id = r.id
ORDER BY 1, 2, 3, 8, 12
"""

Answers = tuple[list[Node], list[Container], list[ClusterAlert]]


def answers(registry: Registry, now: float) -> Answers:
    return list_nodes(registry, now), list_containers(registry, now), list_alerts(registry, now)


def outcome(requests: Iterable[Sequence[Report]]) -> tuple[Answers, Answers, Any]:
    """What is known after some requests; what a restart would know; and what is stored."""
    now = START + 1000
    with closing(open_for_writing(":memory:")) as connection:
        writer, registry = SqliteWriter(connection, HOUR), Registry(CollectorConfig())
        for reports in requests:
            (new,) = writer.add([(reports, now)])
            for each, is_new in zip(reports, new, strict=True):
                if is_new:
                    apply_report(registry, each, now)
        restored = Registry(CollectorConfig())
        stored = read_state(connection)
        for received in stored.reports:
            restored.apply(received.report, received.received_at)
        restored.restore(stored.alerts)
        restored.usage.restore(restored.names(), read_usage(connection, restored.names()))
        window_ends = registry.window_ends(now)
        kinds = (SubjectKind.NODE, SubjectKind.CONTAINER)
        means = [read_means(connection, kind, 600.0, window_ends) for kind in kinds]
        # Their place tells the order in which they came, which may well be another.
        events = sorted(repr((each.node, each.event)) for each in read_events(connection, 1000))
        rows = connection.execute(STORED).fetchall(), means, events
    return answers(registry, now), answers(restored, now), rows


@patient
@given(st.data())
def test_order_and_repetition_of_reports_change_nothing(data: st.DataObject) -> None:
    spoken = data.draw(clusters())
    known, _, stored = outcome([[each] for each in spoken])
    known_as_delivered, _, stored_as_delivered = outcome(data.draw(deliveries(spoken)))
    assert known_as_delivered == known
    assert stored_as_delivered == stored


@patient
@given(st.data())
def test_a_restart_restores_the_registry_exactly(data: st.DataObject) -> None:
    known, restored, _ = outcome(data.draw(deliveries(data.draw(clusters()))))
    assert restored == known


async def test_a_restart_restores_the_scope_of_meters_and_the_weights_of_services(tmp_path: Path) -> None:
    node = NodePower(50.0, 30.0, 5.0, PowerSource.RAPL, 0.2, 9.0, source_scope=PowerScope.CPU)
    share = ContainerPower(9.0, PowerSource.RAPL, 0.2, 3.0, power_weight=1.8)
    sent = report(containers=[container(power=share)], power=node)
    files = config.HistoryConfig(path=str(tmp_path / "history.db"))
    async with open_sqlite(files) as history:
        await history.add([sent], START)
    async with open_sqlite(files) as history:
        (restored,) = (await history.load_state()).reports
    assert restored.report.state is not None
    assert restored.report.state.power == node
    assert restored.report.containers[0].power == share


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_for_writing(str(tmp_path / "history.db"))) as connection:
        yield connection


def opened(connection: sqlite3.Connection) -> tuple[SqliteWriter, RetentionJob]:
    writer = SqliteWriter(connection, retention_seconds=HOUR)
    kept = config.HistoryConfig(path=":memory:", retention_hours=1, detail_days=2 / 24, hourly_days=4 / 24)
    return writer, RetentionJob(connection, writer, kept)


def count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - ours


def test_retention_deletes_older_samples_only(connection: sqlite3.Connection) -> None:
    writer, forgetter = opened(connection)
    for minute in range(120):
        at = START + 60 * minute
        writer.add([([report(sequence=minute + 1, at=at, containers=[container()])], at)])
    now = START + 2 * HOUR
    assert forgetter.expire_reports(now, limit=50) == 50
    assert forgetter.expire_reports(now, limit=50) == 10
    assert forgetter.expire_reports(now, limit=50) == 0
    for table in ("reports", "node_samples", "container_samples"):
        assert count(connection, table) == 60
    assert connection.execute("SELECT min(received_at) FROM reports").fetchone() == (START + HOUR,)


@pytest.mark.slow
def test_containers_that_come_and_go_do_not_make_the_file_grow_for_ever(
    connection: sqlite3.Connection,
) -> None:
    writer, forgetter = opened(connection)
    sizes = []
    for minute in range(360):
        at = START + 60 * minute
        short_lived = [container(f"job-{minute}-{number}") for number in range(5)]
        always = container("always")
        writer.add([([report(sequence=minute + 1, at=at, containers=[always, *short_lived])], at)])
        if minute % 5 == 0:
            while forgetter.expire_reports(at, limit=200):
                pass
            forgetter.expire_rest(at)
            sizes.append(connection.execute("PRAGMA page_count").fetchone()[0])
    # Five each minute, kept for the retention and the tenth of it in which names are refreshed.
    assert count(connection, "containers") <= 5 * (66 + 5) + 1
    assert count(connection, "facts") <= 5 * (66 + 5) + 2
    assert max(sizes[36:]) <= 1.1 * max(sizes[:36])
    (last,) = read_state(connection).reports
    assert {each.name for each in last.report.containers} >= {"always", "job-359-0"}


def test_space_is_given_back_when_most_of_the_file_is_empty(connection: sqlite3.Connection) -> None:
    writer, forgetter = opened(connection)
    many = [container(f"c{number}") for number in range(50)]
    writer.add([([report(sequence=n, containers=many) for n in range(1, 151)], START)])
    before = connection.execute("PRAGMA page_count").fetchone()[0]
    forgetter.expire_reports(START + 2 * HOUR, limit=1000)
    forgetter.expire_rest(START + 2 * HOUR)
    assert connection.execute("PRAGMA page_count").fetchone()[0] < 0.6 * before


def test_a_dropped_name_that_reports_again_is_stored_again(connection: sqlite3.Connection) -> None:
    writer, forgetter = opened(connection)
    writer.add([([report(containers=[container()])], START)])
    later = START + 3 * HOUR
    forgetter.expire_reports(later, limit=10)
    forgetter.expire_rest(later)
    assert [count(connection, table) for table in ("nodes", "boots", "containers", "facts")] == [0, 0, 0, 0]
    again = report(sequence=2, at=later, containers=[container()])
    writer.add([([again], later)])
    (last,) = read_state(connection).reports
    assert last.report == again


def test_a_report_that_cannot_be_stored_does_not_hold_up_the_others(connection: sqlite3.Connection) -> None:
    writer, _ = opened(connection)
    good = report("alpha", containers=[container("one")])
    broken = report("beta", containers=[container("same"), container("same")])
    later = report("gamma", containers=[container("one")])
    answers = writer.add([([good, broken], START), ([broken], START), ([later], START)])
    assert answers == [[True, None], [None], [True]]
    assert [count(connection, table) for table in ("nodes", "reports")] == [2, 2]
    assert writer.add([([good], START)]) == [[False]]
    assert [each.report for each in read_state(connection).reports] == [good, later]


def test_a_full_disk_refuses_all_reports_alike(connection: sqlite3.Connection) -> None:
    writer, _ = opened(connection)
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    many = report(containers=[container(str(number), image="i" * 1000) for number in range(100)])
    with pytest.raises(sqlite3.OperationalError):
        writer.add([([many], START)])
    assert count(connection, "reports") == 0


def test_a_report_that_comes_again_after_its_retention_is_a_duplicate(connection: sqlite3.Connection) -> None:
    writer, forgetter = opened(connection)
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(ContainerUsage("id-of-web", cpu=Sketch({3: 5})),))
    old = partial_report(sequence=1, containers=(container(),), heartbeat=heartbeat)
    writer.add([([old], START)])
    later = START + 1.5 * HOUR
    writer.add([([partial_report(sequence=2)], later)])
    assert forgetter.expire_reports(later, limit=10) == 1
    forgetter.expire_rest(later)
    assert writer.add([([old], later)]) == [[False]]
    writer, _ = opened(connection)
    assert writer.add([([old, partial_report(sequence=3)], later)]) == [[False, True]]
    assert count(connection, "pending_usage") == 1


def alert(number: int, *, closed: bool) -> Alert:
    opened_at = START + number
    return Alert(Resource.CPU, opened_at, "busy", closed_at=opened_at + 1 if closed else None)


def test_closed_alerts_go_with_the_retention_and_open_ones_with_their_run(
    connection: sqlite3.Connection,
) -> None:
    writer, forgetter = opened(connection)
    three = (alert(1, closed=True), alert(2, closed=False), alert(3, closed=False))
    writer.add([([partial_report(alerts=three)], START)])
    later = START + 2 * HOUR
    writer.add([([partial_report(sequence=2)], later)])
    forgetter.expire_rest(later)
    # The one that opened last may still be open; the one before it ended, although that was not reported.
    assert [each.alert for each in read_state(connection).alerts] == [alert(3, closed=False)]
    forgetter.expire_rest(later + 2 * HOUR)
    assert count(connection, "alerts") == 0


def test_usage_outlives_the_samples_and_goes_after_a_day(connection: sqlite3.Connection) -> None:
    writer, forgetter = opened(connection)
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=(ContainerUsage("id-of-web", cpu=Sketch(zeros=3)),))
    writer.add([([partial_report(heartbeat=heartbeat, containers=(container(),))], START)])
    hours_there = []
    for hour in range(1, 30):
        now = START + hour * HOUR
        writer.add([([partial_report(sequence=hour + 1, containers=(container(),))], now)])
        while forgetter.expire_reports(now, limit=200):
            pass
        forgetter.expire_rest(now)
        if read_usage(connection, ["alpha"]).pending:
            hours_there.append(hour)
    assert 16 <= len(hours_there) == max(hours_there) <= 24


def test_compacted_usage_replaces_heartbeats_and_restores_the_same(
    connection: sqlite3.Connection,
) -> None:
    writer, registry = SqliteWriter(connection, HOUR), Registry(CollectorConfig())
    left = []
    for sequence in range(1, 7):
        usage = (ContainerUsage("id-of-web", cpu=Sketch({sequence: 2}, zeros=1)),)
        heartbeat = msgspec.structs.replace(HEARTBEAT, usage=usage)
        each = partial_report(sequence=sequence, heartbeat=heartbeat, containers=(container(),))
        writer.add([([each], START)])
        apply_report(registry, each, START)
        writer.store_usage(*registry.usage.compact(10))
        stored = read_state(connection)
        usages = read_usage(connection, ["alpha"])
        left.append(len(usages.pending))
        restored = Registry(CollectorConfig())
        for received in stored.reports:
            restored.apply(received.report, received.received_at)
        restored.usage.restore(["alpha"], usages)
        assert list_containers(restored, START) == list_containers(registry, START)
        assert list_containers(restored, START)[0].samples == 3 * sequence
    assert left == [1, 0, 1, 0, 1, 0]


def test_a_partly_added_heartbeat_is_not_compacted() -> None:
    registry = Registry(CollectorConfig())
    usage = (ContainerUsage("id-of-web", cpu=Sketch(zeros=1)),)
    each = partial_report(
        heartbeat=msgspec.structs.replace(HEARTBEAT, usage=usage), containers=(container(),)
    )
    for sequence in range(1, 9):
        apply_report(registry, msgspec.structs.replace(each, sequence=sequence), START)
    counting = registry.usage.add(UsageKey(each.node, each.boot, 9, 0), usage)
    next(counting)
    assert registry.usage.compact(1) == ([], [])
    assert list(counting) == []
    words, _ = registry.usage.compact(1)
    assert [word.sequence for word in words] == list(range(1, 10))


def test_no_node_waits_for_compaction_for_ever_where_others_report_all_the_time() -> None:
    registry = Registry(CollectorConfig())
    usage = (ContainerUsage("id-of-web", cpu=Sketch(zeros=1)),)
    heartbeat = msgspec.structs.replace(HEARTBEAT, usage=usage)
    waiting: Counter[str] = Counter()
    for sequence in range(1, 60):
        for node in ("alpha", "beta", "gamma"):
            each = partial_report(node, sequence=sequence, heartbeat=heartbeat, containers=(container(),))
            apply_report(registry, each, START)
            waiting[node] += 1
        waiting.subtract(key.node for key in registry.usage.compact(1)[0])
        assert max(waiting.values()) <= 4, waiting


def test_events_are_listed_latest_first_and_expire(connection: sqlite3.Connection) -> None:
    writer, forgetter = opened(connection)
    for number, node in enumerate(["alpha", "beta", "alpha"]):
        events = (Event(EventKind.STARTED, START + number, exit_code=137),)
        writer.add([([partial_report(node, sequence=number + 1, events=events)], START)])
    assert [each.event.at - START for each in read_events(connection, 10)] == [2, 1, 0]
    assert [each.event.at - START for each in read_events(connection, 1, "alpha")] == [2]
    assert [each.node for each in read_events(connection, 10, "beta")] == ["beta"]
    forgetter.expire_reports(START + 2 * HOUR, limit=10)
    assert read_events(connection, 10) == []


async def test_waiting_writers_share_the_next_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    add = SqliteWriter.add

    def counted(self: SqliteWriter, submissions: Sequence[Submission]) -> list[list[bool | None]]:
        groups.append(len(submissions))
        return add(self, submissions)

    monkeypatch.setattr(SqliteWriter, "add", counted)
    async with open_sqlite(config.HistoryConfig(path=str(tmp_path / "history.db"))) as history:
        reports = [report(sequence=number) for number in range(1, 51)]
        new = await asyncio.gather(*(history.add([each], START) for each in reports))
        assert all(answer == [True] for answer in new)
        assert history.stats().reports == 50
    assert sum(groups) == 50
    assert len(groups) <= 2


async def test_in_a_busy_time_a_report_waits_for_others_to_share_its_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlite, "COMMIT_SECONDS", 0.5)
    groups: list[int] = []
    add = SqliteWriter.add

    def counted(self: SqliteWriter, submissions: Sequence[Submission]) -> list[list[bool | None]]:
        groups.append(len(submissions))
        return add(self, submissions)

    monkeypatch.setattr(SqliteWriter, "add", counted)
    async with open_sqlite(config.HistoryConfig(path=":memory:")) as history:
        await history.add([report(sequence=1)], START)
        early = asyncio.create_task(history.add([report(sequence=2)], START))
        for _ in range(5):
            await asyncio.sleep(0)
        assert await history.add([report(sequence=3)], START) == await early == [True]
    assert groups == [1, 2]


async def test_stored_values_survive_a_restart_until_they_are_deleted(tmp_path: Path) -> None:
    settings = config.HistoryConfig(path=str(tmp_path / "history.db"))
    async with open_sqlite(settings) as history:
        await history.put_values("service", {"shop": b"web", "mail": b"imap"})
        await history.put_values("alert", {"shop": b"hot"})
    async with open_sqlite(settings) as history:
        assert await history.get_values("service") == {"shop": b"web", "mail": b"imap"}
        await history.put_values("service", {"shop": b"cpu", "mail": None, "never": None})
        assert await history.get_values("service") == {"shop": b"cpu"}
        assert await history.get_values("alert") == {"shop": b"hot"}


def modes_in(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}


async def test_only_its_owner_can_read_a_history(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for _ in range(2):
        async with open_sqlite(config.HistoryConfig(path=str(path))) as history:
            await history.add([report()], START)
            modes = modes_in(tmp_path)
            assert "history.db-wal" in modes
            assert set(modes.values()) == {0o600}, modes
        # As an earlier version left it.
        path.chmod(0o644)


async def test_nothing_is_cached_of_containers_that_ended() -> None:
    with closing(open_for_writing(":memory:")) as connection:
        writer = SqliteWriter(connection, 3600.0)
        for sequence in range(1, 40):
            ended = (f"id-of-web{sequence - 1}",)
            web = container(f"web{sequence}", labels={"number": str(sequence)})
            new = report(sequence=sequence, at=START + sequence, containers=[web])
            writer.add([([msgspec.structs.replace(new, gone=ended)], START)])
        assert len(writer._ids.containers._cached) == 1
        assert len(writer._ids._last_facts) == 1
        assert len(writer._ids.facts._cached) == 2, "those of the node, and of the container that runs"
