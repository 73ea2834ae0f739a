"""Recordings: measured watts and system counters, one line per sample, as CSV.

Columns: workload, timestamp (s), watts, cpu_user, cpu_system, cpu_nice, cpu_wio, cpu_intr, cpu_sintr,
cpu_idle (percent of all cores), mem_free, mem_cached, mem_buffers (kB), bytes_read, bytes_written, bytes_in,
bytes_out (per second). Other columns, such as hardware counters, are ignored. A file that ends in .gz is
unpacked. Only workload, timestamp, watts and cpu_idle are required.

A folder is a recording as M. Canuto et al. publish them: a file per workload, real services in the folder
`validation`, single-purpose loads next to it; without the column workload, and with `powerWatts` for watts.

A file of the Kepler model database is one workload: `platform_power` is the power at the wall. Its CPU times
are those of containers only, so the load is `cpu_cycles`, the host's, as a share of the highest value.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from powermodels.common.interface import (
    ASSUMED_DISK_BYTES_PER_SECOND,
    ASSUMED_NETWORK_BYTES_PER_SECOND,
    Load,
    completed,
)
from powermodels.models.basis import unit
from powermodels.models.samples import Sample
from wire.errors import UserError
from wire.resources import Quantities

_NEEDED = ("workload", "timestamp", "watts", "cpu_idle")
_READ = frozenset(
    {
        *_NEEDED[1:],
        *("cpu_wio", "mem_free", "mem_cached", "mem_buffers"),
        *("bytes_read", "bytes_written", "bytes_in", "bytes_out"),
    }
)
_ALIASES = {"powerWatts": "watts"}
_KEPLER_ALIASES = {"platform_power": "watts", "cpu_cycles": "cpu_idle"}
MICRO = "micro_"
"""Prefix of single-purpose loads: listed, and used for fits, but not part of a mean over real services."""
_REAL = "validation"
_GZIP = b"\x1f\x8b"
_KIBIBYTE = 1024

_Line = tuple[str, dict[str, float]]
"""A workload, and a sample of it by column."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The samples of one machine, in the order of the file, each with its workload as group."""

    name: str
    samples: tuple[Sample, ...]
    scaling: Quantities


def read_recording(path: Path, *, iowait_is_usage: bool = False) -> Recording:
    """Read a CSV or CSV.gz file, or a folder with one per workload."""
    if path.is_dir():
        name = " ".join(path.name.split())
        return _recording(name, _read_folder(path), iowait_is_usage=iowait_is_usage)
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    return parse_recording(name, _read_text(path), iowait_is_usage=iowait_is_usage)


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data[:2] == _GZIP else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} cannot be read as a recording ({error}): give a CSV or CSV.gz file"
        ) from error


def _read_folder(folder: Path) -> list[_Line]:
    micro = {f"{MICRO}{name}": path for name, path in _files(folder)}
    real = dict(_files(folder / _REAL))
    if not micro and not real:
        raise UserError(
            f"{folder} contains no recording: give the folder of one machine, with a CSV file per workload"
        )
    return [
        line
        for workload, path in (*micro.items(), *real.items())
        for line in _once(_parse_lines(str(path), _read_text(path), workload))
    ]


def _once(lines: Iterable[_Line]) -> list[_Line]:
    """The lines without duplicates: published files contain some samples twice."""
    by_values = {tuple(values.items()): (workload, values) for workload, values in lines}
    return list(by_values.values())


def _files(folder: Path) -> list[tuple[str, Path]]:
    """The CSV files of a folder by name without extension, sorted by it."""
    paths = folder.iterdir() if folder.is_dir() else ()
    named = [(path.name.removesuffix(".gz"), path) for path in paths if not path.name.startswith(".")]
    return sorted((name[:-4].lower(), path) for name, path in named if name.lower().endswith(".csv"))


def parse_recording(name: str, text: str, *, iowait_is_usage: bool = False) -> Recording:
    """Parse a recording; with `iowait_is_usage`, cores that wait for a disk count as busy."""
    return _recording(name, _parse_lines(name, text), iowait_is_usage=iowait_is_usage)


def _parse_lines(name: str, text: str, workload: str | None = None) -> list[_Line]:
    """The samples of a file; `workload` is given if the file has no column for it."""
    reader = csv.DictReader(io.StringIO(text))
    columns = [_ALIASES.get(column.strip(), column.strip()) for column in reader.fieldnames or ()]
    if workload is not None or not {"timestamp", *_KEPLER_ALIASES} <= set(columns):
        reader.fieldnames = columns
        return _parse_samples(name, reader, workload, _READ)
    reader.fieldnames = [_KEPLER_ALIASES.get(column, column) for column in columns]
    lines = _parse_samples(name, reader, name, frozenset(_NEEDED[1:]))
    most_cycles = max((values["cpu_idle"] for _, values in lines), default=0.0) or 1.0
    return [
        (workload, {**values, "cpu_idle": 100 * (1 - values["cpu_idle"] / most_cycles)})
        for workload, values in lines
    ]


def _parse_samples(
    name: str, reader: "csv.DictReader[str]", workload: str | None, read: frozenset[str]
) -> list[_Line]:
    needed = _NEEDED if workload is None else _NEEDED[1:]
    if missing := [column for column in needed if column not in (reader.fieldnames or ())]:
        raise UserError(
            f"{name} has no column {', '.join(missing)}: a recording needs at least {', '.join(needed)}"
        )
    lines: list[_Line] = []
    for number, line in enumerate(reader, start=2):
        try:
            values = {key: float(value) for key, value in line.items() if key in read and value}
            lines.append((line["workload"] if workload is None else workload, _checked(values)))
        except (TypeError, ValueError) as error:
            raise UserError(f"{name}, line {number}: {error}: correct or remove that line") from error
    return lines


def _recording(name: str, lines: Sequence[_Line], *, iowait_is_usage: bool) -> Recording:
    if not lines:
        raise UserError(f"{name} contains no samples: record some first")
    memory_kibibytes = max(map(_available_kibibytes, (values for _, values in lines)))
    return Recording(
        name,
        tuple(
            _sample(workload, values, memory_kibibytes, iowait_is_usage=iowait_is_usage)
            for workload, values in lines
        ),
        completed(Quantities(memory_bytes=round(memory_kibibytes * _KIBIBYTE) or None)),
    )


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
    workload: str, values: Mapping[str, float], memory_kibibytes: float, *, iowait_is_usage: bool
) -> Sample:
    iowait = 0.0 if iowait_is_usage else values.get("cpu_wio", 0.0)
    memory_ratio = 1 - _available_kibibytes(values) / memory_kibibytes if memory_kibibytes > 0 else None
    load = Load(
        cpu_ratio=unit((100 - values["cpu_idle"] - iowait) / 100),
        memory_ratio=memory_ratio,
        disk_ratio=unit(_sum(values, ("bytes_read", "bytes_written")) / ASSUMED_DISK_BYTES_PER_SECOND),
        network_ratio=unit(_sum(values, ("bytes_in", "bytes_out")) / ASSUMED_NETWORK_BYTES_PER_SECOND),
    )
    return Sample(values["timestamp"], values["watts"], load, workload)


def _available_kibibytes(values: Mapping[str, float]) -> float:
    return _sum(values, ("mem_free", "mem_cached", "mem_buffers"))


def _sum(values: Mapping[str, float], columns: Sequence[str]) -> float:
    return sum(values.get(column, 0.0) for column in columns)
