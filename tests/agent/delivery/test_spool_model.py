"""The spool against a plain list: whatever happens in whatever order, the same reports wait."""

import shutil
import tempfile
from hashlib import shake_128
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent import config
from agent.delivery.spool import Spool
from agent.delivery.spool_file import Entry


class SpoolMachine(RuleBasedStateMachine):
    """Adding, lending, removing, a disk that fills up, restarts and sudden death, mixed at will."""

    @initialize(keeps_on_disk=st.sampled_from([True, True, True, False]))
    def begin(self, keeps_on_disk: bool) -> None:  # noqa: FBT001 - hypothesis gives it by name
        self.folder = Path(tempfile.mkdtemp())
        self.keeps_on_disk = keeps_on_disk
        self.now = 1000.0
        self.lives = 0
        self.made = 0
        self.expected: list[bytes] = []
        self.forgotten = 0
        self.lent: list[Entry] = []
        self.spool = self._new(self.folder / "0" / "spool.db")

    def _new(self, path: Path) -> Spool:
        self.path = path
        self.lent = []
        self.forgotten = 0
        settings = config.StorageConfig(
            directory=str(path.parent) if self.keeps_on_disk else "", spool_max_bytes=1 << 16
        )
        return Spool(settings, wall=lambda: self.now, monotonic=lambda: self.now)

    @rule(sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=3), room=st.sampled_from([1, 1 << 20]))
    def add(self, sizes: list[int], room: int) -> None:
        self.now += 31  # so that a disk that was full is tried again
        if self.spool._file is not None:
            # SQLite takes the pages there are for the least there can be: the disk is full now, or no more.
            self.spool._file._connection.execute(f"PRAGMA max_page_count = {room}")
        bodies = []
        for size in sizes:
            self.made += 1
            bodies.append(self.made.to_bytes(8) + shake_128(b"%d" % self.made).digest(size))
        self.expected += bodies
        self.spool.add(bodies)
        dropped, self.forgotten = self.spool.dropped - self.forgotten, self.spool.dropped
        if self.spool.gap is None:
            # From the front, as many as it says, and no more than the room asks for.
            del self.expected[:dropped]
            kept_bytes = sum(len(body) for body in self.expected)
            assert kept_bytes <= 1 << 16 or len(self.expected) == 1
            assert not dropped or kept_bytes > (1 << 16) - 25_000
        else:
            # Those in memory have a bound of their own, so the front of either part may be gone.
            kept = {entry.body for entry in self.spool.first(10_000, 1 << 30)}
            gone = [body for body in self.expected if body not in kept]
            assert len(gone) == dropped
            self.expected = [body for body in self.expected if body in kept]

    @rule(max_count=st.sampled_from([1, 3, 100]), max_bytes=st.sampled_from([1, 10_000, 1 << 20]))
    def lend(self, max_count: int, max_bytes: int) -> None:
        self.lent = self.spool.first(max_count, max_bytes)
        assert len(self.lent) <= max_count
        assert bool(self.lent) == bool(self.expected)
        assert [entry.body for entry in self.lent] == self.expected[: len(self.lent)]
        assert len(self.lent) <= 1 or sum(len(entry.body) for entry in self.lent) <= max_bytes

    @rule()
    def remove(self) -> None:
        bodies = {entry.body for entry in self.lent}
        still_there = sum(body in bodies for body in self.expected)
        assert self.spool.remove(self.lent) == still_there
        self.expected = [body for body in self.expected if body not in bodies]
        self.lent = []

    @rule(dies=st.booleans())
    def start_again(self, dies: bool) -> None:  # noqa: FBT001 - hypothesis gives it by name
        if not self.keeps_on_disk:
            return
        if dies:
            # What another process would find on disk at this moment.
            self.lives += 1
            place = self.folder / str(self.lives)
            shutil.copytree(self.path.parent, place)
        else:
            place = self.path.parent
            self.spool.close()
        lost = {entry.body for entry in self.spool._memory}
        self.expected = [body for body in self.expected if body not in lost]
        self._end()
        self.spool = self._new(place / "spool.db")

    def _end(self) -> None:
        self.spool._memory.clear()
        self.spool.close()

    @invariant()
    def the_same_reports_wait_in_the_same_order(self) -> None:
        if hasattr(self, "spool"):
            assert [entry.body for entry in self.spool.first(10_000, 1 << 30)] == self.expected
            assert len(self.spool) == len(self.expected)

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self._end()
            shutil.rmtree(self.folder)


TestSpool = pytest.mark.slow(SpoolMachine.TestCase)
TestSpool.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
