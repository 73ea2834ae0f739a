"""The nodes of the mesh: the address and the session of each agent."""

from dataclasses import dataclass
from typing import NamedTuple

from wire.mesh import MAX_WAIT_SECONDS

_INACTIVE_SECONDS = 3 * MAX_WAIT_SECONDS
_MAX_CHANGES = 5.0
_CHANGE_SECONDS = 60.0
"""Each change of a session or address causes new keys for all peers of the node. A node may change five times
at once, and then once a minute."""
_MAX_MEMBERS = 10_000


class Member(NamedTuple):
    """A node of the mesh."""

    node: str
    session: int
    host: str
    port: int


@dataclass(slots=True)
class _Entry:
    member: Member
    seen_at: float
    changes: float = 1.0
    changed_at: float = 0.0


class Members:
    """The current members, by name."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self.version = 0
        """Increases whenever a member is added, removed or changed."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, node: str) -> bool:
        return node in self._entries

    def put(self, member: Member, now: float) -> bool:
        """Add or update a member; returns False, without effect, if it changes too often."""
        entry = self._entries.get(member.node)
        if entry is None:
            if len(self._entries) >= _MAX_MEMBERS:
                return False
            self._entries[member.node] = _Entry(member, now, changed_at=now)
            self.version += 1
            return True
        if entry.member != member:
            changes = max(0.0, entry.changes - (now - entry.changed_at) / _CHANGE_SECONDS)
            if changes + 1 > _MAX_CHANGES:
                return False
            entry.member, entry.changes, entry.changed_at = member, changes + 1, now
            self.version += 1
        entry.seen_at = max(entry.seen_at, now)
        return True

    def keep(self, member: Member, now: float) -> None:
        """Record that a member is still there, unless its agent has restarted."""
        entry = self._entries.get(member.node)
        if entry is not None and entry.member == member:
            entry.seen_at = max(entry.seen_at, now)

    def drop_inactive(self, now: float) -> None:
        """Remove members that have not requested their peers for a while."""
        inactive = [node for node, entry in self._entries.items() if now - entry.seen_at > _INACTIVE_SECONDS]
        for node in inactive:
            del self._entries[node]
        self.version += bool(inactive)

    def list(self) -> tuple[Member, ...]:
        """All members, by name."""
        return tuple(self._entries[node].member for node in sorted(self._entries))
