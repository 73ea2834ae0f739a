import threading
from typing import cast

from collector.observe.live_tables import LiveTables
from collector.runtime.parts import SnapshotCache
from collector.snapshot.tables import Snapshot
from tests.collector.snapshot.builders import assemble


class SlowTables:
    """Builds a snapshot once `may_build` is set, and not before."""

    def __init__(self) -> None:
        self.may_build = threading.Event()
        self.may_build.set()
        self.built = 0

    def snapshot(self, now: float) -> Snapshot:
        assert self.may_build.wait(10.0)
        self.built += 1
        return assemble((), at=now)


async def seen_at(cache: SnapshotCache, tables: SlowTables, now: float) -> float:
    found = await cache.snapshot(cast("LiveTables", tables), now, fresh_seconds=1.0, oldest_seconds=5.0)
    return found.at


async def test_a_fresh_snapshot_is_not_built_again() -> None:
    cache, tables = SnapshotCache(), SlowTables()
    assert [await seen_at(cache, tables, now) for now in (0.0, 0.5, 0.9)] == [0.0] * 3
    assert tables.built == 1


async def test_the_last_snapshot_is_used_while_the_next_one_is_built() -> None:
    cache, tables = SnapshotCache(), SlowTables()
    assert await seen_at(cache, tables, 0.0) == 0.0
    tables.may_build.clear()
    assert [await seen_at(cache, tables, now) for now in (2.0, 3.0, 4.0)] == [0.0] * 3
    tables.may_build.set()
    # The one that was begun at 2 is too old by now as well.
    assert await seen_at(cache, tables, 8.0) == 8.0
    assert tables.built == 3


async def test_a_snapshot_from_the_future_is_not_used() -> None:
    cache, tables = SnapshotCache(), SlowTables()
    assert await seen_at(cache, tables, 100.0) == 100.0
    assert await seen_at(cache, tables, 50.0) == 50.0


async def test_the_last_question_warms_up_every_new_snapshot() -> None:
    cache, tables = SnapshotCache(), SlowTables()
    tried: list[float] = []
    cache.warm_up = lambda snapshot: tried.append(snapshot.at)
    for now in (0.0, 0.5, 10.0):
        await seen_at(cache, tables, now)
    assert tried == [0.0, 10.0]
