"""Applications: services that talk to each other, and the maximum round-trip time between their nodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np

from collector.common.applications import label_of
from collector.common.arrays import Flags, Floats, Rows
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.tables import NOWHERE, Snapshot

Link = tuple[int, int]
_NO_ROWS: Rows = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, eq=False, kw_only=True)
class Applications(SnapshotPart):
    """Applications, and the services that belong to each. A task's application is that of its service."""

    names: tuple[str, ...]
    delay_max: Floats
    """Maximum round-trip time between two nodes that it uses, in seconds; infinite without a bound."""
    of_service: Rows
    """Per service: its application; `NOWHERE` without one. May end before `Services` does: services that were
    added to a snapshot since have none."""
    links: Mapping[int, frozenset[Link]] = field(default_factory=dict)
    """By application: the pairs of services that talk. If an application is absent, all its services do."""
    is_member: Flags | None = None
    """Per task: whether it is a member of the application of its service; None if all are."""

    rules: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The applications that the settings name: patterns of the services that may belong to each."""

    def name_for(self, name: str, service: str) -> str:
        """Return the name of the application of a service, from the one that its labels give."""
        return rule_of(name, service, self.rules) or name

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    def application_of(self, service: int) -> int:
        """Return the application of a service; `NOWHERE` without one."""
        return int(self.of_service[service]) if 0 <= service < len(self.of_service) else NOWHERE

    def services_of(self, application: int) -> Rows:
        """Return the services of an application."""
        return np.flatnonzero(self.of_service == application)

    def peers_of(self, service: int) -> Rows:
        """Return the services that a service talks to, itself included if its instances talk.

        Without links, these are all services of its application.
        """
        application = self.application_of(service)
        if application == NOWHERE:
            return _NO_ROWS
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

    def tasks_of(self, snapshot: Snapshot, services: Rows) -> Rows:
        """Return the tasks of some services that are members of their application."""
        rows = np.concatenate([snapshot.tasks_of(each) for each in services.tolist()] or [_NO_ROWS])
        return rows if self.is_member is None else rows[self.is_member[rows]]

    def bound_of(self, snapshot: Snapshot, task: int) -> float:
        """Return the bound of the application of a task; infinite without one."""
        application = self.application_of(int(snapshot.tasks.service[task]))
        if application == NOWHERE or (self.is_member is not None and not self.is_member[task]):
            return np.inf
        return float(self.delay_max[application])

    def with_waiting(self, tasks: Sequence[str]) -> "Applications":
        if self.is_member is None:
            return self
        return replace(self, is_member=np.append(self.is_member, np.ones(len(tasks), dtype=np.bool_)))

    def with_services(self, more: Iterable[tuple[int, str, float]]) -> "Applications":
        """Return the same, with services that belong to applications by name; both may be new.

        Of two bounds of one application, the smaller one counts.
        """
        index, bounds, rows = dict(self.index), self.delay_max.tolist(), dict[int, int]()
        for service, application, delay_max in more:
            row = rows[service] = index.setdefault(application, len(index))
            if row == len(bounds):
                bounds.append(np.inf)
            bounds[row] = min(bounds[row], delay_max)
        if not rows:
            return self
        of_service = np.full(max(len(self.of_service), max(rows) + 1), NOWHERE, dtype=np.intp)
        of_service[: len(self.of_service)] = self.of_service
        of_service[list(rows)] = list(rows.values())
        return replace(self, names=tuple(index), delay_max=np.array(bounds), of_service=of_service)


def rule_of(name: str, service: str, rules: Mapping[str, Sequence[str]]) -> str | None:
    """The application of the settings that the labels of a service name; None if they name none."""
    label = label_of(name)
    return label if any(fnmatchcase(service, each) for each in rules.get(label, ())) else None


NO_APPLICATIONS = Applications(names=(), delay_max=np.empty(0), of_service=_NO_ROWS)


def applications_in(snapshot: Snapshot) -> Applications:
    """Return the applications of a snapshot, with the services of pending tasks."""

    def find() -> Applications:
        pending = snapshot.pending
        named = zip(pending.services.tolist(), pending.applications, strict=True)
        applications, names = snapshot.part(Applications) or NO_APPLICATIONS, snapshot.services.names
        return applications.with_services(
            (service, applications.name_for(each.name, names[service]), each.delay_max)
            for service, each in named
            if service != NOWHERE and each.name
        )

    return snapshot.cached_with_pending("applications", find)
