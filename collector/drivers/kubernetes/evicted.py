"""What was evicted of late, and from where. No I/O.

A pod that is evicted from a full node comes straight back to it unless someone refuses the node: the
scheduler knows reservations only. The scheduler extender asks here.
"""

from collections.abc import Callable


class RecentlyEvicted:
    """Workloads and the nodes that they are kept from for a while."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._until: dict[tuple[str, str], float] = {}

    def note(self, workload: str, node: str) -> None:
        """A pod of a workload (`namespace/name`) was just evicted from a node."""
        now = self._clock()
        self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[workload, node] = now + self._seconds

    def nodes(self, workload: str) -> frozenset[str]:
        """The nodes that a workload should not be given for now."""
        now = self._clock()
        return frozenset(
            node for (name, node), until in self._until.items() if name == workload and until > now
        )
