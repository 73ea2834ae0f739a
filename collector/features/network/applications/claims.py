"""The applications of a snapshot, from the labels that count for each service.

With an orchestrator, the labels of the services that it lists count, and an application spans nodes.
Otherwise labels come from nodes, and services of two nodes belong to one application only if the settings
name it: services that other nodes claim for an application of the same name belong to one of their own,
NAME@NODE. The settings can also let services of several stacks, projects or namespaces be one application. A
container of a service with a bound that another node claims, or that the orchestrator does not list, is no
member, unless the collector itself moved it there.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, isinf

import numpy as np

from collector.common.applications import ApplicationTraits
from collector.common.arrays import Rows
from collector.config import CollectorConfig
from collector.features.network.applications.table import Applications, Link, rule_of
from collector.features.network.settings import ApplicationRule
from collector.observe.parts import LivePart
from collector.snapshot.claims import ServiceClaim
from collector.snapshot.tables import NOWHERE, Services, Snapshot

_ANY, _LISTED = -1, -2
"""In place of a node: all containers of a service are members, or those that are listed."""
_MOST_LINKS = 20_000
"""Most links of one application: with more, all of its services count as linked, as a label can name many."""


class ApplicationBuilder(LivePart):
    """Derives the applications of snapshots from the claims of services."""

    def __init__(self, config: CollectorConfig) -> None:
        super().__init__(config)
        self._settings = config.tables(ApplicationRule)
        self._rules = {name: each.services for name, each in self._settings.items()}
        self._last: tuple[tuple[object, ...], Applications | None, Rows | None] | None = None

    def snapshot_part(self, snapshot: Snapshot) -> Applications | None:
        """The applications of a snapshot; None if no service belongs to one."""
        claims, services, nodes = snapshot.claims.services, snapshot.services, snapshot.nodes.names
        inputs, last = (claims, services, nodes), self._last
        # They seldom change, and are the same objects until then.
        if last is None or any(one is not other for one, other in zip(last[0], inputs, strict=True)):
            found = _applications(claims, services, self._settings) if claims or self._settings else None
            last = self._last = inputs, found, _owners(claims, services, nodes, self._rules, found)
        _, applications, owner = last
        if applications is None or owner is None:
            return applications
        tasks = snapshot.tasks
        owner = np.where(tasks.service == NOWHERE, _ANY, owner[tasks.service])
        is_member = (owner == _ANY) | (owner == tasks.node) | snapshot.claims.is_listed
        return replace(applications, is_member=is_member)


def _owners(
    claims: Mapping[str, ServiceClaim],
    services: Services,
    nodes: Sequence[str],
    rules: Mapping[str, Sequence[str]],
    applications: Applications | None,
) -> Rows | None:
    """Per service: the node whose containers are members, or `_LISTED`, or `_ANY`; None if all are."""
    if applications is None or np.isinf(applications.delay_max).all():
        return None
    rows = {name: row for row, name in enumerate(nodes)}
    owner = np.full(len(services.names), _ANY, dtype=np.intp)
    for service, claim in claims.items():
        row = services.index[service]
        if rule_of(claim.traits.name, service, rules) is None and isfinite(
            applications.delay_max[applications.of_service[row]]
        ):
            owner[row] = _LISTED if claim.node is None else rows.get(claim.node, _ANY)
    return owner


def _applications(
    claims: Mapping[str, ServiceClaim], services: Services, rules: Mapping[str, ApplicationRule]
) -> Applications:
    members: dict[str, list[str]] = {}
    patterns = {name: each.services for name, each in rules.items()}
    for name, service in _named(claims, patterns):
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
    return Applications(
        names=names, delay_max=np.array(bounds), of_service=of_service, links=links, rules=patterns
    )


def _named(
    claims: Mapping[str, ServiceClaim], rules: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Pairs of application and service. Of several nodes that claim a name, the first one gets it."""
    holders: dict[str, str | None] = dict.fromkeys(rules)
    holders |= {claim.traits.name: None for claim in claims.values() if claim.node is None}
    for service, claim in claims.items():
        rule, name = rule_of(claim.traits.name, service, rules), claim.traits.name
        if rule is not None or claim.node is None:
            yield rule or name, service
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
