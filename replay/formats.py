"""Every format of a trace that can be read."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from replay.readers import bitbrains, planetlab
from replay.scenario import Machines
from replay.workload import Workload
from wire.complaint import Complaint

Read = Callable[[Path, Sequence[Machines]], Workload]

FORMATS: Mapping[str, Read] = {
    "planetlab": planetlab.read,
    "bitbrains": bitbrains.read,
}


def read_trace(path: Path, name: str, machines: Sequence[Machines]) -> Workload:
    """A workload from a file."""
    if name not in FORMATS:
        raise Complaint(f"there is no trace format {name!r}: there are {', '.join(FORMATS)}")
    return FORMATS[name](path, machines)
