"""Recordings: watts beside what the system counted, one line per sample, as CSV.

Columns: workload, timestamp (s), watts, cpu_user, cpu_system, cpu_nice, cpu_wio, cpu_intr, cpu_sintr,
cpu_idle (percent of all cores), mem_free, mem_cached, mem_buffers (kB), bytes_read, bytes_written, bytes_in,
bytes_out (per second). Others are left alone, hardware counters among them. A file that ends in .gz is
unpacked. Only workload, timestamp, watts and cpu_idle must be there.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from powermodels.common.interface import Load
from powermodels.models.samples import Sample
from wire.errors import UserError
from wire.resources import Quantities

_NEEDED = ("workload", "timestamp", "watts", "cpu_idle")
_KIBIBYTE = 1024

# A recording does not tell what its machine could do. These are fixed, so that a number means the same in
# every recording; models take the watts at these rates, and use far less.
ASSUMED_DISK_BYTES_PER_SECOND = 1e9
ASSUMED_NETWORK_BYTES_PER_SECOND = 2.5e9


@dataclass(frozen=True, slots=True)
class Recording:
    """One machine's samples, in the file's order, each with its workload as group."""

    name: str
    samples: tuple[Sample, ...]
    scaling: Quantities

    def workloads(self) -> dict[str, tuple[Sample, ...]]:
        """The samples by workload, each in the file's order."""
        by_workload: dict[str, list[Sample]] = {}
        for sample in self.samples:
            by_workload.setdefault(sample.group, []).append(sample)
        return {name: tuple(samples) for name, samples in by_workload.items()}


def read_recording(path: Path, *, waiting_is_use: bool = False) -> Recording:
    """Read a CSV or CSV.gz file."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} cannot be read as a recording ({error}): give a CSV or CSV.gz file"
        ) from error
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    return parse_recording(name, text, waiting_is_use=waiting_is_use)


def parse_recording(name: str, text: str, *, waiting_is_use: bool = False) -> Recording:
    """A recording out of CSV text; cores that wait for a disk do nothing, unless that is to count as use."""
    reader = csv.DictReader(io.StringIO(text))
    columns = reader.fieldnames or ()
    if missing := [column for column in _NEEDED if column not in columns]:
        raise UserError(
            f"{name} has no column {', '.join(missing)}: a recording needs at least {', '.join(_NEEDED)}"
        )
    lines: list[tuple[str, dict[str, float]]] = []
    for number, line in enumerate(reader, start=2):
        try:
            values = {key: float(value) for key, value in line.items() if key != "workload" and value}
            lines.append((line["workload"], _checked(values)))
        except (TypeError, ValueError) as error:
            raise UserError(f"{name}, line {number}: {error}: mend or remove that line") from error
    if not lines:
        raise UserError(f"{name} holds no samples: record some first")
    memory_kibibytes = max(map(_available_kibibytes, (values for _, values in lines)))
    return Recording(
        name,
        tuple(
            _sample(workload, values, memory_kibibytes, waiting_is_use=waiting_is_use)
            for workload, values in lines
        ),
        Quantities(
            memory_bytes=round(memory_kibibytes * _KIBIBYTE) or None,
            disk_bytes_per_second=ASSUMED_DISK_BYTES_PER_SECOND,
            network_bytes_per_second=ASSUMED_NETWORK_BYTES_PER_SECOND,
        ),
    )


def ungrouped(samples: Iterable[Sample], group: str) -> tuple[Sample, ...]:
    """The same samples as one group."""
    return tuple(Sample(sample.seconds, sample.watts, sample.load, group) for sample in samples)


def _checked(values: dict[str, float]) -> dict[str, float]:
    for column in _NEEDED[1:]:
        if column not in values:
            raise ValueError(f"no value for {column}")
    if not all(map(isfinite, values.values())):
        raise ValueError("a value is not a finite number")
    if values["watts"] < 0:
        raise ValueError("negative watts")
    return values


def _sample(
    workload: str, values: Mapping[str, float], memory_kibibytes: float, *, waiting_is_use: bool
) -> Sample:
    waiting = 0.0 if waiting_is_use else values.get("cpu_wio", 0.0)
    memory_ratio = 1 - _available_kibibytes(values) / memory_kibibytes if memory_kibibytes > 0 else None
    load = Load(
        cpu_ratio=_unit((100 - values["cpu_idle"] - waiting) / 100),
        memory_ratio=memory_ratio,
        disk_ratio=_unit(_sum(values, ("bytes_read", "bytes_written")) / ASSUMED_DISK_BYTES_PER_SECOND),
        network_ratio=_unit(_sum(values, ("bytes_in", "bytes_out")) / ASSUMED_NETWORK_BYTES_PER_SECOND),
    )
    return Sample(values["timestamp"], values["watts"], load, workload)


def _available_kibibytes(values: Mapping[str, float]) -> float:
    return _sum(values, ("mem_free", "mem_cached", "mem_buffers"))


def _sum(values: Mapping[str, float], columns: Sequence[str]) -> float:
    return sum(values.get(column, 0.0) for column in columns)


def _unit(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))
