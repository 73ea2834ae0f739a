"""The machine: its identity, and its counters of CPU, memory, disks, links and pressure.

psutil reads CPU and memory. Disks and links are read by `devices`, since psutil looks for disks in a fixed
`/sys`, counts the same byte in a logical volume and in its disk, and includes the internal links of
containers.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import TypeVar

import psutil

from agent.sources.devices import (
    NO_DISKS,
    NetworkInterfaces,
    listed,
    may_be_external,
    parse_net_dev,
    read_disks,
    read_interfaces,
)
from agent.sources.files import parse_field, parse_pressure, read_file
from agent.sources.readings import NO_PRESSURE, HostMemory, HostReading, LinkTotals, PressureTotals
from wire.messages import Gap
from wire.text import parse_count

Value = TypeVar("Value")
Other = TypeVar("Other")

_LINKS_KEPT_SECONDS = 60.0
"""Reading the speed of a link takes a global lock of network configuration, so it is cached."""
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class GapRecorder:
    """Isolates the sources of one pass: one that fails becomes a gap, and the others are still read."""

    failures: list[Gap] = field(default_factory=list)

    def read(self, what: str, source: Callable[[], Value], otherwise: Other) -> Value | Other:
        """The value of the source, or `otherwise` if it fails."""
        try:
            return source()
        except Exception as error:  # noqa: BLE001 - one failed source must not stop the others
            self.failures.append(Gap(what, f"cannot be read ({type(error).__name__}: {error})"))
            return otherwise


class HostReader:
    """Reads the host with the proc and sys file systems at these paths."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc = str(proc)
        self._sys = sys
        self._frequency = FrequencyReader(proc, sys)
        self._links = NetworkInterfaces(frozenset(), None)
        self._link_names: frozenset[str] = frozenset()
        self._links_read_at = float("-inf")

    def read(self, monotonic_seconds: float, attempts: GapRecorder) -> HostReading:
        """Read the host once; `host_gaps` lists what has no value, `attempts` what raised an error."""
        proc, attempt = self._proc, attempts.read
        cores, cpu, iowait, steal = attempt("host CPU", lambda: _read_cpu(proc), (None, None, None, None))
        links = attempt("host network", lambda: self._read_links(monotonic_seconds), {})
        disks = attempt("host disk", lambda: read_disks(proc, str(self._sys)), NO_DISKS)
        return HostReading(
            cores=cores,
            cpu_seconds=cpu,
            iowait_seconds=iowait,
            steal_seconds=steal,
            load_1m=attempt("host load", lambda: parse_load(read_file(f"{proc}/loadavg")), None),
            frequency_hertz=attempt("host frequency", lambda: self._frequency.read(monotonic_seconds), None),
            memory=attempt("host memory", lambda: _read_memory(proc), HostMemory()),
            oom_kills=attempt(
                "host OOM kills", lambda: parse_field(read_file(f"{proc}/vmstat"), b"oom_kill"), None
            ),
            disks=disks.totals,
            skipped_devices=disks.skipped_devices,
            links=links,
            network_capacity_bytes_per_second=self._links.capacity_bytes_per_second,
            pressure=attempt("host pressure", lambda: read_host_pressure(proc), NO_PRESSURE),
        )

    def _read_links(self, monotonic_seconds: float) -> dict[str, LinkTotals]:
        # Process 1 is in the host's network namespace, even if the agent is not.
        text = read_file(f"{self._proc}/1/net/dev") or read_file(f"{self._proc}/net/dev") or b""
        found = parse_net_dev(text)
        names = frozenset(filter(may_be_external, found))
        if names != self._link_names or monotonic_seconds - self._links_read_at >= _LINKS_KEPT_SECONDS:
            self._links = read_interfaces(self._sys, found)
            self._link_names, self._links_read_at = names, monotonic_seconds
        return {name: each for name, each in found.items() if name in self._links.names}


def host_gaps(host: HostReading) -> list[Gap]:
    """What cannot be measured on this host."""
    gaps = []
    if host.frequency_hertz is None:
        gaps.append(Gap("host frequency", "neither a cpufreq driver nor /proc/cpuinfo reports it"))
    if not host.disks:
        gaps.append(Gap("host disk", "the kernel lists no disk under /sys/block"))
    if not host.links:
        gaps.append(Gap("host network", "this host has no external network link"))
    if host.pressure == NO_PRESSURE:
        gaps.append(Gap("host pressure", "the kernel does not measure it; boot with psi=1 if it supports it"))
    return gaps


