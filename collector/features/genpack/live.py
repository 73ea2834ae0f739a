"""Keeps the efficiency of nodes, which their generations follow."""

from math import inf, isfinite, nan
from threading import Lock

import numpy as np

from collector.config import CollectorConfig
from collector.features.genpack.snapshot import SettledEfficiency, watts_per_core
from collector.observe.parts import LivePart
from collector.snapshot.tables import Snapshot

_CHANGE = 0.1
"""A smaller relative change of the efficiency of a node is ignored."""


class NodeEfficiency(LivePart):
    """The power per core of each node, as it was when it last changed much."""

    def __init__(self, config: CollectorConfig) -> None:
        super().__init__(config)
        self.watts: dict[str, float] = {}
        """By node; replaced as a whole."""
        self._lock = Lock()

    def snapshot_part(self, snapshot: Snapshot) -> SettledEfficiency | None:
        """The settled efficiency of the nodes of a snapshot; None if that of no node is known."""
        now = dict(zip(snapshot.nodes.names, watts_per_core(snapshot).tolist(), strict=True))
        with self._lock:
            changed = {
                name: watts
                for name, watts in now.items()
                if isfinite(watts) and not abs(watts - (kept := self.watts.get(name, nan))) <= _CHANGE * kept
            }
            if changed:
                self.watts = {**self.watts, **changed}
            if not self.watts:
                return None
            return SettledEfficiency(np.array([self.watts.get(name, inf) for name in now]))

    def remove(self, node: str) -> None:
        with self._lock:
            self.watts = {name: watts for name, watts in self.watts.items() if name != node}


LIVE = (NodeEfficiency,)
