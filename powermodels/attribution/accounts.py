"""Energy accounts: watts over time become joules, as counters that never go back, over restarts too.

Kept on disk after every sample (`ledger`), they go on where they were when the agent is started anew, however
it ended. When the machine itself went down without a word, the last of them may be missing: then all begin
at zero, which everyone who reads counters understands, while a counter a little below its last value
would look like a reset that drew everything a second time.
"""

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Self

import msgspec

from powermodels.attribution.durable_file import Ledger
from powermodels.common.interface import Estimate
from wire.messages import Gap

_FORGOTTEN_AFTER_SECONDS = 86_400.0
_MOST_CONTAINERS = 10_000


class _Account(msgspec.Struct, array_like=True):
    """What one container has drawn, what policy put on it of idle power, and when it was last seen."""

    joules: float
    idle_joules: float
    seen_at: float


class _Book(msgspec.Struct):
    """All accounts, as they lie on disk."""

    boot: str
    stopped: bool
    node_joules: float
    idle_joules: float
    system_joules: float
    containers: dict[str, _Account]
    version: int = 1


class EnergyAccounts:
    """Joules of a node and of its containers; node = idle + system + all containers that ever were."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._ledger: Ledger | None = None
        self._book = _Book("", False, 0.0, 0.0, 0.0, {})  # noqa: FBT003 - a record's fields in order
        self.gap: Gap | None = None
        """Why the accounts cannot be kept on disk; None while they can, or need not."""

    @classmethod
    def restore(cls, path: Path, boot: str, clock: Callable[[], float] = time.time) -> Self:
        """The accounts kept at `path`, or new ones; `boot` names this run of the machine's kernel."""
        accounts = cls(clock)
        accounts._ledger = Ledger(path)
        kept = accounts._ledger.read()
        try:
            book = msgspec.json.decode(kept or b"", type=_Book)
        except msgspec.MsgspecError:
            book = None
        if book is not None and (book.stopped or book.boot == boot):
            accounts._book = book
        accounts._book.boot = boot
        return accounts

    @property
    def node_joules(self) -> float:
        return self._book.node_joules

    @property
    def idle_joules(self) -> float:
        return self._book.idle_joules

    @property
    def system_joules(self) -> float:
        return self._book.system_joules

    def add(self, estimate: Estimate, interval_seconds: float) -> None:
        """Count an interval; one of no length, or of a clock that went back, counts for nothing."""
        if interval_seconds <= 0:
            return
        self._book.node_joules += estimate.watts * interval_seconds
        self._book.idle_joules += estimate.idle_watts * interval_seconds
        self._book.system_joules += estimate.system_watts * interval_seconds
        now = self._clock()
        for name, share in estimate.containers.items():
            account = self._book.containers.setdefault(name, _Account(0.0, 0.0, now))
            account.joules += share.watts * interval_seconds
            account.idle_joules += share.idle_watts * interval_seconds

    def container_joules(self, name: str) -> float:
        """What a container has drawn, idle power apart; 0 for one never seen."""
        account = self._book.containers.get(name)
        return 0.0 if account is None else account.joules

    def container_idle_joules(self, name: str) -> float:
        """What policy put on a container of the node's idle energy."""
        account = self._book.containers.get(name)
        return 0.0 if account is None else account.idle_joules

    def keep(self, names: Collection[str]) -> None:
        """These run; of the others, forget those that have not for a day, and the oldest of very many."""
        containers, now = self._book.containers, self._clock()
        for name in names:
            if name in containers:
                containers[name].seen_at = now
        gone = sorted(containers.keys() - names, key=lambda name: containers[name].seen_at)
        surplus = max(0, len(containers) - _MOST_CONTAINERS)
        for place, name in enumerate(gone):
            if place < surplus or now - containers[name].seen_at > _FORGOTTEN_AFTER_SECONDS:
                del containers[name]

    def save(self, *, stopped: bool = False) -> None:
        """Keep the accounts on disk where they were restored from; `stopped` at a planned end."""
        if self._ledger is None:
            return
        self._book.stopped = stopped
        try:
            self._ledger.write(msgspec.json.encode(self._book), lasting=stopped)
        except OSError as error:
            self.gap = Gap("energy accounts", f"they cannot be kept over a restart: {error}")
        else:
            self.gap = None

    def __len__(self) -> int:
        return len(self._book.containers)
