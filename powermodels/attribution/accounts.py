"""Energy counters, which never decrease and continue after a restart of the agent.

They are saved after each sample, so they survive a crash of the agent. After a crash of the
machine the last values may be lost: then all start at zero, which readers of counters handle as a reset. A
counter slightly below its last value would look like a reset too, and count everything twice.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Self
from zlib import crc32

import msgspec

from powermodels.common.interface import Estimate
from wire.messages import Gap

_DROP_AFTER_SECONDS = 86_400.0
_MAX_CONTAINERS = 10_000

_MODE = 0o600
_HEAD = b"wattpack ledger %08x %016x\n"
_HEAD_BYTES = len(_HEAD % (0, 0))


class DurableFile:
    """A small file that survives a crash of the process at any time: the pair of files at `path` and `path~`.

    Both have a checksum and are written alternately: a crash while one is written leaves the other. They are
    written in place without fsync, so that a save after each sample is cheap. A crash of the process loses
    nothing; a crash of the machine may lose the last half minute.
    """

    def __init__(self, path: Path) -> None:
        self._files = (path, path.with_name(f"{path.name}~"))
        self._number = max((number for number, _ in self._pages()), default=0)

    def read(self) -> bytes | None:
        """The last content; None if there is no valid one."""
        return max(self._pages(), default=(0, None))[1]

    def write(self, body: bytes, *, sync: bool = False) -> None:
        """Replace the content; raises OSError. With `sync`, it calls fsync, for a planned stop."""
        self._number += 1
        path = self._files[self._number % 2]
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(self._number, body) + body)
            file.truncate()
            if sync:
                file.flush()
                os.fsync(descriptor)

    def _pages(self) -> Iterator[tuple[int, bytes]]:
        """Number and content of each of the two files that is valid."""
        for path in self._files:
            try:
                data = path.read_bytes()
                number = int(data[:_HEAD_BYTES].split()[-1], 16)
            except (OSError, IndexError, ValueError):
                continue
            body = data[_HEAD_BYTES:]
            if data[:_HEAD_BYTES] == _head(number, body):
                yield number, body


def _head(number: int, body: bytes) -> bytes:
    return _HEAD % (crc32(body, crc32(b"%d" % number)), number)


class _Account(msgspec.Struct, array_like=True):
    """Energy of one container, its share of idle energy, and when it last ran."""

    joules: float
    idle_joules: float
    last_run_at: float


class _Totals(msgspec.Struct):
    """All counters, as they are saved."""

    boot: str
    stopped: bool
    node_joules: float
    idle_joules: float
    system_joules: float
    containers: dict[str, _Account]
    version: int = 1


class EnergyAccounts:
    """Energy counters of a node and its containers; node = idle + system + all containers, ended or not."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._file: DurableFile | None = None
        self._totals = _Totals("", False, 0.0, 0.0, 0.0, {})  # noqa: FBT003 - a record's fields in order
        self.gap: Gap | None = None
        """Why the counters cannot be saved; None if they can, or are not."""

    @classmethod
    def restore(cls, path: Path, boot: str, clock: Callable[[], float] = time.time) -> Self:
        """Load the counters from `path`, or start new ones; `boot` is the boot ID of the kernel."""
        accounts = cls(clock)
        accounts._file = DurableFile(path)
        content = accounts._file.read()
        try:
            saved = msgspec.json.decode(content or b"", type=_Totals)
        except msgspec.MsgspecError:
            saved = None
        if saved is not None and (saved.stopped or saved.boot == boot):
            accounts._totals = saved
        accounts._totals.boot = boot
        return accounts

    @property
    def node_joules(self) -> float:
        return self._totals.node_joules

    def add(self, estimate: Estimate, interval_seconds: float) -> None:
        """Add an interval; ignores one that is not positive."""
        if interval_seconds <= 0:
            return
        self._totals.node_joules += estimate.watts * interval_seconds
        self._totals.idle_joules += estimate.idle_watts * interval_seconds
        self._totals.system_joules += estimate.system_watts * interval_seconds
        now = self._clock()
        for name, share in estimate.containers.items():
            account = self._totals.containers.setdefault(name, _Account(0.0, 0.0, now))
            account.joules += share.watts * interval_seconds
            account.idle_joules += share.idle_watts * interval_seconds

    def container_joules(self, name: str) -> float:
        """Energy of a container without idle power; 0 if unknown."""
        account = self._totals.containers.get(name)
        return 0.0 if account is None else account.joules

    def keep(self, names: Collection[str]) -> None:
        """Mark these as running; drop others after a day, and the oldest beyond the maximum number."""
        containers, now = self._totals.containers, self._clock()
        for name in names:
            if name in containers:
                containers[name].last_run_at = now
        gone = sorted(containers.keys() - names, key=lambda name: containers[name].last_run_at)
        surplus = max(0, len(containers) - _MAX_CONTAINERS)
        for place, name in enumerate(gone):
            if place < surplus or now - containers[name].last_run_at > _DROP_AFTER_SECONDS:
                del containers[name]

    def save(self, *, stopped: bool = False) -> None:
        """Save the counters; `stopped` at a planned stop."""
        if self._file is None:
            return
        self._totals.stopped = stopped
        try:
            self._file.write(msgspec.json.encode(self._totals), sync=stopped)
        except OSError as error:
            self.gap = Gap(
                "energy counters",
                f"they cannot be saved, and start at 0 after the next restart: {error}",
            )
        else:
            self.gap = None
