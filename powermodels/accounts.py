"""Energy accounts: watts over time become joules, as counters that never go back."""

from collections.abc import Collection

from powermodels.interface import Estimate


class EnergyAccounts:
    """Joules of a node and of its containers, since the first `add`."""

    def __init__(self) -> None:
        self.node_joules = 0.0
        self._container_joules: dict[str, float] = {}

    def add(self, estimate: Estimate, interval_seconds: float) -> None:
        """Count an interval; one of no length, or of a clock that went back, counts for nothing."""
        if interval_seconds <= 0:
            return
        self.node_joules += estimate.watts * interval_seconds
        for name, share in estimate.containers.items():
            self._container_joules[name] = self.container_joules(name) + share.watts * interval_seconds

    def container_joules(self, name: str) -> float:
        """What a container has drawn; 0 for one never seen."""
        return self._container_joules.get(name, 0.0)

    def keep(self, names: Collection[str]) -> None:
        """Forget all containers but these, so that no more is held than runs."""
        self._container_joules = {
            name: joules for name, joules in self._container_joules.items() if name in names
        }

    def __len__(self) -> int:
        return len(self._container_joules)
