"""PSI: for how long someone has been waiting for a resource, of the host and of a v2 cgroup.

Only the "some" line is taken: it is there for every resource and on every kernel that has PSI.
"""

import re

from agent.sources.files import read_file
from agent.sources.readings import PressureTotals

_MICROSECONDS = 1_000_000
_SOME_TOTAL = re.compile(rb"^some .*\btotal=([0-9]{1,20})$", re.MULTILINE)


def parse_pressure(text: bytes | None) -> float | None:
    """The "some" total in seconds, out of `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`."""
    match = _SOME_TOTAL.search(text or b"")
    return int(match[1]) / _MICROSECONDS if match else None


def parse_totals(cpu: bytes | None, memory: bytes | None, disk: bytes | None) -> PressureTotals:
    """The three files together."""
    return PressureTotals(parse_pressure(cpu), parse_pressure(memory), parse_pressure(disk))


def read_host_pressure(proc: str) -> PressureTotals:
    """The host's totals, from `/proc/pressure`."""
    return parse_totals(*(read_file(f"{proc}/pressure/{resource}") for resource in ("cpu", "memory", "io")))
