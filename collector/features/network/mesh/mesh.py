"""The mesh of one collector: members, results, the plan of peers, and the delays of snapshots.

All methods except `delays` must run in the event loop. The secret exists in memory only: after a restart of
the collector, agents get new keys, and send the results of their last five minutes again.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from collector.config import CollectorConfig
from collector.features.network.mesh.delays import Delays
from collector.features.network.mesh.planning import MeshPlan, Result, make_plan
from collector.features.network.settings import MeshConfig
from collector.observe.parts import LivePart
from collector.snapshot.tables import Snapshot
from wire.mesh import KEY_BYTES, MAX_RESULTS, MAX_WAIT_SECONDS, MeshAssignment, MeshMember, PeerResult

_KEY_SECONDS = 3600.0
"""Time after which all nodes get new keys."""
_VALID_SECONDS = 600.0
"""Results are valid for this time. Agents repeat an unchanged result every four minutes."""
_INACTIVE_SECONDS = 3 * MAX_WAIT_SECONDS
_MAX_CHANGES, _CHANGE_SECONDS = 5.0, 60.0
"""Each change of a session or address causes new keys for all peers of the node. A node may change five times
at once, and then once a minute."""
_MAX_MEMBERS = 10_000
_REFIT_SECONDS = 60.0
_PAUSE_FACTOR, _LONGEST_PAUSE_SECONDS = 50.0, 30.0
"""Planning takes at most a few percent of the time; new nodes of a large cluster wait up to half a minute."""
_NO_PEERS = MeshAssignment(version=1, peers=())


@dataclass(slots=True)
class _Entry:
    member: MeshMember
    seen_at: float
    changes: float
    changed_at: float


class Mesh(LivePart):
    """Members, results and the current plan."""

    def __init__(self, config: CollectorConfig, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(config)
        self.is_enabled = config.section(MeshConfig).enabled
        self.plan = MeshPlan()
        self._monotonic = monotonic
        self._secret = secrets.token_bytes(KEY_BYTES)
        self._members: dict[str, _Entry] = {}
        self._results: dict[str, dict[str, Result]] = {}
        self._version = 0
        """Increases whenever a member or a result is added, removed or changed."""
        self._planned: tuple[int, bytes] | None = None
        self._fitted_at = float("-inf")
        self._due_at = float("-inf")
        self._changed = asyncio.Event()
        self._is_closed = False
        self._last: tuple[MeshPlan, Sequence[str], Delays] | None = None

    def peers_of(self, node: str) -> frozenset[str]:
        """The peers of a node."""
        return frozenset(peer.node for peer in self.assignment(node).peers or ())

    def probes(self, one: str, other: str) -> list[PeerResult]:
        """The last results of two nodes about each other."""
        found = (self._results.get(node, {}).get(peer) for node, peer in ((one, other), (other, one)))
        return [each.probes for each in found if each is not None]

    def put(self, member: MeshMember, results: Iterable[PeerResult], now: float) -> bool:
        """Store a node and its results; returns False, without effect, if the node changes too often."""
        entry = self._members.get(member.node)
        if entry is None or entry.member != member:
            changes = 0.0
            if entry is not None:
                changes = max(0.0, entry.changes - (now - entry.changed_at) / _CHANGE_SECONDS)
            if changes + 1 > _MAX_CHANGES or (entry is None and len(self._members) >= _MAX_MEMBERS):
                return False
            self._members[member.node] = _Entry(member, now, changes + 1, now)
            self._version += 1
        self.keep(member, now)
        self._put_results(member.node, results, now)
        return True

    def keep(self, member: MeshMember, now: float) -> None:
        """Record that a member is still there, unless its agent has restarted."""
        entry = self._members.get(member.node)
        if entry is not None and entry.member == member:
            entry.seen_at = max(entry.seen_at, now)

    def put_read_results(self, node: str, results: Iterable[PeerResult], now: float) -> None:
        """Store results that were read from a time series store, unless the node sends them itself."""
        if node not in self._members:
            self._put_results(node, results, now)

    def _put_results(self, node: str, results: Iterable[PeerResult], now: float) -> None:
        """Replace results of a node; beyond `MAX_RESULTS` the oldest are dropped."""
        new = {each.peer: Result(now, each) for each in results if each.peer != node}
        if new:
            # A new dictionary: a thread may be reading the old one.
            kept = {peer: each for peer, each in self._results.get(node, {}).items() if peer not in new}
            self._results[node] = dict(list((kept | new).items())[-MAX_RESULTS:])
            self._version += 1

    def assignment(self, node: str) -> MeshAssignment:
        """The peers of a node now."""
        return self.plan.assignments.get(node, _NO_PEERS)

    async def changed_assignment(self, node: str, version: int, wait_seconds: float) -> MeshAssignment:
        """Wait until the peers of a node differ from a version, or until the timeout; returns them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                while self.assignment(node).version == version and not self._is_closed:
                    await self._changed.wait()
        return self.assignment(node)

    def close(self) -> None:
        """End all waits."""
        self._is_closed = True
        self._changed.set()

    async def update(self, now: float) -> None:
        """Plan again if something has changed."""
        self._drop_old(now)
        key = hmac.digest(self._secret, str(int(now / _KEY_SECONDS)).encode(), "sha256")
        inputs, began = (self._version, key), self._monotonic()
        if inputs == self._planned or began < self._due_at:
            return
        members, results = (
            tuple(self._members[node].member for node in sorted(self._members)),
            dict(self._results),
        )
        refit, last = began - self._fitted_at >= _REFIT_SECONDS, self.plan

        def plan() -> tuple[MeshPlan, float]:
            cpu_seconds = time.thread_time()
            return make_plan(members, key, results, last, refit=refit), time.thread_time() - cpu_seconds

        self.plan, cpu_seconds = await asyncio.to_thread(plan)
        self._planned = inputs
        self._due_at = self._monotonic() + min(_PAUSE_FACTOR * cpu_seconds, _LONGEST_PAUSE_SECONDS)
        if self.plan.coordinates is not last.coordinates:
            self._fitted_at = began
        if self.plan.assignments is not last.assignments:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _drop_old(self, now: float) -> None:
        """Remove members that have not requested their peers for a while, and results that are too old."""
        inactive = [node for node, each in self._members.items() if now - each.seen_at > _INACTIVE_SECONDS]
        for node in inactive:
            del self._members[node]
        self._version += bool(inactive)
        for node, results in list(self._results.items()):
            valid = {peer: each for peer, each in results.items() if now - each.at <= _VALID_SECONDS}
            if len(valid) != len(results):
                self._results[node] = valid
                self._version += 1
            if not valid:
                del self._results[node]

    def snapshot_part(self, snapshot: Snapshot) -> Delays | None:
        """The round-trip times between the nodes of a snapshot."""
        return self.delays(snapshot.nodes.names)

    def delays(self, names: Sequence[str]) -> Delays | None:
        """The round-trip times between nodes, for a snapshot; None if the mesh is off. Thread-safe."""
        if not self.is_enabled:
            return None
        plan, last = self.plan, self._last
        if last is not None and last[0] is plan and last[1] == names:
            return last[2]
        delays = plan.delays(names)
        self._last = (plan, names, delays)
        return delays
