"""Limits per node: what one node can claim, however much it sends.

A token lets its holder report anything about its own node. So each node has a budget of memory in the
collector, and its claims are bounded by its own capacity. A claim above a limit is dropped from the report;
the rest of the report, and every other node, is processed as usual. What was dropped is counted per node.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from collector.config import LimitsConfig
from wire.messages import ContainerState, ContainerUsage, Heartbeat, Report
from wire.resources import Quantities
from wire.sketch import Sketch, bin_of

_HOUR_SECONDS: Final = 3600.0
_TOLERANCE: Final = 1.25
"""A rate over a short interval can exceed the number of cores, because clocks have ticks."""
CONTAINER_BYTES: Final = 3072
"""Memory of a running container besides its texts: its columns and windows, and the objects that hold it."""
_LABEL_BYTES: Final = 160
_BIN_BYTES: Final = 6
_UNKNOWN: Final = Quantities()
_LABEL_PREFIX: Final = "wattpack."


class Limit(StrEnum):
    """The limits that a node can exceed."""

    CONTAINERS = "containers"
    NEW_CONTAINERS = "new_containers"
    LABELS = "labels"
    BYTES = "bytes"
    CAPACITY = "capacity"
    """Usage of a container above the capacity of its node; it counts as the capacity."""


class UsageStore(Protocol):
    """The usage of nodes in memory; `Registry` implements it."""

    def shrink_usage(self, node: str, max_bytes: int) -> int:
        """Drop usage of ended containers until a node is within a size; returns its size after that."""


@dataclass(slots=True)
class _Account:
    """What one node uses of its limits."""

    containers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Size and fingerprint of each container."""
    container_bytes: int = 0
    usage_bytes: int = 0
    """An upper bound of the size of its usage, until it is measured."""
    capacity: Quantities = _UNKNOWN
    hour: int = 0
    new_containers: int = 0
    """In this hour."""
    refused: Counter[Limit] = field(default_factory=Counter)
    refused_at: float = 0.0

    def update(self, report: Report, now: float) -> None:
        """Count what a report ends, before its containers are admitted."""
        if (hour := int(now // _HOUR_SECONDS)) != self.hour:
            self.hour, self.new_containers = hour, 0
        if report.state is not None:
            self.capacity = report.state.capacity
        self.drop(report.gone)
        if report.heartbeat is not None:
            running = {each.id for each in report.containers}
            self.drop([each for each in self.containers if each not in running])

    def refuse(self, limit: Limit, count: int = 1) -> None:
        """Count what was refused."""
        if count:
            self.refused[limit] += count

    def put(self, container: str, size_bytes: int, fingerprint: int) -> None:
        before, _ = self.containers.get(container, (0, 0))
        self.containers[container] = (size_bytes, fingerprint)
        self.container_bytes += size_bytes - before

    def drop(self, containers: Iterable[str]) -> None:
        for container in containers:
            size_bytes, _ = self.containers.pop(container, (0, 0))
            self.container_bytes -= size_bytes


class Admission:
    """Applies the limits to reports before they are stored. Not thread-safe."""

    def __init__(self, limits: LimitsConfig, usage: UsageStore) -> None:
        self._limits = limits
        self._usage = usage
        self._accounts: dict[str, _Account] = {}

    def admit(self, report: Report, now: float, *, is_stored: bool = False) -> Report:
        """The part of a report that is within the limits of its node: the same object if all of it is.

        `is_stored` is for a report from the history: its containers are not new.
        """
        account = self._accounts.get(report.node)
        if account is None:
            account = self._accounts[report.node] = _Account()
        account.update(report, now)
        if report.heartbeat is None and not report.containers and not report.gone:
            return report
        refused = account.refused.total()
        containers = list(self._containers(account, report.containers, is_stored=is_stored))
        gone = report.gone[: self._limits.max_containers]
        account.refuse(Limit.CONTAINERS, len(report.gone) - len(gone))
        heartbeat = report.heartbeat
        if heartbeat is not None:
            heartbeat = self._heartbeat(report.node, account, heartbeat)
        if account.refused.total() == refused:
            return report
        account.refused_at = now
        return msgspec.structs.replace(report, containers=tuple(containers), gone=gone, heartbeat=heartbeat)

    def forget(self, node: str) -> None:
        """Drop the account of a node that is no longer listed."""
        self._accounts.pop(node, None)

    def refused(self) -> Mapping[str, Counter[Limit]]:
        """What was refused, per node that exceeded a limit, since the start."""
        return {node: account.refused for node, account in self._accounts.items() if account.refused}

    def refused_of(self, node: str) -> Mapping[Limit, int]:
        """What was refused of one node."""
        account = self._accounts.get(node)
        return {} if account is None else account.refused

    def over_limit(self, since: float) -> Mapping[str, Counter[Limit]]:
        """As `refused`, for the nodes that exceeded a limit since a time."""
        return {
            node: account.refused
            for node, account in self._accounts.items()
            if account.refused and account.refused_at >= since
        }

    def _containers(
        self, account: _Account, containers: Sequence[ContainerState], *, is_stored: bool
    ) -> Iterator[ContainerState]:
        limits = self._limits
        for reported in containers:
            each = self._with_labels(account, reported)
            size_bytes, fingerprint = _size_bytes(each), _fingerprint(each)
            held_bytes, known = account.containers.get(each.id, (0, None))
            if known is None and len(account.containers) >= limits.max_containers:
                account.refuse(Limit.CONTAINERS)
            elif account.container_bytes + size_bytes - held_bytes > limits.max_bytes:
                account.refuse(Limit.BYTES)
            elif known != fingerprint and not is_stored and not self._count_new(account):
                account.refuse(Limit.NEW_CONTAINERS)
            else:
                account.put(each.id, size_bytes, fingerprint)
                yield _within_capacity(account, each)
                continue
            account.drop([each.id])

    def _count_new(self, account: _Account) -> bool:
        """Count a new container, or a new description of one; False if there were too many in this hour."""
        if account.new_containers >= self._limits.max_new_containers_per_hour:
            return False
        account.new_containers += 1
        return True

    def _with_labels(self, account: _Account, container: ContainerState) -> ContainerState:
        surplus = len(container.labels) - self._limits.max_labels
        if surplus <= 0:
            return container
        account.refuse(Limit.LABELS, surplus)
        # Labels that Wattpack acts on come first, so that the surplus is among the others.
        items = sorted(container.labels.items(), key=lambda item: not item[0].startswith(_LABEL_PREFIX))
        return msgspec.structs.replace(container, labels=dict(items[: self._limits.max_labels]))

    def _heartbeat(self, node: str, account: _Account, heartbeat: Heartbeat) -> Heartbeat:
        refused = account.refused.total()
        usage = tuple(self._usages(node, account, heartbeat.usage))
        if account.refused.total() == refused:
            return heartbeat
        return msgspec.structs.replace(heartbeat, usage=usage)

    def _usages(
        self, node: str, account: _Account, usages: Sequence[ContainerUsage]
    ) -> Iterator[ContainerUsage]:
        max_bytes = self._limits.max_bytes
        most = 2 * self._limits.max_containers
        account.refuse(Limit.CONTAINERS, max(0, len(usages) - most))
        for each in usages[:most]:
            size_bytes = CONTAINER_BYTES // 2 + _BIN_BYTES * _bins(each)
            if account.usage_bytes + size_bytes > max_bytes:
                account.usage_bytes = self._usage.shrink_usage(node, max_bytes // 2)
            if account.usage_bytes + size_bytes > max_bytes:
                account.refuse(Limit.BYTES)
                continue
            account.usage_bytes += size_bytes
            yield _usage_within_capacity(account, each)


def _size_bytes(container: ContainerState) -> int:
    labels = container.labels
    return (
        CONTAINER_BYTES
        + 4 * len(container.name)
        + len(container.id)
        + len(container.image or "")
        + len(container.service or "")
        + sum(len(key) + len(value) + _LABEL_BYTES for key, value in labels.items())
    )


def _fingerprint(container: ContainerState) -> int:
    """Of all that the history stores once per container and change."""
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
    return sum(len(sketch.bins) for sketch in sketches if sketch is not None)


def _within_capacity(account: _Account, container: ContainerState) -> ContainerState:
    """The container with its CPU and memory usage bounded by the capacity of its node.

    Disk and network have no such bound: page cache and traffic between containers do not use the devices.
    """
    used, capacity = container.used, account.capacity
    cores = _bounded(used.cpu_cores, capacity.cpu_cores)
    memory_bytes = _bounded(used.memory_bytes, capacity.memory_bytes)
    if cores is used.cpu_cores and memory_bytes is used.memory_bytes:
        return container
    account.refuse(Limit.CAPACITY)
    bounded = msgspec.structs.replace(used, cpu_cores=cores, memory_bytes=memory_bytes)
    return msgspec.structs.replace(container, used=bounded)


def _bounded(value: float | None, capacity: float | None) -> float | None:
    return capacity if value and capacity and value > _TOLERANCE * capacity else value


def _usage_within_capacity(account: _Account, usage: ContainerUsage) -> ContainerUsage:
    cpu = _sketch_within(usage.cpu, account.capacity.cpu_cores)
    memory = _sketch_within(usage.memory, account.capacity.memory_bytes)
    if cpu is usage.cpu and memory is usage.memory:
        return usage
    account.refuse(Limit.CAPACITY)
    return msgspec.structs.replace(usage, cpu=cpu, memory=memory)


def _sketch_within(sketch: Sketch | None, capacity: float | None) -> Sketch | None:
    if sketch is None or not capacity or not sketch.bins:
        return sketch
    if max(sketch.bins) <= bin_of(_TOLERANCE * capacity):
        return sketch
    bounded, highest = Sketch(zeros=sketch.zeros), bin_of(capacity)
    for reported, count in sketch.bins.items():
        index = min(reported, highest)
        bounded.bins[index] = bounded.bins.get(index, 0) + count
    return bounded
