"""The bound of an application: the maximum round-trip time between two nodes that run its members.

Without measured round-trip times, bounds cannot be checked and refuse nothing. With them, a pair of nodes
whose time is unknown does not satisfy a bound.
"""

from dataclasses import dataclass, field

import numpy as np

from collector.common.arrays import Flags, Floats, Rows
from collector.common.liveness import Liveness
from collector.policies.interface import Request
from collector.snapshot.applications import NO_APPLICATIONS
from collector.snapshot.delays import Delays
from collector.snapshot.matching import nodes_for
from collector.snapshot.tables import NOWHERE, Snapshot

NOT_MEASURED = "round-trip times are not measured: set mesh.enabled"
_ROUNDING = 1e-9
_NO_ROWS: Rows = np.empty(0, dtype=np.intp)


def application_of(snapshot: Snapshot, request: Request) -> str | None:
    """Return the name of the application that a request belongs to."""
    if request.application is not None:
        return request.application
    applications = snapshot.applications or NO_APPLICATIONS
    row = applications.application_of(snapshot.services.index.get(request.service or "", NOWHERE))
    return None if row == NOWHERE else applications.names[row]


def bound_of(snapshot: Snapshot, request: Request) -> float:
    """Return the bound of a request in seconds; infinite without one."""
    applications = snapshot.applications or NO_APPLICATIONS
    row = applications.index.get(application_of(snapshot, request) or "", NOWHERE)
    of_application = np.inf if row == NOWHERE else float(applications.delay_max[row])
    return min(of_application, np.inf if request.delay_max is None else request.delay_max)


def peers_of(snapshot: Snapshot, request: Request) -> Rows:
    """Return the services of the snapshot whose nodes must be near a request."""
    applications, services = snapshot.applications or NO_APPLICATIONS, snapshot.services.index
    service = services.get(request.service or "", NOWHERE)
    name = application_of(snapshot, request)
    if name is None:
        return _NO_ROWS
    application = applications.index.get(name, NOWHERE)
    peers = {services[each] for each in request.talks_to if each in services}
    links = applications.links.get(application)
    if links is not None:
        peers |= {b if a == service else a for a, b in links if service in (a, b)}
    elif not request.talks_to:
        peers |= {*applications.services_of(application).tolist()} if application != NOWHERE else set()
        peers |= {service} - {NOWHERE}
    return np.array(sorted(peers), dtype=np.intp)


def nodes_of(snapshot: Snapshot, services: Rows) -> Rows:
    """Return the nodes that run some services, pending tasks included.

    A node that is down runs none: otherwise the unknown times to it would keep its containers from being
    replaced.
    """
    if not services.size:
        return _NO_ROWS
    on = [snapshot.tasks.node[snapshot.tasks_of(int(row))] for row in services]
    if snapshot.pending.nodes.size:
        on.append(snapshot.pending.nodes[np.isin(snapshot.pending.services, services)])
    rows = np.unique(np.concatenate(on))
    rows = rows[rows != NOWHERE]
    return np.asarray(rows[snapshot.nodes.liveness[rows] != Liveness.DOWN])


def near_all(delays: Delays, rows: Rows, bound: float) -> Flags:
    """Return the nodes whose round-trip time to each of some nodes is within a bound."""
    near = np.ones(delays.count, dtype=np.bool_)
    for row in rows.tolist():
        near &= within(delays.from_node(row), bound)
    return near


def within(seconds: Floats, bound: float) -> Flags:
    """Return which round-trip times are within a bound; unknown ones are not."""
    # A comparison with NaN is false.
    return np.less_equal(seconds, bound * (1 + _ROUNDING))


def near_members(snapshot: Snapshot, request: Request) -> Flags | None:
    """Return the nodes that are near enough to the running members of a request's application.

    None if all are: it has no bound, or it cannot be checked.
    """
    if snapshot.delays is None or (snapshot.applications is None and request.application is None):
        return None
    bound = bound_of(snapshot, request)
    if np.isinf(bound):
        return None
    members = nodes_of(snapshot, peers_of(snapshot, request))
    return near_all(snapshot.delays, members, bound) if members.size else None


