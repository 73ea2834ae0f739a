"""What goes wrong, in one list: opened, kept up to date, closed, and never flapping.

Nodes tell of their own bottlenecks. What no node can see is found here, on a snapshot: a node that went quiet
with containers on it, a service that is hot on every node it runs on, a node of which more was promised than
its class allows. `findings` is what holds now; `BottleneckTracker` follows it. Each sign has a bound
to open at and a lower one to stay open at, must hold for a while before it is told, and must be gone for a
while before it is closed, so that a value which dances on a bound is one bottleneck, not twenty.
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
"""Closed ones that are remembered."""
_HOT, _COOL = 0.9, 0.8
"""Use by capacity: from here a node is hot, and below the other it is no longer."""
_OWN_SHARE = 0.25
"""What of a node's use must be the service's own: who stands beside a fire is not the fire."""
_OVERBOOKED = 1.02
"""By the limit of its class; at the limit itself it is no longer."""
_SEVERAL = 2


class BottleneckKind(StrEnum):
    """What sort of trouble."""

    NODE = "node"
    """A node told of it."""
    QUIET = "quiet"
    """A node is not heard of any more, and containers ran there."""
    SERVICE = "service"
    """A service is hot wherever it runs: moving it would not help, more of it might."""
    OVERBOOKED = "overbooked"
    """More was promised on a node than the class of its containers allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A sign of trouble at one moment."""

    kind: BottleneckKind
    subject: str
    """The node's or service's name."""
    resource: Resource | None = None
    opens: bool = True
    """Strong enough to open; else just enough to stay open."""
    ratio: float | None = None
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """Trouble, from its beginning to its end."""

    id: str
    kind: BottleneckKind
    subject: str
    resource: Resource | None
    opened_at: float
    updated_at: float
    closed_at: float | None = None
    ratio: float | None = None
    evidence: str = ""
    """What was seen last, for a person."""

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


def id_of(
    kind: BottleneckKind, subject: str, resource: Resource | None, opened_at: float, run: str = ""
) -> str:
    """A name for a bottleneck that it keeps over restarts: short, and fit for an address."""
    text = "\n".join((kind, subject, resource or "", repr(opened_at), run))
    return blake2s(text.encode(), digest_size=8).hexdigest()


# --- What holds now -------------------------------------------------------------------------


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    """All that only the centre sees."""
    return (*_quiet(snapshot), *_overbooked(snapshot), *_hot(snapshot))


def _quiet(snapshot: Snapshot) -> Iterator[Finding]:
    nodes = snapshot.nodes
    for row in np.flatnonzero((nodes.liveness != Liveness.UP) & (nodes.tasks > 0) & nodes.on).tolist():
        state = "down" if nodes.liveness[row] == Liveness.DOWN else "suspect"
        yield Finding(
            kind=BottleneckKind.QUIET,
            subject=nodes.names[row],
            evidence=(
                f"{nodes.names[row]} is {state}: nothing was heard of it for "
                f"{nodes.report_age_seconds[row]:.0f} s, and it ran {nodes.tasks[row]} containers"
            ),
        )


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
                f"{times:.2f} times the {RESOURCES[place]} of {nodes.names[row]} is promised; its strictest "
                f"container is of class {nodes.strictest_class[row]}, which allows {limit:.2f} times"
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
                    f"{name} runs on {sizes[row]} nodes; each uses {lowest[row]:.0%} of its {resource} or "
                    f"more, of which at least {_OWN_SHARE:.0%} is its own: moving it would not help"
                ),
            )


# --- The story ------------------------------------------------------------------------------

_Key = tuple[BottleneckKind, str, Resource | None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a sign must hold before it is told, and be gone before it is closed."""

    open_seconds: Mapping[BottleneckKind, float] = field(
        # A quiet node has been waited for already.
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
    seen_at: float


class BottleneckTracker:
    """Follows findings over time. Not for several threads at once."""

    def __init__(
        self, known: Iterable[Bottleneck] = (), *, now: float = 0.0, patience: Patience | None = None
    ) -> None:
        self._patience = Patience() if patience is None else patience
        self._pending: dict[_Key, float] = {}
        # Nobody looked while the collector was stopped: what was open then has its time to be seen again.
        known = sorted(known, key=lambda each: each.opened_at)
        self._open = {_key(each): _Open(each, now) for each in known if each.is_open}
        self._closed = [each for each in known if not each.is_open]

    def look(self, found: Iterable[Finding], now: float) -> tuple[Bottleneck, ...]:
        """Take in what holds now; gives those that were opened or closed by it."""
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
                open_.seen_at = now
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
            if key not in signs and now - open_.seen_at >= self._patience.close_seconds:
                del self._open[key]
                closed = replace(open_.bottleneck, closed_at=now, updated_at=now)
                self._closed = [*self._closed, closed][-_KEPT:]
                yield closed

    def listed(self) -> tuple[Bottleneck, ...]:
        """The open ones, the latest first, then those that were."""
        open_ = sorted((each.bottleneck for each in self._open.values()), key=_latest)
        return (*open_, *sorted(self._closed, key=_latest))


def _key(each: Finding | Bottleneck) -> _Key:
    # Which of two resources is promised most may change; it is the same overbooking.
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
