"""Computes rates from the counters of two readings. Pure.

A counter that decreases was reset: its rate is unknown for that interval, and the next one starts from the
new value. A new container has levels (memory) but no rates yet. A container that ends is counted up to its
last reading: its later usage, at most one interval, is unknown because its cgroup is gone.
"""

from collections.abc import Iterable, Mapping

import msgspec

from agent.sources.readings import ContainerReading, DiskTotals, LinkTotals, PressureTotals, Reading
from wire.messages import Pressure
from wire.resources import Quantities, Resource


class ContainerRates(msgspec.Struct, frozen=True, gc=False):
    """One container over one interval."""

    id: str
    runtime: str
    cpu_seconds_total: float
    used: Quantities
    limit: Quantities
    """Limits by CPU quota, cpuset and memory limit; absent without a limit."""
    pressure: Pressure
    pod: str | None = None
    """UID of its pod."""
    cpu_user_seconds_total: float | None = None
    cpu_system_seconds_total: float | None = None
    cpu_throttled_seconds_total: float | None = None
    cpu_weight: float | None = None
    """CPU weight relative to the default of 1."""
    memory_usage_bytes: int | None = None
    memory_anon_bytes: int | None = None
    memory_file_bytes: int | None = None
    oom_kills_total: int | None = None
    disk_operations_per_second: float | None = None
    disk_read_bytes_total: int | None = None
    disk_written_bytes_total: int | None = None
    network_receive_bytes_total: int | None = None
    network_transmit_bytes_total: int | None = None
    pids: int | None = None
    started_at: float | None = None
    """Unix time of its start, by the kernel."""


class HostRates(msgspec.Struct, frozen=True, gc=False):
    """The host and its containers over one interval."""

    unix_seconds: float
    interval_seconds: float
    used: Quantities
    capacity: Quantities
    pressure: Pressure
    learned_capacities: tuple[Resource, ...] = ()
    """Resources whose capacity is the highest usage observed so far."""
    load_1m: float | None = None
    frequency_hertz: float | None = None
    iowait_ratio: float | None = None
    steal_ratio: float | None = None
    memory_cache_bytes: int | None = None
    swap_used_bytes: int | None = None
    disk_operations_per_second: float | None = None
    disk_busy_ratio: float | None = None
    """Share of time that the busiest disk was active."""
    oom_kills_total: int | None = None
    disks: Mapping[str, DiskTotals] = {}
    links: Mapping[str, LinkTotals] = {}
    containers: tuple[ContainerRates, ...] = ()


def compute_rates(previous: Reading, current: Reading) -> HostRates:
    """Compute the rates between two readings of the same host."""
    seconds = max(0.0, current.monotonic_seconds - previous.monotonic_seconds)
    before, host = previous.host, current.host
    # Only disks and links in both readings count: one that was just added is not a burst.
    disks = [(before.disks[name], now) for name, now in host.disks.items() if name in before.disks]
    links = [(before.links[name], now) for name, now in host.links.items() if name in before.links]
    containers_before = {container.id: container for container in previous.containers}
    core_seconds = seconds * (host.cores or 0)
    return HostRates(
        unix_seconds=current.unix_seconds,
        interval_seconds=seconds,
        used=Quantities(
            cpu_cores=_cores(before.cpu_seconds, host.cpu_seconds, seconds, host.cores),
            memory_bytes=host.memory.used_bytes,
            disk_bytes_per_second=_sum(
                _rate(old.transferred_bytes, new.transferred_bytes, seconds) for old, new in disks
            ),
            network_bytes_per_second=_sum(
                _rate(old.transferred_bytes, new.transferred_bytes, seconds) for old, new in links
            ),
        ),
        capacity=Quantities(
            cpu_cores=host.cores,
            memory_bytes=host.memory.total_bytes,
            network_bytes_per_second=host.network_capacity_bytes_per_second,
        ),
        pressure=_pressure(before.pressure, host.pressure, seconds),
        load_1m=host.load_1m,
        frequency_hertz=host.frequency_hertz,
        iowait_ratio=_ratio(before.iowait_seconds, host.iowait_seconds, core_seconds),
        steal_ratio=_ratio(before.steal_seconds, host.steal_seconds, core_seconds),
        memory_cache_bytes=host.memory.cache_bytes,
        swap_used_bytes=host.memory.swap_used_bytes,
        disk_operations_per_second=_sum(_rate(old.operations, new.operations, seconds) for old, new in disks),
        disk_busy_ratio=max(
            _not_none(_ratio(old.busy_seconds, new.busy_seconds, seconds) for old, new in disks), default=None
        ),
        oom_kills_total=host.oom_kills,
        disks=host.disks,
        links=host.links,
        containers=tuple(_container(containers_before.get(c.id), c, host.cores) for c in current.containers),
    )


