"""PSI: for how long someone has been waiting for a resource, of the host and of a v2 cgroup.

Only the "some" line is taken: it is there for every resource and on every kernel that has PSI.
"""

from agent.files import parse_count, read_file
from agent.readings import PressureTotals

_MICROSECONDS = 1_000_000


def parse_pressure(text: bytes | None) -> float | None:
    """The "some" total in seconds, out of `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`."""
    if text is None:
        return None
    for line in text.splitlines():
        kind, *fields = line.split()[:6] or [b""]
        if kind != b"some":
            continue
        for field in fields:
            key, _, value = field.partition(b"=")
            if key == b"total" and (total := parse_count(value)) is not None:
                return total / _MICROSECONDS
    return None


def read_host_pressure(proc: str) -> PressureTotals:
    """The host's totals, from `/proc/pressure`."""
    return _read(f"{proc}/pressure/", "")


def read_cgroup_pressure(directory: str) -> PressureTotals:
    """A cgroup's totals; all unknown where it has none, as in every v1 hierarchy."""
    return _read(f"{directory}/", ".pressure")


def _read(before: str, after: str) -> PressureTotals:
    cpu = read_file(f"{before}cpu{after}")
    if cpu is None:
        # The kernel has all three or none; not looking for the others halves the cost of a v1 pass.
        return PressureTotals()
    return PressureTotals(
        cpu_seconds=parse_pressure(cpu),
        memory_seconds=parse_pressure(read_file(f"{before}memory{after}")),
        disk_seconds=parse_pressure(read_file(f"{before}io{after}")),
    )
