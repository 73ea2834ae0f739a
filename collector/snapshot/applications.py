"""Applications: services that talk to each other, and the maximum round-trip time between their nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from collector.common.arrays import Floats, Rows

Link = tuple[int, int]
_NONE = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class Applications:
    """Applications, and the services that belong to each. A task's application is that of its service."""

    names: tuple[str, ...]
    delay_max: Floats
    """Maximum round-trip time between two nodes that it uses, in seconds; infinite without a bound."""
    of_service: Rows
    """Per service: its application; `NOWHERE` without one. May end before `Services` does: services that were
    added to a snapshot since have none."""
    links: Mapping[int, frozenset[Link]] = field(default_factory=dict)
    """By application: the pairs of services that talk. If an application is absent, all its services do."""

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    def application_of(self, service: int) -> int:
        """Return the application of a service; `NOWHERE` without one."""
        return int(self.of_service[service]) if 0 <= service < len(self.of_service) else _NONE

    def services_of(self, application: int) -> Rows:
        """Return the services of an application."""
        return np.flatnonzero(self.of_service == application)

    def peers_of(self, service: int) -> Rows:
        """Return the services that a service talks to, itself included if its instances talk.

        Without links, these are all services of its application.
        """
        application = self.application_of(service)
        if application == _NONE:
            return np.empty(0, dtype=np.intp)
        if application not in self.links:
            return self.services_of(application)
        return np.array(sorted(self._linked.get(service, ())), dtype=np.intp)

    @cached_property
    def _linked(self) -> Mapping[int, set[int]]:
        """Per service with links: the services that it talks to."""
        linked: dict[int, set[int]] = {}
        for links in self.links.values():
            for one, other in links:
                linked.setdefault(one, set()).add(other)
                linked.setdefault(other, set()).add(one)
        return linked

    def with_service(self, service: int, application: str, delay_max: float | None) -> "Applications":
        """Return the same, with a service that belongs to an application; both may be new.

        Of two bounds of one application, the smaller one counts.
        """
        bound = np.inf if delay_max is None else delay_max
        row = self.index.get(application, len(self.names))
        is_new = row == len(self.names)
        if not is_new and self.application_of(service) == row and bound >= self.delay_max[row]:
            return self
        of_service = np.full(max(len(self.of_service), service + 1), _NONE, dtype=np.intp)
        of_service[: len(self.of_service)] = self.of_service
        of_service[service] = row
        bounds = np.append(self.delay_max, np.inf) if is_new else self.delay_max.copy()
        bounds[row] = min(bounds[row], bound)
        return Applications(
            names=(*self.names, application) if is_new else self.names,
            delay_max=bounds,
            of_service=of_service,
            links=self.links,
        )


NO_APPLICATIONS = Applications(names=(), delay_max=np.empty(0), of_service=np.empty(0, dtype=np.intp))
