"""Bottlenecks that no single node can detect: opened, updated, closed, without flapping.

Nodes report their own bottlenecks. Found here, on a snapshot: a node without reports that ran containers, a
service that is hot on every node it runs on, and a node that is overbooked beyond its class. `findings`
returns what holds now; `BottleneckTracker` follows it over time. A finding has one threshold to open and a
lower one to stay open. It must last for a while before it opens, and be absent for a while before it closes,
so that a value around a threshold makes one bottleneck, not twenty.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2s

import numpy as np

from collector.common.liveness import Liveness
from collector.policies.overbooking import LIMITS
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.resources import RESOURCES, Resource

_KEPT = 1000
"""Closed bottlenecks that are kept."""
_HOT, _COOL = 0.9, 0.8
"""Ratio of use at which a node becomes hot, and below which it is not hot any more."""
_OWN_SHARE = 0.25
"""Share of a node's use that must be the service's own: otherwise another service is the cause."""
_OVERBOOKED = 1.02
"""Times the limit of its class at which a node opens a bottleneck; it closes at the limit."""
_SEVERAL = 2


class BottleneckKind(StrEnum):
    """The kinds of bottlenecks."""

    NODE = "node"
    """Reported by a node."""
    QUIET = "quiet"
    """A node with containers sends no reports."""
    SERVICE = "service"
    """A service is hot wherever it runs: more instances may help, a move does not."""
    OVERBOOKED = "overbooked"
    """A node is promised beyond what the class of its containers allows."""
    LIMIT = "limit"
    """A node reports more than its limits allow: the surplus is refused."""
    DUPLICATE = "duplicate"
    """Two machines report under the same name."""
    PROMISE = "promise"
    """The promise of availability of a service is broken or will break soon, or its class is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A sign of a bottleneck at one moment."""

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
    kind: BottleneckKind
    subject: str
    resource: Resource | None
    opened_at: float
    updated_at: float
    closed_at: float | None = None
    ratio: float | None = None
    evidence: str = ""
    """The last finding, in one sentence."""

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


def id_of(
    kind: BottleneckKind, subject: str, resource: Resource | None, opened_at: float, run: str = ""
) -> str:
    """The id of a bottleneck: short, fit for a URL, and the same after a restart."""
    text = "\n".join((kind, subject, resource or "", repr(opened_at), run))
    return blake2s(text.encode(), digest_size=8).hexdigest()


# --- What holds now -------------------------------------------------------------------------


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    """All findings on a snapshot."""
    return (*_quiet(snapshot), *_overbooked(snapshot), *_hot(snapshot))


def _quiet(snapshot: Snapshot) -> Iterator[Finding]:
    nodes = snapshot.nodes
    for row in np.flatnonzero((nodes.liveness != Liveness.UP) & (nodes.tasks > 0) & nodes.on).tolist():
        state = "down" if nodes.liveness[row] == Liveness.DOWN else "suspect"
        yield Finding(
            kind=BottleneckKind.QUIET,
            subject=nodes.names[row],
            evidence=(
                f"{nodes.names[row]} is {state}: no report for {nodes.report_age_seconds[row]:.0f} s "
                f"({_containers(int(nodes.tasks[row]))} running there)"
            ),
        )


def _containers(count: int) -> str:
    return "1 container was" if count == 1 else f"{count} containers were"


def _overbooked(snapshot: Snapshot) -> Iterator[Finding]:
    nodes = snapshot.nodes
    limits = np.array(LIMITS)[nodes.strictest_class]
    for row in np.flatnonzero(nodes.overbooking > limits).tolist():
        place = int(np.nan_to_num(nodes.allocated_ratio[row, :2], nan=0.0).argmax())
        times, limit = float(nodes.overbooking[row]), float(limits[row])
        yield Finding(
            kind=BottleneckKind.OVERBOOKED,
            subject=nodes.names[row],
            resource=RESOURCES[place],
            opens=times > _OVERBOOKED * limit,
            ratio=times,
            evidence=(
                f"{nodes.names[row]} is overbooked: {times:.2f} times its {RESOURCES[place]} is promised; "
                f"class {nodes.strictest_class[row]}, its strictest, allows {limit:.2f} times"
            ),
        )


def _hot(snapshot: Snapshot) -> Iterator[Finding]:
    nodes, tasks, services = snapshot.nodes, snapshot.tasks, snapshot.services
    placed = np.flatnonzero((tasks.node != NOWHERE) & (tasks.service != NOWHERE))
    if not placed.size:
        return
    pair = tasks.service[placed] * len(nodes.names) + tasks.node[placed]
    pairs, of = np.unique(pair, return_inverse=True)
    service, node = pairs // len(nodes.names), pairs % len(nodes.names)
    starts = np.flatnonzero(np.concatenate(([True], service[1:] != service[:-1])))
    sizes = np.diff(np.append(starts, len(pairs)))
    several = sizes >= _SEVERAL
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


# --- Over time ------------------------------------------------------------------------------

_Key = tuple[BottleneckKind, str, Resource | None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a finding must last to open a bottleneck, and be absent to close it."""

    open_seconds: Mapping[BottleneckKind, float] = field(
        # Liveness has waited for a quiet node already.
        default_factory=lambda: {
            BottleneckKind.QUIET: 0.0,
            BottleneckKind.SERVICE: 120.0,
            BottleneckKind.OVERBOOKED: 60.0,
        }
    )
    close_seconds: float = 180.0


