"""Limits per node: what one node can claim, however much it sends.

A token lets its holder report anything about its own node. So each node has a budget of memory in the
collector, and its claims are bounded by its own capacity. A claim above a limit is dropped from the report;
the rest of the report, and every other node, is processed as usual. What was dropped is counted per node.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from collector.analysis.usage import USAGE_SECONDS
from collector.config import LimitsConfig
from collector.observe.limits.claims import (
    bound_container,
    bound_curve,
    bound_state,
    bound_usage,
    observed_seconds,
    scale_samples,
)
from collector.observe.limits.node_account import UNKNOWN_CONTAINER, Item, KnownContainer, Limit, NodeAccount
from collector.observe.usage.cluster import ClusterUsage
from wire.messages import ContainerState, ContainerUsage, Heartbeat, NodeState, Report
from wire.resources import RESOURCES

_EVENTS_PER_CONTAINER: Final = 3
"""A container starts, runs out of memory, and ends."""
_MAX_ALERTS_PER_HOUR: Final = 3600 * len(RESOURCES)
"""An agent reports an alert of each resource at most every second."""
CONTAINER_BYTES: Final = 3072
"""Memory of a running container besides its texts: its columns and windows, and the objects that hold it."""
_LABEL_BYTES: Final = 160
_TEXT_BYTES: Final = 2048
"""Names and labels of a new container, in the mean over an hour: 20 labels are about half of it."""
_BIN_BYTES: Final = 6
_LABEL_PREFIX: Final = "wattpack."


class NodeLimits:
    """Applies the limits to reports before they are stored. Not thread-safe."""

    def __init__(self, limits: LimitsConfig, usage: ClusterUsage) -> None:
        self._limits = limits
        self._usage = usage
        self._accounts: defaultdict[str, NodeAccount] = defaultdict(NodeAccount)
        self._max_new = limits.max_new_containers_per_hour

    def apply(self, report: Report, now: float, *, is_stored: bool = False) -> Report:
        """The part of a report that is within the limits of its node: the same object if all of it is.

        `is_stored` is for a report from the history: its containers are not new.
        """
        parts = (report.state, report.containers, report.gone, report.events, report.alerts, report.images)
        if report.heartbeat is None and not any(parts):
            return report  # most reports are beacons
        account = self._accounts[report.node]
        account.begin(now)
        refused = account.refused.total()
        gone = self._first(account, report.gone)
        events = account.first(Limit.EVENTS, _EVENTS_PER_CONTAINER * self._max_new, report.events)
        ended = {*gone, *(each.container for each in events if each.container)}
        unknown = ended - account.containers.keys()
        account.update(report)
        state = None if report.state is None else self._state(account, report.state)
        reported = self._first(account, report.containers)
        containers = list(self._containers(account, reported, is_stored=is_stored))
        unknown -= account.containers.keys()
        names = set() if is_stored else self._surplus_names(account, unknown)
        alerts = account.first(Limit.ALERTS, _MAX_ALERTS_PER_HOUR, report.alerts)
        images = self._images(account, report.images)
        heartbeat = report.heartbeat
        if heartbeat is not None:
            account.observe(now, USAGE_SECONDS)
            heartbeat = self._heartbeat(report.node, account, heartbeat)
        if account.refused.total() == refused:
            return report
        account.refused_at = now
        return msgspec.structs.replace(
            report,
            state=state,
            containers=tuple(containers),
            gone=tuple(each for each in gone if each not in names),
            events=tuple(each for each in events if each.container not in names),
            alerts=alerts,
            heartbeat=heartbeat,
            images=images,
        )

    def expect_past(self, node: str, seconds: float) -> None:
        """Let the next heartbeat cover a past that the collector itself has read."""
        self._accounts[node].unobserved_seconds += seconds

    def refuse(self, node: str, limit: Limit, now: float, count: int = 1) -> None:
        """Count what another part of the collector refused of a node."""
        if count:
            account = self._accounts[node]
            account.refuse(limit, count)
            account.refused_at = now

    def forget(self, node: str) -> None:
        """Drop the account of a node that is no longer listed."""
        self._accounts.pop(node, None)

    def refused_of(self, node: str) -> Mapping[Limit, int]:
        """What was refused of one node since the start."""
        account = self._accounts.get(node)
        return {} if account is None else account.refused

    def refused(self, since: float = 0.0) -> Mapping[str, Counter[Limit]]:
        """What was refused since the start, per node that exceeded a limit since a time."""
        return {
            node: account.refused
            for node, account in self._accounts.items()
            if account.refused and account.refused_at >= since
        }

    def _first(self, account: NodeAccount, items: Sequence[Item]) -> Sequence[Item]:
        """The first items, as many as a node may have containers: checking more would take time."""
        kept = items[: self._limits.max_containers]
        account.refuse(Limit.CONTAINERS, len(items) - len(kept))
        return kept

    def _state(self, account: NodeAccount, state: NodeState) -> NodeState:
        bounded = bound_state(state, self._limits)
        account.capacity = bounded.capacity
        if bounded.used is not state.used or bounded.capacity is not state.capacity:
            account.refuse(Limit.CAPACITY)
        if bounded.power is not state.power:
            account.refuse(Limit.POWER)
        gaps = hash(state.gaps)
        if gaps != account.gaps:
            size_bytes = sum(_bytes(each.what) + _bytes(each.why) for each in state.gaps)
            if not self._count_bytes(account, size_bytes):
                account.refuse(Limit.BYTES)
                return msgspec.structs.replace(bounded, gaps=())
            account.gaps = gaps
        return bounded

    def _containers(
        self, account: NodeAccount, containers: Sequence[ContainerState], *, is_stored: bool
    ) -> Iterator[ContainerState]:
        max_labels = self._limits.max_labels
        for reported in containers:
            each = reported if len(reported.labels) <= max_labels else self._with_labels(account, reported)
            held, fingerprint = account.containers.get(each.id, UNKNOWN_CONTAINER), _fingerprint(each)
            # All texts are in the fingerprint: if it is the same, so is the size.
            is_same = held.fingerprint == fingerprint
            size_bytes = held.size_bytes if is_same else _size_bytes(each)
            if not is_same:
                limit = self._exceeded(account, each, held, size_bytes, is_stored=is_stored)
                if limit is not None:
                    account.refuse(limit)
                    account.drop([each.id])
                    continue
            bounded = self._bound(account, each, held)
            watts = 0.0 if bounded.power is None else bounded.power.watts + bounded.power.idle_watts
            if is_same:
                account.change_watts(held, watts)
            else:
                account.put(each.id, KnownContainer(size_bytes, fingerprint, watts))
            yield bounded

    def _exceeded(
        self,
        account: NodeAccount,
        container: ContainerState,
        held: KnownContainer,
        size_bytes: int,
        *,
        is_stored: bool,
    ) -> Limit | None:
        """The limit that keeps a new container out, or a new description of one."""
        limits = self._limits
        if held is UNKNOWN_CONTAINER and len(account.containers) >= limits.max_containers:
            return Limit.CONTAINERS
        if account.container_bytes + size_bytes - held.size_bytes > limits.max_bytes:
            return Limit.BYTES
        if is_stored:
            return None
        if not account.count(Limit.NEW_CONTAINERS, self._max_new):
            return Limit.NEW_CONTAINERS
        return None if self._count_bytes(account, _text_bytes(container)) else Limit.BYTES

    def _bound(self, account: NodeAccount, container: ContainerState, held: KnownContainer) -> ContainerState:
        """The container with its usage and power bounded by what its node can have."""
        room = max(0.0, self._limits.max_node_watts - account.container_watts + held.watts)
        bounded = bound_container(container, account.capacity, room)
        if bounded.used is not container.used:
            account.refuse(Limit.CAPACITY)
        if bounded.power is not container.power:
            account.refuse(Limit.POWER)
        return bounded

    def _count_bytes(self, account: NodeAccount, size_bytes: int) -> bool:
        """Count new texts, which the history keeps for a while; False if there were too many in this hour."""
        return account.count(Limit.BYTES, _TEXT_BYTES * self._max_new, size_bytes)

    def _surplus_names(self, account: NodeAccount, unknown: Iterable[str]) -> set[str]:
        """Ids beyond the limit of containers that only end in this report: the history stores each name."""
        surplus = {each for each in unknown if not account.count(Limit.NEW_CONTAINERS, self._max_new)}
        account.refuse(Limit.NEW_CONTAINERS, len(surplus))
        return surplus

    def _with_labels(self, account: NodeAccount, container: ContainerState) -> ContainerState:
        """The container without its surplus of labels."""
        account.refuse(Limit.LABELS, len(container.labels) - self._limits.max_labels)
        # Labels that Wattpack acts on come first, so that the surplus is among the others.
        items = sorted(container.labels.items(), key=lambda item: not item[0].startswith(_LABEL_PREFIX))
        return msgspec.structs.replace(container, labels=dict(items[: self._limits.max_labels]))

    def _images(self, account: NodeAccount, images: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if images is None or (fingerprint := hash(images)) == account.images:
            return images
        if not self._count_bytes(account, sum(map(_bytes, images))):
            account.refuse(Limit.BYTES)
            return None
        account.images = fingerprint
        return images

    def _heartbeat(self, node: str, account: NodeAccount, heartbeat: Heartbeat) -> Heartbeat:
        refused = account.refused.total()
        usage = tuple(self._usages(node, account, self._observed(account, heartbeat)))
        curve = heartbeat.power_curve
        bounded = None if curve is None else bound_curve(curve, self._limits.max_node_watts)
        if bounded is not curve:
            account.refuse(Limit.POWER)
        if account.refused.total() == refused:
            return heartbeat
        return msgspec.structs.replace(heartbeat, usage=usage, power_curve=bounded)

    def _observed(self, account: NodeAccount, heartbeat: Heartbeat) -> Sequence[ContainerUsage]:
        """The usage, with no more samples of a container than time passed since the last heartbeats."""
        if not heartbeat.usage:
            return heartbeat.usage
        most = account.unobserved_seconds
        sample_seconds = heartbeat.sample_seconds or 1.0
        seconds = [observed_seconds(each, sample_seconds) for each in heartbeat.usage]
        account.unobserved_seconds = max(0.0, most - max(seconds))
        if max(seconds) <= most:
            return heartbeat.usage
        account.refuse(Limit.SAMPLES, sum(each > most for each in seconds))
        return [
            usage if each <= most else scale_samples(usage, most / each)
            for usage, each in zip(heartbeat.usage, seconds, strict=True)
        ]

    def _usages(
        self, node: str, account: NodeAccount, usages: Sequence[ContainerUsage]
    ) -> Iterator[ContainerUsage]:
        max_bytes = self._limits.max_bytes
        most = 2 * self._limits.max_containers
        account.refuse(Limit.CONTAINERS, max(0, len(usages) - most))
        for each in usages[:most]:
            size_bytes = CONTAINER_BYTES // 2 + _BIN_BYTES * _bins(each)
            if account.usage_bytes + size_bytes > max_bytes:
                account.usage_bytes = self._usage.shrink(node, max_bytes // 2)
            if account.usage_bytes + size_bytes > max_bytes:
                account.refuse(Limit.BYTES)
                continue
            account.usage_bytes += size_bytes
            bounded = bound_usage(each, account.capacity)
            if bounded is not each:
                account.refuse(Limit.CAPACITY)
            yield bounded


def _size_bytes(container: ContainerState) -> int:
    return (
        CONTAINER_BYTES
        + 3 * _bytes(container.name)
        + _LABEL_BYTES * len(container.labels)
        + _text_bytes(container)
    )


def _text_bytes(container: ContainerState) -> int:
    labels = container.labels
    texts = (
        container.name,
        container.id,
        container.image or "",
        container.service or "",
        *labels,
        *labels.values(),
    )
    whole = "".join(texts)
    # One text is measured faster than many.
    return len(whole) if whole.isascii() else sum(map(_bytes, texts))


def _bytes(text: str) -> int:
    """The most that a text takes, in memory and on disk."""
    return len(text) if text.isascii() else 4 * len(text)


def _fingerprint(container: ContainerState) -> int:
    """Hash of everything that the history stores once per container and change."""
    return hash(
        (
            container.name,
            container.image,
            container.service,
            tuple(container.labels.items()),
            container.limit,
            container.restarts,
            container.started_at,
        )
    )


def _bins(usage: ContainerUsage) -> int:
    sketches = (usage.cpu, usage.memory, usage.disk, usage.network)
    return sum([len(each.bins) for each in sketches if each is not None])
