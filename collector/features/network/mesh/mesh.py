"""The mesh of one collector: members, results, the plan of peers, and the delays of snapshots.

All methods except `delays` must run in the event loop. The secret exists in memory only: after a restart of
the collector, agents get new keys, and send the results of their last five minutes again.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from collector.config import CollectorConfig
from collector.features.network.mesh.delays import Delays
from collector.features.network.mesh.estimates import Estimates
from collector.features.network.mesh.measurements import Measurements
from collector.features.network.mesh.members import Member, Members
from collector.features.network.mesh.planning import MeshInputs, MeshPlan, make_plan
from collector.features.network.settings import MeshConfig
from collector.live.parts import LivePart
from collector.snapshot.tables import Snapshot
from wire.mesh import KEY_BYTES, MeshAssignment, PeerResult

_REFIT_SECONDS = 60.0
_PAUSE_FACTOR, _LONGEST_PAUSE_SECONDS = 50.0, 30.0
"""Planning takes at most a few percent of the time; new nodes of a large cluster wait up to half a minute."""
_NO_PEERS = MeshAssignment(version=1, peers=())


class Mesh(LivePart):
    """Members, results and the current plan."""

    def __init__(self, config: CollectorConfig, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(config)
        self._settings = config.section(MeshConfig)
        self._monotonic = monotonic
        self._secret = secrets.token_bytes(KEY_BYTES)
        self._members = Members()
        self._measurements = Measurements()
        self._plan = MeshPlan()
        self._planned: tuple[int, int, int] | None = None
        self._fitted_at = float("-inf")
        self._due_at = float("-inf")
        self._changed = asyncio.Event()
        self._is_closed = False
        self._last: tuple[Estimates, Sequence[str], Delays] | None = None

    @property
    def is_enabled(self) -> bool:
        return self._settings.enabled

    @property
    def estimates(self) -> Estimates:
        """The round-trip times now."""
        return self._plan.estimates

    @property
    def members(self) -> Mapping[str, Member]:
        """The members of the plan, by name."""
        return {member.node: member for member in self._plan.members}

    def peers_of(self, node: str) -> frozenset[str]:
        """The peers of a node."""
        return frozenset(peer.node for peer in self.assignment(node).peers or ())

    def put(self, member: Member, results: Iterable[PeerResult], now: float) -> bool:
        """Store a node and its results; returns False, without effect, if the node changes too often."""
        if not self._members.put(member, now):
            return False
        self._measurements.put(member.node, results, now)
        return True

    def keep(self, member: Member, now: float) -> None:
        """Record that a member is still there, unless its agent has restarted."""
        self._members.keep(member, now)

    def put_results(self, node: str, results: Iterable[PeerResult], now: float) -> None:
        """Store results that were read from a time series store, unless the node sends them itself."""
        if node not in self._members:
            self._measurements.put(node, results, now)

    def assignment(self, node: str) -> MeshAssignment:
        """The peers of a node now."""
        return self._plan.assignments.get(node, _NO_PEERS)

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
        self._members.drop_inactive(now)
        self._measurements.drop_old(now)
        epoch = int(now / (3600 * self._settings.key_hours))
        inputs_version = (self._members.version, self._measurements.version, epoch)
        began = self._monotonic()
        if inputs_version == self._planned or began < self._due_at:
            return
        refit = began - self._fitted_at >= _REFIT_SECONDS
        inputs = MeshInputs(self._members.list(), epoch, self._measurements.copy(), refit)
        last = self._plan
        self._plan, cpu_seconds = await asyncio.to_thread(self._make_plan, inputs, last)
        self._planned = inputs_version
        self._due_at = self._monotonic() + min(_PAUSE_FACTOR * cpu_seconds, _LONGEST_PAUSE_SECONDS)
        if self._plan.estimates.coordinates is not last.estimates.coordinates:
            self._fitted_at = began
        if self._plan.assignments is not last.assignments:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _make_plan(self, inputs: MeshInputs, last: MeshPlan) -> tuple[MeshPlan, float]:
        """Return a plan and the CPU time of planning."""
        began = time.thread_time()
        plan = make_plan(inputs, last, self._secret, self._settings.max_bytes_per_second)
        return plan, time.thread_time() - began

    def snapshot_part(self, snapshot: Snapshot) -> Delays | None:
        """The round-trip times between the nodes of a snapshot."""
        return self.delays(snapshot.nodes.names)

    def delays(self, names: Sequence[str]) -> Delays | None:
        """The round-trip times between nodes, for a snapshot; None if the mesh is off. Thread-safe."""
        if not self.is_enabled:
            return None
        estimates, last = self._plan.estimates, self._last
        if last is not None and last[0] is estimates and last[1] == names:
            return last[2]
        delays = estimates.delays(names)
        self._last = (estimates, names, delays)
        return delays