def _container(before: ContainerReading | None, now: ContainerReading, cores: float | None) -> ContainerRates:
    if before is None or now.cgroup.cpu.seconds < before.cgroup.cpu.seconds:
        # Less CPU time than before means a restart under the same ID: all counters start again.
        before = now
    seconds = now.monotonic_seconds - before.monotonic_seconds
    old, new = before.cgroup, now.cgroup
    network_before, network = before.network, now.network
    return ContainerRates(
        id=now.id,
        runtime=now.runtime,
        pod=now.pod,
        cpu_seconds_total=new.cpu.seconds,
        used=Quantities(
            cpu_cores=_cores(old.cpu.seconds, new.cpu.seconds, seconds, cores),
            memory_bytes=new.memory.working_set_bytes,
            disk_bytes_per_second=_rate(old.disk.transferred_bytes, new.disk.transferred_bytes, seconds),
            network_bytes_per_second=None
            if network_before is None or network is None
            else _rate(network_before.transferred_bytes, network.transferred_bytes, seconds),
        ),
        limit=Quantities(cpu_cores=new.limits.cpu_cores, memory_bytes=new.limits.memory_bytes),
        pressure=_pressure(old.pressure, new.pressure, seconds),
        cpu_user_seconds_total=new.cpu.user_seconds,
        cpu_system_seconds_total=new.cpu.system_seconds,
        cpu_throttled_seconds_total=new.cpu.throttled_seconds,
        cpu_weight=new.cpu_weight,
        memory_usage_bytes=new.memory.usage_bytes,
        memory_anon_bytes=new.memory.anon_bytes,
        memory_file_bytes=new.memory.file_bytes,
        oom_kills_total=new.memory.oom_kills,
        disk_operations_per_second=_rate(old.disk.operations, new.disk.operations, seconds),
        disk_read_bytes_total=new.disk.read_bytes,
        disk_written_bytes_total=new.disk.written_bytes,
        network_receive_bytes_total=None if network is None else network.received_bytes,
        network_transmit_bytes_total=None if network is None else network.sent_bytes,
        pids=new.pids,
        started_at=now.started_at,
    )


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    if before is None or now is None or now < before or seconds <= 0:
        return None
    return (now - before) / seconds


def _cores(before: float | None, now: float | None, seconds: float, cores: float | None) -> float | None:
    """CPU time per second; clock ticks can make it exceed the number of cores slightly."""
    rate = _rate(before, now, seconds)
    return rate if rate is None or cores is None else min(rate, cores)


def _pressure(before: PressureTotals, now: PressureTotals, seconds: float) -> Pressure:
    return Pressure(
        cpu_ratio=_ratio(before.cpu_seconds, now.cpu_seconds, seconds),
        memory_ratio=_ratio(before.memory_seconds, now.memory_seconds, seconds),
        disk_ratio=_ratio(before.disk_seconds, now.disk_seconds, seconds),
    )


def _ratio(before: float | None, now: float | None, seconds: float) -> float | None:
    rate = _rate(before, now, seconds)
    return None if rate is None else min(rate, 1.0)


def _not_none(numbers: Iterable[float | None]) -> list[float]:
    return [number for number in numbers if number is not None]


def _sum(numbers: Iterable[float | None]) -> float | None:
    """The sum without unknown values; None if all are unknown."""
    values = _not_none(numbers)
    return sum(values) if values else None
