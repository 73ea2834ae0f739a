"""A fake powercap tree with the kernel's layout, whose counters follow a known power curve.

It needs no meter and no root: `PowercapTree(folder, machine)` writes `folder/sys`, which a reader uses
instead of `/sys`. `advance(to_seconds)` sets every counter to the integral of its curve, with wraparound;
`live()` does that in real time, for a reader in another process. `joules(zone)` returns the true energy.

A counter's file is replaced atomically, so that a reader never reads half a number. A reader must open it for
every reading: an open descriptor keeps the old number.
"""

import bisect
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path

# Ranges of counters, as the driver prints them: 32 bits times the unit, which it rounds to nanojoules.
INTEL_RANGE_UJ = (2**32 - 1) * 61_035 // 1000
SERVER_DRAM_RANGE_UJ = (2**32 - 1) * 15_300 // 1000
AMD_RANGE_UJ = (2**32 - 1) * 15_258 // 1000


@dataclass(frozen=True, slots=True)
class Curve:
    """Watts stopped time as straight lines between points, so that the integral is exact.

    Before the first point and after the last the curve is level. Two points at one time are a step.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not self.points or any(later < earlier for (earlier, _), (later, _) in pairwise(self.points)):
            raise ValueError("a curve needs points in the order of time")

    def watts(self, at_seconds: float) -> float:
        """Return the power at one instant; at a step, the later one."""
        after = bisect.bisect_right(self.points, at_seconds, key=lambda point: point[0])
        return self._between(after, at_seconds)

    def joules(self, from_seconds: float, to_seconds: float) -> float:
        """Return the energy between two instants."""
        arriving = bisect.bisect_left(self.points, to_seconds, key=lambda point: point[0])
        inside = [point for point in self.points if from_seconds < point[0] < to_seconds]
        corners = [
            (from_seconds, self.watts(from_seconds)),
            *inside,
            (to_seconds, self._between(arriving, to_seconds)),
        ]
        return sum((end - start) * (low + high) / 2 for (start, low), (end, high) in pairwise(corners))

    def times(self, factor: float) -> "Curve":
        """Scale the curve, for the share of a subzone in its package."""
        return Curve(tuple((at, watts * factor) for at, watts in self.points))

    def _between(self, after: int, at_seconds: float) -> float:
        """Return the power on the line that ends in the point with index `after`."""
        if after in (0, len(self.points)):
            return self.points[max(0, after - 1)][1]
        (start, low), (end, high) = self.points[after - 1], self.points[after]
        return low + (high - low) * (at_seconds - start) / (end - start)


def constant(watts: float) -> Curve:
    """Make a curve of constant power."""
    return Curve(((0.0, watts),))


def steps(*levels: tuple[float, float]) -> Curve:
    """Make a curve of levels as `(from_seconds, watts)`, each until the next one."""
    ends = [(after, watts) for (_, watts), (after, _) in pairwise(levels)]
    return Curve(tuple(sorted([*ends, *levels], key=lambda point: point[0])))


@dataclass(frozen=True, slots=True)
class Zone:
    """A power zone: its name, its power, and the range of its counter."""

    name: str
    curve: Curve
    range_uj: int = INTEL_RANGE_UJ
    constraints: tuple[str, ...] = ()
    subzones: tuple["Zone", ...] = ()


Machine = Mapping[str, tuple[Zone, ...]]
"""Control types ("intel-rapl") with their top-level zones, in the order of the driver."""

_LIMITS = ("long_term", "short_term")


def intel(*packages: Curve, dies: int = 1, psys: Curve | None = None, mmio: bool = False) -> Machine:
    """Make one socket per curve. Several dies share their socket's power; each is a package for the driver.

    One socket has core and uncore, like desktops; several have dram, like servers. `psys` is a top-level zone
    after the first package; `mmio` lists the packages a second time in the other interface.
    """
    parts: tuple[tuple[str, float, int], ...] = (
        (("core", 0.6, INTEL_RANGE_UJ), ("uncore", 0.1, INTEL_RANGE_UJ))
        if len(packages) == 1
        else (("dram", 0.2, SERVER_DRAM_RANGE_UJ),)
    )
    zones: list[Zone] = []
    for socket, package in enumerate(packages):
        for die in range(dies):
            curve = package.times(1 / dies)
            subzones = tuple(
                Zone(name, curve.times(share), range_uj, _LIMITS[:1]) for name, share, range_uj in parts
            )
            name = f"package-{socket}-die-{die}" if dies > 1 else f"package-{socket}"
            zones.append(Zone(name, curve, constraints=_LIMITS, subzones=subzones))
            if psys is not None and len(zones) == 1:
                zones.append(Zone("psys", psys, constraints=_LIMITS))
    machine = {"intel-rapl": tuple(zones)}
    if mmio:
        machine["intel-rapl-mmio"] = tuple(
            Zone(zone.name, zone.curve, constraints=_LIMITS) for zone in zones if zone.name != "psys"
        )
    return machine


def amd(*packages: Curve) -> Machine:
    """Make one socket per curve: the same tree under the same name, with core only and without limits."""
    return {
        "intel-rapl": tuple(
            Zone(
                f"package-{socket}", curve, AMD_RANGE_UJ, (), (Zone("core", curve.times(0.7), AMD_RANGE_UJ),)
            )
            for socket, curve in enumerate(packages)
        )
    }


class Fault(Enum):
    """An error that a reader gets instead of a number, even as root.

    Mode bits do not stop root, so the first two are links to files that the kernel itself protects:
    nobody can open a write-only setting for reading, and nothing is mapped at address zero.
    """

    EACCES = "/proc/sys/vm/compact_memory"
    EIO = "/proc/self/mem"
    ENOENT = None


@dataclass(slots=True)
class _Counter:
    """The counter of a zone: its value when it last started to count, and the time of that."""

    folder: Path
    curve: Curve
    range_uj: int
    register_uj: int
    counted_uj: int = 0
    since_seconds: float = 0.0

    def at(self, now_seconds: float) -> tuple[int, int]:
        """Return the register, which wraps to zero after its range, and the total since the start."""
        gained_uj = round(self.curve.joules(self.since_seconds, now_seconds) * 1e6)
        return (self.register_uj + gained_uj) % (self.range_uj + 1), self.counted_uj + gained_uj

    def restart(self, now_seconds: float, *, since_seconds: float, keep_register: bool) -> None:
        """Continue to count at `since_seconds`; the time until then is not counted."""
        register_uj, self.counted_uj = self.at(now_seconds)
        self.register_uj = register_uj if keep_register else 0
        self.since_seconds = since_seconds


class PowercapTree:
    """The tree in `folder/sys`, at time zero of its curves.

    Zones have their device names ("intel-rapl:0:1"). `ranges_uj` sets a smaller range of a counter, so that
    it wraps earlier; `registers_uj` sets the initial values.
    """

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        *,
        ranges_uj: Mapping[str, int] | None = None,
        registers_uj: Mapping[str, int] | None = None,
    ) -> None:
        self.sys = folder / "sys"
        self._scratch = folder / "scratch"
        self._ranges_uj = dict(ranges_uj or {})
        self._registers_uj = dict(registers_uj or {})
        self._counters: dict[str, _Counter] = {}
        self._failed: dict[Path, str] = {}
        """Files that cannot be read now, with their previous contents."""
        self._now_seconds = 0.0
        self._lock = threading.RLock()
        self._scratch.mkdir(parents=True)
        for control_type, zones in machine.items():
            device = self.sys / "devices/virtual/powercap" / control_type
            self._make_device(device, {"enabled": "1"})
            for index, zone in enumerate(zones):
                self._make_zone(device, index, zone)
        if unknown := (self._ranges_uj.keys() | self._registers_uj.keys()) - self._counters.keys():
            raise ValueError(f"no such zone: {', '.join(sorted(unknown))}")

    def host_root(self) -> Path:
        """The root of a host with this `sys`, and with the machine's own `proc`."""
        proc = self.sys.parent / "proc"
        if not proc.is_symlink():
            proc.symlink_to("/proc")
        return self.sys.parent

    @property
    def zones(self) -> tuple[str, ...]:
        """The device names of all zones."""
        return tuple(self._counters)

    def joules(self, zone: str) -> float:
        """Return the energy that the zone has counted so far, regardless of wraps, resets and faults."""
        with self._lock:
            return self._counters[zone].at(self._now_seconds)[1] / 1e6

    def advance(self, to_seconds: float) -> None:
        """Advance the time to `to_seconds`, and set every counter accordingly."""
        with self._lock:
            if to_seconds < self._now_seconds:
                raise ValueError(f"it is already {self._now_seconds} s: time cannot go back")
            self._now_seconds = to_seconds
            for counter in self._counters.values():
                self._write_counter(counter)

    def reset(self, zone: str) -> None:
        """Reset a counter to zero."""
        with self._lock:
            counter = self._counters[zone]
            counter.restart(self._now_seconds, since_seconds=self._now_seconds, keep_register=False)
            self._write_counter(counter)

    def suspend(self, seconds: float, *, keep_registers: bool) -> None:
        """Advance the time without counting: suspend-to-RAM loses registers, suspend-to-idle keeps them."""
        with self._lock:
            awake_seconds = self._now_seconds + seconds
            for counter in self._counters.values():
                counter.restart(self._now_seconds, since_seconds=awake_seconds, keep_register=keep_registers)
            self.advance(awake_seconds)

    def fail(self, zone: str, file: str, fault: Fault) -> None:
        """Make a zone's file unreadable; its counter continues."""
        with self._lock:
            path = self._counters[zone].folder / file
            if path not in self._failed:
                self._failed[path] = path.read_text()
            path.unlink(missing_ok=True)
            if fault.value is not None:
                path.symlink_to(fault.value)

    def heal(self, zone: str, file: str) -> None:
        """Make a file readable again; its counter has the value that it would have without the fault."""
        with self._lock:
            counter = self._counters[zone]
            path = counter.folder / file
            self._write(path, self._failed.pop(path))
            self._write_counter(counter)

    @contextmanager
    def live(
        self, *, clock: Callable[[], float] = time.monotonic, period_seconds: float = 0.02
    ) -> Iterator[None]:
        """Advance the time with the clock while the block runs."""
        began_seconds = clock()
        stopped = threading.Event()

        def advance_with_clock() -> None:
            before_seconds = began_seconds
            while not stopped.wait(period_seconds):
                now_seconds = clock()
                with self._lock:
                    self.advance(self._now_seconds + now_seconds - before_seconds)
                before_seconds = now_seconds

        with ThreadPoolExecutor(1, "powercap") as pool:
            advancing = pool.submit(advance_with_clock)
            try:
                yield
            finally:
                stopped.set()
            advancing.result()

    def _make_zone(self, parent: Path, index: int, zone: Zone) -> None:
        device = parent / f"{parent.name}:{index:x}"
        range_uj = self._ranges_uj.get(device.name, zone.range_uj)
        attributes = {
            "enabled": "1" if len(zone.constraints) > 1 else "0",
            "max_energy_range_uj": str(range_uj),
            "name": zone.name,
        }
        for number, constraint in enumerate(zone.constraints):
            attributes[f"constraint_{number}_name"] = constraint
            attributes[f"constraint_{number}_power_limit_uw"] = "200000000"
            attributes[f"constraint_{number}_time_window_us"] = "976"
            attributes[f"constraint_{number}_max_power_uw"] = "0"
        self._make_device(device, attributes)
        (device / "device").symlink_to(f"../../{parent.name}")
        counter = _Counter(device, zone.curve, range_uj, self._registers_uj.get(device.name, 0))
        self._counters[device.name] = counter
        self._write_counter(counter)
        for child_index, child in enumerate(zone.subzones):
            self._make_zone(device, child_index, child)

    def _make_device(self, device: Path, attributes: Mapping[str, str]) -> None:
        """Make the folder of a device, and the link of its class to it, as the kernel does."""
        group = self.sys / "class/powercap"
        (device / "power").mkdir(parents=True)
        group.mkdir(parents=True, exist_ok=True)
        (group / device.name).symlink_to(os.path.relpath(device, group))
        (device / "subsystem").symlink_to(os.path.relpath(group, device))
        self._write(device / "uevent", "")
        for file, text in {"control": "auto", "runtime_status": "unsupported"}.items():
            self._write(device / "power" / file, f"{text}\n")
        for file, text in attributes.items():
            self._write(device / file, f"{text}\n")

    def _write_counter(self, counter: _Counter) -> None:
        path = counter.folder / "energy_uj"
        if path not in self._failed:
            self._write(path, f"{counter.at(self._now_seconds)[0]}\n")

    def _write(self, path: Path, text: str) -> None:
        new = self._scratch / "new"
        new.write_text(text)
        new.chmod(_mode(path.name))
        new.rename(path)


def _mode(file: str) -> int:
    if file == "energy_uj":
        return 0o400  # only root may read it since 5.10, because it can leak what is computed
    settable = ("enabled", "control", "uevent", "_power_limit_uw", "_time_window_us")
    return 0o644 if file.endswith(settable) else 0o444
