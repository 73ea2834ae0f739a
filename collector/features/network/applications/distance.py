"""The bound of an application: the maximum round-trip time between two nodes that run its members.

Without measured round-trip times, bounds cannot be checked and refuse nothing. With them, a pair of nodes
whose time is unknown does not satisfy a bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from collector.common.applications import is_named
from collector.common.arrays import Flags, Floats, Rows
from collector.common.liveness import Liveness
from collector.decide.policies.interface import Request
from collector.features.network.applications.table import applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import NOWHERE, Snapshot

NOT_MEASURED = "round-trip times are not measured: set mesh.enabled"
_ROUNDING = 1e-9


def application_of(snapshot: Snapshot, request: Request) -> str | None:
    """Return the name of the application that a request belongs to."""
    applications = applications_in(snapshot)
    if request.application.name:
        return applications.name_for(request.application.name, request.service or "")
    row = applications.application_of(snapshot.services.index.get(request.service or "", NOWHERE))
    return None if row == NOWHERE else applications.names[row]


def bound_of(snapshot: Snapshot, request: Request) -> float:
    """Return the bound of a request in seconds, of two the smaller one; infinite without one."""
    applications = applications_in(snapshot)
    row = applications.index.get(application_of(snapshot, request) or "", NOWHERE)
    of_application = np.inf if row == NOWHERE else float(applications.delay_max[row])
    return min(of_application, request.application.delay_max)


def peers_of(snapshot: Snapshot, request: Request) -> Rows:
    """Return the services of the snapshot whose nodes must be near a request.

    These are all services of its application, unless the request or the snapshot lists those that it talks
    to.
    """
    applications, services = applications_in(snapshot), snapshot.services
    service = services.index.get(request.service or "", NOWHERE)
    name = application_of(snapshot, request)
    if name is None:
        return np.empty(0, dtype=np.intp)
    application, listed = applications.index.get(name, NOWHERE), request.application.talks_to
    members = {*applications.services_of(application).tolist()} if application != NOWHERE else set[int]()
    links = applications.links.get(application)
    peers = set[int]()
    for each in listed:
        named = {row for row in members if is_named(services.names[row], each)}
        peers |= named or {services.index.get(each, NOWHERE)}
    if links is not None:
        peers |= {b if a == service else a for a, b in links if service in (a, b)}
    elif not listed:
        peers |= members | {service}
    return np.array(sorted(peers - {NOWHERE}), dtype=np.intp)


def nodes_of(snapshot: Snapshot, services: Rows) -> Rows:
    """Return the nodes that run members of some services, pending tasks included.

    A node that is down runs none: otherwise the unknown times to it would keep its containers from being
    replaced.
    """
    pending = snapshot.pending
    running = snapshot.tasks.node[applications_in(snapshot).tasks_of(snapshot, services)]
    rows = np.unique(np.append(running, pending.nodes[np.isin(pending.services, services)]))
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


def near_members(snapshot: Snapshot, request: Request, bound: float | None = None) -> Flags | None:
    """Return the nodes that are near enough to the running members of a request's application.

    None if all are: it has no bound, or it cannot be checked. `bound` replaces that of the application.
    """
    delays = snapshot.part(Delays)
    if delays is None:
        return None
    bound = bound_of(snapshot, request) if bound is None else bound
    if np.isinf(bound):
        return None
    members = nodes_of(snapshot, peers_of(snapshot, request))
    return near_all(delays, members, bound) if members.size else None


def describe_distance(snapshot: Snapshot, request: Request, row: int) -> str:
    """Describe why a node is too far from the members of a request's application, with both nodes."""
    members = nodes_of(snapshot, peers_of(snapshot, request))
    bound, application = bound_of(snapshot, request), application_of(snapshot, request)
    return _describe_farthest(snapshot, row, members, bound, application)


def _describe_farthest(
    snapshot: Snapshot, row: int, members: Rows, bound: float, application: str | None
) -> str:
    delays, names = snapshot.part(Delays), snapshot.nodes.names
    assert delays is not None
    worst, seconds = _longest(delays, row, members)
    return describe_pair(names[row], names[worst], seconds, bound, application)


