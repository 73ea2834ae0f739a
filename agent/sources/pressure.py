"""Pressure (PSI): the time that tasks waited for CPU, memory and disks, by the kernel."""

import re

from agent.sources.files import read_file
from agent.sources.readings import PressureTotals

_MICROSECONDS = 1_000_000
_SOME_TOTAL = re.compile(rb"^some .*\btotal=([0-9]{1,20})$", re.MULTILINE)


def parse_pressure(text: bytes | None) -> float | None:
    """The "some" total in seconds, from `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`."""
    if text is None:
        return None
    match = _SOME_TOTAL.search(text)
    return int(match[1]) / _MICROSECONDS if match else None


def parse_pressure_files(cpu: bytes | None, memory: bytes | None, disk: bytes | None) -> PressureTotals:
    """Parse the three pressure files."""
    return PressureTotals(parse_pressure(cpu), parse_pressure(memory), parse_pressure(disk))


def read_host_pressure(proc: str) -> PressureTotals:
    """The host's totals, from `/proc/pressure`."""
    return parse_pressure_files(
        *(read_file(f"{proc}/pressure/{resource}") for resource in ("cpu", "memory", "io"))
    )