def parse_load(text: bytes | None) -> float | None:
    """The load average over a minute, from `/proc/loadavg`."""
    try:
        load = float((text or b"").split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None
    return load if 0 <= load < float("inf") else None


def parse_swap_used_bytes(meminfo: bytes) -> int | None:
    """Used swap, from `/proc/meminfo`."""
    total, free = (parse_field(meminfo.replace(b" kB", b""), key) for key in (b"SwapTotal:", b"SwapFree:"))
    return None if total is None or free is None else max(0, total - free) * _KIBIBYTE


def read_host_pressure(proc: str) -> PressureTotals:
    """The host's totals, from `/proc/pressure`."""
    return parse_pressure(*(read_file(f"{proc}/pressure/{resource}") for resource in ("cpu", "memory", "io")))


@contextmanager
def _psutil_at(proc: str) -> Iterator[None]:
    """Set the proc path of psutil while the block runs; the setting is global."""
    before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, proc
    try:
        yield
    finally:
        psutil.PROCFS_PATH = before


def _read_cpu(proc: str) -> tuple[float, float, float, float]:
    """The number of cores, and the seconds that they were busy, waited for I/O, and were stolen."""
    with _psutil_at(proc):
        processors = psutil.cpu_times(percpu=True)
    # Guest time is part of user and nice. Stolen time is work of other machines.
    busy = sum(p.user + p.nice + p.system + p.irq + p.softirq for p in processors)
    return len(processors), busy, sum(p.iowait for p in processors), sum(p.steal for p in processors)


def _read_memory(proc: str) -> HostMemory:
    with _psutil_at(proc):
        memory = psutil.virtual_memory()
    return HostMemory(
        total_bytes=memory.total,
        available_bytes=memory.available,
        cache_bytes=memory.cached,
        swap_used_bytes=parse_swap_used_bytes(read_file(f"{proc}/meminfo") or b""),
    )


# --- The CPU clock rate -------------------------------------------------------------------------

_CORES_PER_PASS = 8
_MAX_READ_SECONDS = 0.002
_KEPT_SECONDS = 60.0
"""How long the list of cores and the rates of /proc/cpuinfo are cached."""
_HERTZ_PER_KILOHERTZ = 1000
_HERTZ_PER_MEGAHERTZ = 1_000_000
_CORE = re.compile(r"cpu[0-9]+")
_CPUINFO_MEGAHERTZ = re.compile(rb"^cpu MHz\s*:\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)$", re.MULTILINE)


def parse_cpuinfo_hertz(text: bytes) -> float | None:
    """The mean over the cores in `/proc/cpuinfo`; None if the architecture does not list rates."""
    rates = [float(rate) for rate in _CPUINFO_MEGAHERTZ.findall(text)]
    return fmean(rates) * _HERTZ_PER_MEGAHERTZ if rates else None


class FrequencyReader:
    """Reads the mean clock rate from the cpufreq driver, or from /proc/cpuinfo without one.

    Reading the rate of a core may interrupt it, and kernels before 5.18 take 10 ms for each. So one pass
    reads at most eight cores, fewer if that takes long, and the next pass continues with the next ones.
    Within a minute, all cores of most hosts are read.
    """

    def __init__(self, proc: Path, sys: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._cpuinfo = f"{proc}/cpuinfo"
        self._cores = f"{sys}/devices/system/cpu"
        self._clock = clock
        self._files: list[str] = []
        self._next = 0
        self._from_cpuinfo: float | None = None
        self._renew_at = float("-inf")

    def read(self, monotonic_seconds: float) -> float | None:
        """The clock rate in hertz; None if unknown."""
        if monotonic_seconds >= self._renew_at:
            self._files = self._list_files()
            self._from_cpuinfo = None if self._files else parse_cpuinfo_hertz(read_file(self._cpuinfo) or b"")
            self._renew_at = monotonic_seconds + _KEPT_SECONDS
        if not self._files:
            return self._from_cpuinfo
        rates, began = [], self._clock()
        for _ in range(min(_CORES_PER_PASS, len(self._files))):
            self._next = (self._next + 1) % len(self._files)
            kilohertz = parse_count(read_file(self._files[self._next]))
            if kilohertz is not None:
                rates.append(kilohertz)
            if self._clock() - began > _MAX_READ_SECONDS:
                break
        return fmean(rates) * _HERTZ_PER_KILOHERTZ if rates else None

    def _list_files(self) -> list[str]:
        names = sorted(filter(_CORE.fullmatch, listed(self._cores)))
        files = [f"{self._cores}/{name}/cpufreq/scaling_cur_freq" for name in names]
        return [file for file in files if read_file(file) is not None]


# --- Identity -----------------------------------------------------------------------------------

_MACHINE_KEY = b"wattpack machine"
_DIGEST_BYTES = 16


def read_machine(sys: str, etc: str = "/etc") -> str | None:
    """A hash of the machine's id, or of its serial number; None if neither can be read.

    It distinguishes two machines that report under the same name. The id itself is confidential: see
    machine-id(5).
    """
    for path in (f"{etc}/machine-id", f"{sys}/class/dmi/id/product_uuid"):
        text = (read_file(path) or b"").strip()
        if text and text != b"uninitialized":
            return blake2b(text, key=_MACHINE_KEY, digest_size=_DIGEST_BYTES).hexdigest()
    return None
