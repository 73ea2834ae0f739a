"""Hosts as a CSV: `host,cpu,memory,attributes`, as shares of the largest machine.

Attributes are `name=value`, separated by semicolons. The power of these hosts is unknown and counts as 0.
"""

from collections.abc import Mapping
from pathlib import Path

from replay.readers.google2011 import WHOLE
from replay.readers.queues.rows import not_negative, read_rows
from replay.setup.scenario import MIPS_PER_CORE, Host, Machines
from wire.errors import UserError

_COLUMNS = ("host", "cpu", "memory", "attributes")
_NO_WATTS = (0.0, 0.0)


def read_hosts(path: Path, whole: Machines = WHOLE) -> tuple[Host, ...]:
    """Read every host of the file; `whole` is the size of the largest machine."""

    def parse(row: Mapping[str, str]) -> Host:
        cpu, memory = not_negative(row["cpu"]), not_negative(row["memory"])
        if not (row["host"] and cpu and memory):
            raise ValueError("a host needs a name, CPU and memory")
        return Host(
            name=row["host"],
            cpu_cores=cpu * whole.cpu_mips / MIPS_PER_CORE,
            memory_mb=memory * whole.memory_mb,
            watts=_NO_WATTS,
            labels=_attributes(row["attributes"]),
        )

    hosts = tuple(read_rows(path, _COLUMNS, parse))
    if not hosts:
        raise UserError(f"{path} has no hosts")
    if len({host.name for host in hosts}) != len(hosts):
        raise UserError(f"{path}: two hosts have the same name")
    return hosts


def _attributes(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(";") if pair]
    if any(not equals for _, equals, _ in pairs):
        raise ValueError(f"attributes are name=value, separated by semicolons: {text}")
    return {name: value for name, _, value in pairs}


def read_startup_seconds(path: Path) -> tuple[float, ...]:
    """Read measured start-up times: a CSV with the column `seconds`."""
    seconds = tuple(read_rows(path, ("seconds",), lambda row: not_negative(row["seconds"])))
    if not seconds:
        raise UserError(f"{path} has no start-up times")
    return seconds
