"""The CPU clock rate: the mean over cores, a few of them per pass.

Reading the rate of a core may interrupt it, and kernels before 5.18 take 10 ms for each. So one pass reads at
most eight cores, fewer if that takes long, and the next pass continues with the next ones. Within a minute,
all cores of most hosts are read.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from agent.sources.files import parse_count, read_file

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
    """Reads the clock rate from the cpufreq driver, or from /proc/cpuinfo without one."""

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
        try:
            with os.scandir(self._cores) as entries:
                names = sorted(entry.name for entry in entries if _CORE.fullmatch(entry.name))
        except OSError:
            return []
        files = [f"{self._cores}/{name}/cpufreq/scaling_cur_freq" for name in names]
        return [file for file in files if read_file(file) is not None]
