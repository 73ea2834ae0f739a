"""Bottlenecks that no single node can detect: opened, updated, closed, without flapping.

Nodes report their own bottlenecks. This module finds others on a snapshot: a node with containers that does
not report, a service that is hot on all its nodes, and a node that is overbooked beyond its class. `findings`
checks one snapshot; `BottleneckTracker` follows findings over time. A finding has one threshold to open and a
lower one to stay open. It must last for a while before it opens, and be absent for a while before it closes,
so that a value around a threshold opens one bottleneck, not twenty.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2s

import numpy as np

from collector.common.liveness import Liveness
from collector.common.text import counted
from collector.snapshot.overbooking import overbooking_limits
from collector.snapshot.tables import NOWHERE, OVERBOOKING_LIMITS, Snapshot
from wire.resources import RESOURCES, Resource

_MAX_CLOSED = 1000
"""Number of closed bottlenecks that are kept."""
_HOT, _COOL = 0.9, 0.8
"""Usage ratio at which a node becomes hot, and below which it is no longer hot."""
_OWN_SHARE = 0.25
"""Minimum share of a node's usage that the service itself causes: otherwise another service is the cause."""
_OVERBOOKED = 1.02
"""An overbooking above this many times the limit opens a bottleneck; it closes at the limit."""
_MIN_NODES = 2
_ROUNDING = 1e-9


class BottleneckKind(StrEnum):
    """The kinds of bottlenecks."""

    NODE = "node"
    """Reported by a node."""
    QUIET = "quiet"
    """A node with containers sends no reports."""
    SERVICE = "service"
    """A service is hot wherever it runs: more instances may help, a move does not."""
    OVERBOOKED = "overbooked"
    """The containers of a node reserve more than their classes allow, and their cuts leave."""
    LIMIT = "limit"
    """A node reports more than its limits allow: the surplus is refused."""
    OUTLIER = "outlier"
    """A node claims far more use of a service than the others do: it does not count for the service."""
    DUPLICATE = "duplicate"
    """Two machines report under the same name."""
    PROMISE = "promise"
    """The promise of availability of a service is broken or will break soon, or its class is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A bottleneck on one snapshot."""

    kind: BottleneckKind
    subject: str
    """The node's or service's name."""
    resource: Resource | None = None
    opens: bool = True
    """Whether it is strong enough to open a bottleneck, or just to keep it open."""
    ratio: float | None = None
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """A bottleneck, open or closed."""

    id: str
    finding: Finding
    """The last one."""
    opened_at: float
    found_at: float
    """The time of the last finding."""
    closed_at: float | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


def bottleneck_id(
    kind: BottleneckKind, subject: str, resource: Resource | None, opened_at: float, run: str = ""
) -> str:
    """The id of a bottleneck: short, valid in a URL, and the same after a restart."""
    text = "\n".join((kind, subject, resource or "", repr(opened_at), run))
    return blake2s(text.encode(), digest_size=8).hexdigest()


# --- Findings on one snapshot ---------------------------------------------------------------------


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    """All findings on a snapshot."""
    return (*_find_quiet(snapshot), *_find_overbooked(snapshot), *_find_hot(snapshot))


def _find_quiet(snapshot: Snapshot) -> Iterator[Finding]:
    nodes = snapshot.nodes
    for row in np.flatnonzero((nodes.liveness != Liveness.UP) & (nodes.tasks > 0) & nodes.on).tolist():
        state = "down" if nodes.liveness[row] == Liveness.DOWN else "suspect"
        yield Finding(
            kind=BottleneckKind.QUIET,
            subject=nodes.names[row],
            evidence=(
                f"{nodes.names[row]} is {state}: no report for {nodes.report_age_seconds[row]:.0f} s "
                f"({counted(int(nodes.tasks[row]), 'container')} ran there)"
            ),
        )


def _find_overbooked(snapshot: Snapshot) -> Iterator[Finding]:
    nodes = snapshot.nodes
    limits = overbooking_limits(snapshot)
    by_class = np.array(OVERBOOKING_LIMITS)[nodes.strictest_class]
    for row in np.flatnonzero(nodes.overbooking > limits * (1 + _ROUNDING)).tolist():
        place = int(np.nan_to_num(nodes.allocated_ratio[row, :2], nan=0.0).argmax())
        times, limit, resource = float(nodes.overbooking[row]), float(limits[row]), RESOURCES[place]
        yield Finding(
            kind=BottleneckKind.OVERBOOKED,
            subject=nodes.names[row],
            resource=resource,
            opens=times > _OVERBOOKED * limit,
            ratio=times,
            evidence=(
                f"{nodes.names[row]} is overbooked: its containers reserve {times:.2f} times its {resource}; "
                + (
                    f"after their cuts, they tolerate {limit:.2f} times"
                    if limit < by_class[row]
                    else f"class {nodes.strictest_class[row]}, its strictest, allows {limit:.2f} times"
                )
            ),
        )


