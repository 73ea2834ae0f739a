"""Which application each service belongs to, by the labels of its containers.

With an orchestrator, the labels of the services that it lists count, and an application spans nodes.
Otherwise labels come from nodes, and no node changes the application of another: the first node that runs a
service decides which application that is, and services of two nodes belong to one application only if the
settings name it. Services that other nodes claim for an application of the same name belong to one of their
own, NAME@NODE. A container of a service with a bound that another node claims, or that the orchestrator does
not list, is no member: in snapshots it has no service, unless the collector itself moved it there.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isinf

import msgspec
import numpy as np

from collector.common.arrays import Flags, Rows
from collector.config import ApplicationRule
from collector.live.traits import ApplicationTraits
from collector.snapshot.applications import Applications, Link
from collector.snapshot.tables import NOWHERE, Services

_ANY, _LISTED = -1, -2
"""In place of a node: all containers of a service are members, or those that are listed."""
_MOST_LINKS = 20_000
"""Most links of one application: with more, all of its services count as linked, as a label can name many."""


class ServiceClaim(msgspec.Struct, frozen=True, gc=False):
    """The application of a service, and the node whose labels name it; no node if an orchestrator does."""

    traits: ApplicationTraits
    node: str | None

    @property
    def is_listed(self) -> bool:
        return self.node is None


class ApplicationClaims:
    """The claims for all services that run. Not thread-safe."""

    def __init__(self) -> None:
        self._claims: dict[str, ServiceClaim] = {}
        self.version = 0
        """Incremented when a service gets another application."""

    def put(self, service: str, traits: ApplicationTraits, node: str | None) -> None:
        """Set the application of a service, by the labels of a node, or of an orchestrator if that is None.

        The labels of another node are ignored, even while the first one runs no container of the service.
        """
        known = self._claims.get(service)
        if known is not None and node is not None and known.node != node:
            return
        claim = ServiceClaim(traits, node)
        if claim != known:
            self._claims[service] = claim
            if traits.name or (known is not None and known.traits.name):
                self.version += 1

    def drop(self, service: str) -> None:
        """Forget a service that no node runs."""
        claim = self._claims.pop(service, None)
        if claim is not None and claim.traits.name:
            self.version += 1

    def drop_node(self, node: str) -> set[str]:
        """Forget the claims of a node that is removed; returns the services that other nodes may claim."""
        services = {name for name, claim in self._claims.items() if claim.node == node}
        for service in services:
            self.drop(service)
        return services

    def copy(self) -> dict[str, ServiceClaim]:
        """The services that belong to an application, in the order in which they were claimed."""
        return {service: claim for service, claim in self._claims.items() if claim.traits.name}


@dataclass(frozen=True, slots=True)
class ApplicationTable:
    """The applications of a snapshot, and which tasks are members."""

    applications: Applications | None = None
    """None if no service belongs to an application."""
    owner: Rows | None = None
    """Per service: the node whose containers are members, or `_LISTED`, or `_ANY`; None if all are."""

    def service_of_members(self, service: Rows, node: Rows, is_listed: Flags) -> Rows:
        """The services of tasks, given their nodes; `NOWHERE` for those that are no members.

        Listed are those that an orchestrator of all nodes lists, or that the collector moved.
        """
        if self.owner is None:
            return service
        owner = np.where(service == NOWHERE, _ANY, self.owner[service])
        return np.where((owner == _ANY) | (owner == node) | is_listed, service, NOWHERE)


_NONE = ApplicationTable()


def application_table(
    claims: Mapping[str, ServiceClaim],
    services: Services,
    nodes: Sequence[str],
    rules: Mapping[str, ApplicationRule],
) -> ApplicationTable:
    """The applications of the services of a snapshot with these nodes."""
    if not claims:
        return _NONE
    applications = _applications(claims, services, rules)
    if np.isinf(applications.delay_max).all():
        return ApplicationTable(applications)
    rows = {name: row for row, name in enumerate(nodes)}
    owner = np.full(len(services.names), _ANY, dtype=np.intp)
    for service, claim in claims.items():
        row = services.index[service]
        if claim.traits.name not in rules and isfinite(applications.delay_max[applications.of_service[row]]):
            owner[row] = _LISTED if claim.node is None else rows.get(claim.node, _ANY)
    return ApplicationTable(applications, owner)


def _applications(
    claims: Mapping[str, ServiceClaim], services: Services, rules: Mapping[str, ApplicationRule]
) -> Applications:
    members: dict[str, list[str]] = {}
    for name, service in _named(claims, rules):
        members.setdefault(name, []).append(service)
    names = tuple(sorted(members))
    of_service = np.full(len(services.names), NOWHERE, dtype=np.intp)
    links: dict[int, frozenset[Link]] = {}
    bounds = []
    for row, name in enumerate(names):
        of_service[[services.index[each] for each in members[name]]] = row
        traits = {each: claims[each].traits for each in members[name]}
        bound = min(each.delay_max for each in traits.values())
        rule = rules.get(name)
        bounds.append(bound if rule is None or isinf(rule.delay_max_seconds) else rule.delay_max_seconds)
        if any(each.talks_to for each in traits.values()):
            found = _links(traits, services)
            if found is not None:
                links[row] = found
    return Applications(names=names, delay_max=np.array(bounds), of_service=of_service, links=links)


def _named(
    claims: Mapping[str, ServiceClaim], rules: Mapping[str, ApplicationRule]
) -> Iterator[tuple[str, str]]:
    """Pairs of application and service. Of several nodes that claim a name, the first one gets it."""
    holders: dict[str, str | None] = {
        claim.traits.name: None for claim in claims.values() if claim.is_listed or claim.traits.name in rules
    }
    for service, claim in claims.items():
        name = claim.traits.name
        if claim.is_listed or name in rules:
            yield name, service
            continue
        while holders.setdefault(name, claim.node) != claim.node:
            name = f"{name}@{claim.node}"
        yield name, service


def _links(members: Mapping[str, ApplicationTraits], services: Services) -> frozenset[Link] | None:
    """Pairs of services that talk, by the labels of one of them; the first row is the smaller one.

    None if there are too many.
    """
    listed = {name for traits in members.values() for name in traits.talks_to}
    named: defaultdict[str, list[int]] = defaultdict(list)
    for service in members:
        for name in _names(service) & listed:
            named[name].append(services.index[service])
    found: set[Link] = set()
    for service, traits in members.items():
        row = services.index[service]
        for name in set(traits.talks_to):
            found.update((min(row, other), max(row, other)) for other in named[name])
            if len(found) > _MOST_LINKS:
                return None
    return frozenset(found)


def _names(service: str) -> set[str]:
    """The names by which a label can mean a service."""
    return {service, *(service[place + 1 :] for place, each in enumerate(service) if each in "_/")}


def is_named(service: str, name: str) -> bool:
    """Whether a label means a service: by its whole name, or without its stack, project or namespace."""
    return service == name or service.endswith((f"_{name}", f"/{name}"))