def describe_distance(snapshot: Snapshot, request: Request, row: int) -> str:
    """Describe why a node is too far from the members of a request's application, with both nodes."""
    assert snapshot.delays is not None
    bound, names = bound_of(snapshot, request), snapshot.nodes.names
    members = nodes_of(snapshot, peers_of(snapshot, request))
    seconds = snapshot.delays.from_node(row)[members]
    far = np.flatnonzero(~within(seconds, bound))
    worst = int(far[np.nan_to_num(seconds[far], nan=np.inf).argmax()])
    return describe_pair(
        names[row], names[members[worst]], float(seconds[worst]), bound, application_of(snapshot, request)
    )


def describe_pair(one: str, other: str, seconds: float, bound: float, application: str | None) -> str:
    """Describe two nodes that are too far from each other for an application."""
    limit = f"the bound of application {application} is {milliseconds(bound)}"
    if np.isnan(seconds):
        return f"the round-trip time between {one} and {other} is unknown; {limit}"
    return f"the round-trip time between {one} and {other} is {milliseconds(seconds)}; {limit}"


def milliseconds(seconds: float) -> str:
    """Format a round-trip time."""
    return "unknown" if np.isnan(seconds) else f"{seconds * 1e3:.3g} ms"


@dataclass(eq=False)
class Spans:
    """Where each task may go while a plan is made: to nodes that meet its constraints, not too far away."""

    snapshot: Snapshot
    _seconds: dict[int, Floats] = field(default_factory=dict)

    def open_to(self, task: int, home: Rows) -> Flags | None:
        """Return the nodes that a task may go to while all tasks are at `home`; None for all."""
        meeting, near = nodes_for(self.snapshot, task), self._near(task, home)
        if meeting is None or near is None:
            return near if meeting is None else meeting
        return meeting & near

    def _near(self, task: int, home: Rows) -> Flags | None:
        """Return the nodes that are near enough to the members of its application; None for all.

        After the move it is within the bound of all members; or, if it was not before, no further from any
        of them than it was: so an application that is apart can be brought together move by move.
        """
        snapshot, applications, delays = self.snapshot, self.snapshot.applications, self.snapshot.delays
        if applications is None or delays is None:
            return None
        service = int(snapshot.tasks.service[task])
        application = applications.application_of(service)
        if application == NOWHERE or np.isinf(applications.delay_max[application]):
            return None
        members = self._members(task, applications.peers_of(service), home)
        if not members.size:
            return None
        limit = float(applications.delay_max[application])
        after = np.array([self._from_node(row) for row in members.tolist()])
        reach, is_unknown = np.fmax.reduce(after, axis=0, initial=0.0), np.isnan(after).any(axis=0)
        before = int(self._at(np.array([task]), home)[0])
        if before != NOWHERE:
            limit = max(limit, float(reach[before]))
            if is_unknown[before]:
                return within(reach, limit)
        return np.asarray(within(reach, limit) & ~is_unknown)

    def _members(self, task: int, services: Rows, home: Rows) -> Rows:
        """Return the nodes of the other tasks of some services."""
        rows = [self.snapshot.tasks_of(int(row)) for row in services]
        others = np.concatenate(rows) if rows else _NO_ROWS
        pending = self.snapshot.pending
        on = (self._at(others[others != task], home), pending.nodes[np.isin(pending.services, services)])
        nodes = np.unique(np.concatenate(on))
        return np.asarray(nodes[nodes != NOWHERE])

    def _at(self, tasks: Rows, home: Rows) -> Rows:
        """Return the nodes of some tasks. One that has none for now counts where it was: it may return."""
        return np.where(home[tasks] == NOWHERE, self.snapshot.tasks.node[tasks], home[tasks])

    def _from_node(self, row: int) -> Floats:
        assert self.snapshot.delays is not None
        if row not in self._seconds:
            self._seconds[row] = self.snapshot.delays.from_node(row)
        return self._seconds[row]