@dataclass(slots=True)
class _Open:
    bottleneck: Bottleneck
    last_found_at: float


class BottleneckTracker:
    """Follows findings over time. Not thread-safe."""

    def __init__(
        self, stored: Iterable[Bottleneck] = (), *, now: float = 0.0, patience: Patience | None = None
    ) -> None:
        self._patience = Patience() if patience is None else patience
        self._pending: dict[_Key, float] = {}
        # After a restart, an open bottleneck gets the usual time to be found again.
        stored = sorted(stored, key=lambda each: each.opened_at)
        self._open = {_key(each): _Open(each, now) for each in stored if each.is_open}
        self._closed = [each for each in stored if not each.is_open]

    def update(self, found: Iterable[Finding], now: float) -> tuple[Bottleneck, ...]:
        """Apply the present findings; returns the bottlenecks that opened or closed."""
        signs = {_key(each): each for each in found}
        changed = [*self._close(signs, now), *self._update(signs, now)]
        self._pending = {
            key: since for key, since in self._pending.items() if key in signs and signs[key].opens
        }
        return tuple(changed)

    def _update(self, signs: Mapping[_Key, Finding], now: float) -> Iterator[Bottleneck]:
        for key, sign in signs.items():
            if key in self._open:
                open_ = self._open[key]
                open_.last_found_at = now
                open_.bottleneck = replace(
                    open_.bottleneck, updated_at=now, ratio=sign.ratio, evidence=sign.evidence
                )
            elif sign.opens:
                since = self._pending.setdefault(key, now)
                if now - since >= self._patience.open_seconds.get(sign.kind, 0.0):
                    del self._pending[key]
                    opened = _opened(sign, since, now)
                    self._open[key] = _Open(opened, now)
                    yield opened

    def _close(self, signs: Mapping[_Key, Finding], now: float) -> Iterator[Bottleneck]:
        for key, open_ in list(self._open.items()):
            if key not in signs and now - open_.last_found_at >= self._patience.close_seconds:
                del self._open[key]
                closed = replace(open_.bottleneck, closed_at=now, updated_at=now)
                self._closed = [*self._closed, closed][-_KEPT:]
                yield closed

    def listed(self) -> tuple[Bottleneck, ...]:
        """Open bottlenecks, then closed ones, each with the latest first."""
        open_ = sorted((each.bottleneck for each in self._open.values()), key=_latest)
        return (*open_, *sorted(self._closed, key=_latest))


def _key(each: Finding | Bottleneck) -> _Key:
    # The resource that is promised most may change; it is the same overbooking.
    return each.kind, each.subject, None if each.kind is BottleneckKind.OVERBOOKED else each.resource


def _latest(each: Bottleneck) -> tuple[float, str]:
    return -each.opened_at, each.id


def _opened(sign: Finding, since: float, now: float) -> Bottleneck:
    return Bottleneck(
        id=id_of(sign.kind, sign.subject, sign.resource, since),
        kind=sign.kind,
        subject=sign.subject,
        resource=sign.resource,
        opened_at=since,
        updated_at=now,
        ratio=sign.ratio,
        evidence=sign.evidence,
    )