def _longest(delays: Delays, row: int, nodes: Rows) -> tuple[int, float]:
    """Return the farthest of some nodes from one, and the round-trip time to it; unknown is longest."""
    seconds = delays.from_node(row)[nodes]
    at = int(np.nan_to_num(seconds, nan=np.inf).argmax())
    return int(nodes[at]), float(seconds[at])


def farthest_pair(
    snapshot: Snapshot, delays: Delays, services: Rows, nodes_of: Callable[[Rows], Rows]
) -> tuple[int, int, float]:
    """Return the two nodes of services that talk with the longest round-trip time; unknown is longest.

    `nodes_of` returns the nodes of some services. Without two such nodes, the time is 0.
    """
    found = (NOWHERE, NOWHERE, 0.0)
    for service in services.tolist():
        there = nodes_of(applications_in(snapshot).peers_of(service))
        for row in nodes_of(np.array([service])).tolist() if there.size else ():
            other, seconds = _longest(delays, row, there)
            if np.isnan(seconds):
                return row, other, seconds
            if seconds > found[2]:
                found = row, other, seconds
    return found


def describe_pair(one: str, other: str, seconds: float, bound: float, application: str | None) -> str:
    """Describe two nodes that are too far from each other for an application."""
    limit = f"the bound of application {application} is {milliseconds(bound)}"
    return f"the round-trip time between {one} and {other} is {milliseconds(seconds)}; {limit}"


def milliseconds(seconds: float) -> str:
    """Format a round-trip time."""
    return "unknown" if np.isnan(seconds) else f"{seconds * 1e3:.3g} ms"


@dataclass(eq=False)
class NearMembers:
    """Where each task may go while a plan is made, by its distance to the members of its application."""

    snapshot: Snapshot
    _seconds: dict[int, Floats] = field(default_factory=dict)

    def open_to(self, task: int, home: Rows) -> Flags | None:
        """Return the nodes that a task may go to while all tasks are at `home`; None for all.

        After the move it is within the bound of all members; or, if it was not before, no further from any
        of them than it was: so an application that is apart can be brought together move by move.
        """
        snapshot, applications = self.snapshot, applications_in(self.snapshot)
        limit, delays = applications.bound_of(snapshot, task), snapshot.part(Delays)
        if delays is None or np.isinf(limit):
            return None
        members = self._members(task, applications.peers_of(int(snapshot.tasks.service[task])), home)
        if not members.size:
            return None
        after = np.array([self._from_node(delays, row) for row in members.tolist()])
        reach, is_unknown = np.fmax.reduce(after, axis=0, initial=0.0), np.isnan(after).any(axis=0)
        before = int(self._at(np.array([task]), home)[0])
        if before != NOWHERE:
            limit = max(limit, float(reach[before]))
            if is_unknown[before]:
                return within(reach, limit)
        return np.asarray(within(reach, limit) & ~is_unknown)

    def describe(self, task: int, target: int, home: Rows) -> str:
        """Describe the member that is farthest from a node which a task may not go to."""
        applications, service = applications_in(self.snapshot), int(self.snapshot.tasks.service[task])
        members = self._members(task, applications.peers_of(service), home)
        name = applications.names[applications.application_of(service)]
        bound = applications.bound_of(self.snapshot, task)
        return _describe_farthest(self.snapshot, target, members, bound, name)

    def _members(self, task: int, services: Rows, home: Rows) -> Rows:
        """Return the nodes of the other tasks of some services."""
        others = applications_in(self.snapshot).tasks_of(self.snapshot, services)
        pending = self.snapshot.pending
        on = (self._at(others[others != task], home), pending.nodes[np.isin(pending.services, services)])
        nodes = np.unique(np.concatenate(on))
        return np.asarray(nodes[nodes != NOWHERE])

    def _at(self, tasks: Rows, home: Rows) -> Rows:
        """Return the nodes of some tasks. One that has none for now counts where it was: it may return."""
        return np.where(home[tasks] == NOWHERE, self.snapshot.tasks.node[tasks], home[tasks])

    def _from_node(self, delays: Delays, row: int) -> Floats:
        if row not in self._seconds:
            self._seconds[row] = delays.from_node(row)
        return self._seconds[row]
