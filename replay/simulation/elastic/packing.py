"""The hosts of the replicas, which are packed by their limits onto the nearest hosts, and their power."""

from collections.abc import Sequence

import numpy as np

from collector.common.arrays import Floats, Rows
from replay.setup.hosts import Hosts
from replay.simulation.elastic.replicas import Replica
from wire.errors import UserError
from wire.resources import RESOURCES

_ROUNDING = 1e-9


class Packing:
    """Hosts in the order of their distance to the first one. Hosts without replicas are off."""

    def __init__(self, hosts: Hosts) -> None:
        trips = hosts.round_trip_seconds
        self._trips: Floats = np.zeros(hosts.size) if trips is None else trips[0]
        self._order: Rows = np.argsort(self._trips, kind="stable")
        self._hosts = hosts
        self._cores: Floats = hosts.capacity[:, 0] - hosts.system[:, 0]
        full = np.zeros((hosts.size, len(RESOURCES)))
        full[:, 0] = 1.0
        cores = float(hosts.capacity[:, 0].sum())
        idle = float(hosts.power.idle_watts.sum())
        self.reserved_core_watts = idle / cores
        self.used_core_watts = (float(hosts.power.watts(full, self._all).sum()) - idle) / cores

    @property
    def _all(self) -> Rows:
        return np.arange(self._hosts.size, dtype=np.intp)

    def _hosts_of(self, replicas: Sequence[Replica]) -> Rows:
        """The host of each replica: the first with room."""
        free = self._cores.copy()
        found = []
        for replica in replicas:
            fits = self._order[free[self._order] >= replica.limit_cores - _ROUNDING]
            if not fits.size:
                raise UserError(
                    f"{len(replicas)} replicas of {replica.limit_cores:g} cores do not fit on the hosts: "
                    "add hosts, or lower replicas_max or cpu_max_cores"
                )
            free[fits[0]] -= replica.limit_cores
            found.append(int(fits[0]))
        return np.array(found, dtype=np.intp)

    def delay_seconds(self, replicas: Sequence[Replica]) -> float:
        """Mean round-trip time from the first host to the hosts of the replicas."""
        return float(self._trips[self._hosts_of(replicas)].mean())

    def watts(self, replicas: Sequence[Replica], used_cores: float) -> float:
        """Power of the hosts in use, if the replicas use these cores in equal parts."""
        hosts = self._hosts_of(replicas)
        used = np.bincount(hosts, minlength=self._hosts.size) * used_cores / len(replicas)
        rows = np.unique(hosts)
        ratios = np.zeros((rows.size, len(RESOURCES)))
        ratios[:, 0] = np.minimum(
            1.0, (used + self._hosts.system[:, 0])[rows] / self._hosts.capacity[rows, 0]
        )
        return float(self._hosts.power.watts(ratios, rows).sum())