def _find_hot(snapshot: Snapshot) -> Iterator[Finding]:
    nodes, tasks, services = snapshot.nodes, snapshot.tasks, snapshot.services
    placed = np.flatnonzero((tasks.node != NOWHERE) & (tasks.service != NOWHERE))
    if not placed.size:
        return
    pair = tasks.service[placed] * len(nodes.names) + tasks.node[placed]
    pairs, of = np.unique(pair, return_inverse=True)
    service, node = pairs // len(nodes.names), pairs % len(nodes.names)
    starts = np.flatnonzero(np.concatenate(([True], service[1:] != service[:-1])))
    sizes = np.diff(np.append(starts, len(pairs)))
    several = sizes >= _MIN_NODES
    used = np.nan_to_num(tasks.used[placed], nan=0.0)
    for place, resource in enumerate(RESOURCES):
        own = np.bincount(of, weights=used[:, place])
        its_share = own >= _OWN_SHARE * np.nan_to_num(nodes.used[node, place], nan=np.inf)
        ratio = np.nan_to_num(nodes.used_ratio[node, place], nan=0.0)
        ratio = np.where(nodes.bottleneck[node, place], np.maximum(ratio, _HOT), ratio)
        lowest = np.minimum.reduceat(np.where(its_share, ratio, 0.0), starts)
        for row in np.flatnonzero(several & (lowest >= _COOL)).tolist():
            name = services.names[service[starts[row]]]
            yield Finding(
                kind=BottleneckKind.SERVICE,
                subject=name,
                resource=resource,
                opens=bool(lowest[row] >= _HOT),
                ratio=float(lowest[row]),
                evidence=(
                    f"{name} is short of {resource} on all its {sizes[row]} nodes: each uses "
                    f"{lowest[row]:.0%} or more, {name} at least {_OWN_SHARE:.0%} of that; "
                    "a move would not help"
                ),
            )


# --- Findings over time ----------------------------------------------------------------------

_Key = tuple[BottleneckKind, str, Resource | None]


_OPEN_SECONDS = {BottleneckKind.SERVICE: 120.0, BottleneckKind.OVERBOOKED: 60.0}
"""How long a finding must last to open a bottleneck. Liveness already waits before a node counts as quiet."""
CLOSE_SECONDS = 180.0
"""How long it must be absent to close it."""


class BottleneckTracker:
    """Follows findings over time. Not thread-safe."""

    def __init__(self, stored: Iterable[Bottleneck] = (), *, now: float = 0.0) -> None:
        self._pending: dict[_Key, float] = {}
        stored = sorted(stored, key=lambda each: each.opened_at)
        # After a restart, an open bottleneck gets the usual time to be found again.
        self._open = {_key(each.finding): replace(each, found_at=now) for each in stored if each.is_open}
        self._closed = [each for each in stored if not each.is_open]

    def update(self, found: Iterable[Finding], now: float) -> tuple[Bottleneck, ...]:
        """Apply the present findings; returns the bottlenecks that opened or closed."""
        by_key = {_key(each): each for each in found}
        changed = [*self._close(by_key, now), *self._update(by_key, now)]
        self._pending = {
            key: since for key, since in self._pending.items() if key in by_key and by_key[key].opens
        }
        return tuple(changed)

    def _update(self, found: Mapping[_Key, Finding], now: float) -> Iterator[Bottleneck]:
        for key, finding in found.items():
            if key in self._open:
                self._open[key] = replace(self._open[key], finding=finding, found_at=now)
            elif finding.opens:
                since = self._pending.setdefault(key, now)
                if now - since >= _OPEN_SECONDS.get(finding.kind, 0.0):
                    del self._pending[key]
                    name = bottleneck_id(finding.kind, finding.subject, finding.resource, since)
                    opened = Bottleneck(id=name, finding=finding, opened_at=since, found_at=now)
                    self._open[key] = opened
                    yield opened

    def _close(self, found: Mapping[_Key, Finding], now: float) -> Iterator[Bottleneck]:
        for key, each in list(self._open.items()):
            if key not in found and now - each.found_at >= CLOSE_SECONDS:
                del self._open[key]
                closed = replace(each, closed_at=now)
                self._closed = [*self._closed, closed][-_MAX_CLOSED:]
                yield closed

    def list(self) -> tuple[Bottleneck, ...]:
        """Open bottlenecks, then closed ones, the latest of each first."""
        return (*sorted(self._open.values(), key=_latest), *sorted(self._closed, key=_latest))


def _key(finding: Finding) -> _Key:
    # The resource with the most reservations may change: it is the same overbooking.
    resource = None if finding.kind is BottleneckKind.OVERBOOKED else finding.resource
    return finding.kind, finding.subject, resource


def _latest(each: Bottleneck) -> tuple[float, str]:
    return -each.opened_at, each.id
