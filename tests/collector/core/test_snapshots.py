import threading
from typing import cast

from collector.core.snapshots import SnapshotCache
from collector.live.live_tables import LiveTables
from collector.snapshot.tables import Snapshot
from tests.collector.snapshot.builders import assemble


class SlowBoard:
    """Takes a picture when it is let, and not before."""

    def __init__(self) -> None:
        self.may_look = threading.Event()
        self.may_look.set()
        self.looks = 0

    def snapshot(self, now: float) -> Snapshot:
        assert self.may_look.wait(10.0)
        self.looks += 1
        return assemble((), at=now)


async def seen_at(sight: SnapshotCache, board: SlowBoard, now: float) -> float:
    found = await sight.snapshot(cast("LiveTables", board), now, fresh_seconds=1.0, oldest_seconds=5.0)
    return found.at


async def test_a_fresh_snapshot_is_not_built_again() -> None:
    sight, board = SnapshotCache(), SlowBoard()
    assert [await seen_at(sight, board, now) for now in (0.0, 0.5, 0.9)] == [0.0] * 3
    assert board.looks == 1


async def test_the_last_snapshot_is_used_while_the_next_one_is_built() -> None:
    sight, board = SnapshotCache(), SlowBoard()
    assert await seen_at(sight, board, 0.0) == 0.0
    board.may_look.clear()
    assert [await seen_at(sight, board, now) for now in (2.0, 3.0, 4.0)] == [0.0] * 3
    board.may_look.set()
    # The one that was begun at 2 is too old by now as well.
    assert await seen_at(sight, board, 8.0) == 8.0
    assert board.looks == 3


async def test_a_snapshot_from_the_future_is_not_used() -> None:
    sight, board = SnapshotCache(), SlowBoard()
    assert await seen_at(sight, board, 100.0) == 100.0
    assert await seen_at(sight, board, 50.0) == 50.0


async def test_the_last_question_warms_up_every_new_snapshot() -> None:
    sight, board = SnapshotCache(), SlowBoard()
    tried: list[float] = []
    sight.warm_up = lambda snapshot: tried.append(snapshot.at)
    for now in (0.0, 0.5, 10.0):
        await seen_at(sight, board, now)
    assert tried == [0.0, 10.0]
