"""A node that floods the history, and a disk that runs out of space."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from collector import config
from collector.common.errors import HistoryUnavailable
from collector.history.interface import GroupBy
from collector.history.sqlite.history import History, open_sqlite
from collector.history.sqlite.space import Cell, SpaceAccounts
from tests.collector.builders import START, altered, collecting, container, report, settings
from wire.messages import Report, encode

BOUND = 16 << 20
HOUR = 3600.0
HONEST = [f"honest-{number}" for number in range(4)]


def honest_reports(number: int) -> list[Report]:
    containers = [container("a", cpu_seconds_total=number), container("b")]
    return [report(node, sequence=number, at=START + 30.0 * number, containers=containers) for node in HONEST]


async def stored_by_node(history: History) -> dict[str, int]:
    path = history._path
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT n.name, count(*) FROM reports r JOIN boots b ON b.id = r.boot_id"
            " JOIN nodes n ON n.id = b.node_id GROUP BY n.name"
        )
        return dict(rows)


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "new_names"), [(10, True), (60, False)])
async def test_a_flood_by_one_node_evicts_no_other_nodes_history(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    reports: int,
    new_names: bool,  # noqa: FBT001 - the kind of flood
) -> None:
    caplog.set_level(logging.WARNING)
    bounded = config.HistoryConfig(path=str(tmp_path / "history.db"), max_size_bytes=BOUND)
    sequence = 0
    async with open_sqlite(bounded) as history:
        for number in range(1, 121):
            at = START + 30.0 * number
            await history.add(honest_reports(number), at)
            if number % 10 == 0:
                flood = []
                for _ in range(reports):
                    sequence += 1
                    fresh = [container(f"f{sequence * new_names}-{place}") for place in range(150)]
                    flood.append(report("flooder", sequence=sequence, at=at, containers=fresh))
                await history.add(flood, at)
            if number % 60 == 0:
                await history.apply_retention(at)
        stored = await stored_by_node(history)
        assert history.stats().size_bytes <= BOUND
        assert history.stats().dropped_for_size > 0
        assert {node: stored[node] for node in HONEST} == dict.fromkeys(HONEST, 120)
        assert stored["flooder"] > 0
        accounts = await history.energy(START, START + 3 * HOUR, GroupBy.NODE)
        assert {*HONEST} <= {account.key for account in accounts}
    # Nothing goes silently, and the log names the node.
    assert "of flooder" in caplog.text
    assert "of honest" not in caplog.text


async def test_what_a_node_takes_is_counted_again_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    async with open_sqlite(config.HistoryConfig(path=path)) as history:
        for number in range(1, 20):
            await history.add(honest_reports(number), START + 30.0 * number)
        await history.add([report("big", containers=[container(f"c{n}") for n in range(200)])], START)
    with closing(sqlite3.connect(path)) as connection:
        first = SpaceAccounts(connection).first_to_go(10)
        (big,) = connection.execute("SELECT id FROM nodes WHERE name = 'big'").fetchone()
    assert [each.node_id for each in first] == [big]


def test_of_cells_with_as_much_data_the_oldest_goes_first() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            "CREATE TABLE boots (id, node_id); INSERT INTO boots VALUES (1, 1), (2, 2);"
            "CREATE TABLE reports (id, boot_id, received_at, size);"
            "INSERT INTO reports VALUES (1, 1, 3600, 1000), (2, 2, 7200, 1100), (3, 2, 10800, 900);"
        )
        accounts = SpaceAccounts(connection)
        order = []
        while found := accounts.first_to_go(1):
            (each,) = found
            accounts.add(each.node_id, each.received_at, -each.size)
            order.append(Cell(each.node_id, int(each.received_at // HOUR)))
    assert order == [Cell(1, 1), Cell(2, 2), Cell(2, 3)]


async def test_below_the_free_space_floor_it_is_read_only_and_says_so(tmp_path: Path) -> None:
    config_ = settings(tmp_path / "history.db")
    async with collecting(config_) as collector:
        await collector.send(report())
    low = msgspec.structs.replace(config_, history=altered(config_.history, min_free_bytes=1 << 50))
    async with collecting(low) as collector:
        status, answer = await collector.post(encode([report(sequence=2)]))
        assert status == 503
        assert "read-only, because only" in answer["detail"]
        status, answer = await collector.ask("/readyz")
        assert status == 503
        assert "MiB that it leaves to others" in answer["detail"]
        # What is stored is still shown, with the problem.
        assert [node["name"] for node in await collector.nodes()] == ["alpha"]
        assert "read-only" in (await collector.ask("/v1/cluster"))[1]["problems"][0]
        async with collector.http.get(collector.url + "/metrics") as metrics:
            assert 'wattpack_collector_dependency_down{dependency="history"} 1.0' in await metrics.text()
    async with open_sqlite(low.history) as history:
        with pytest.raises(HistoryUnavailable, match="free some space"):
            await history.check()
