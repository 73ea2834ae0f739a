"""The table of all drivers."""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from collector.config import DriverConfig
from collector.drivers.interface import Opening
from collector.drivers.none import open_none

OpenDriver = Callable[[DriverConfig], Opening]


def _in_folder(name: str) -> OpenDriver:
    """Return a driver that is imported when it is opened, so that a collector imports only one."""

    def open_named(settings: DriverConfig) -> Opening:
        folder = importlib.import_module(f"collector.drivers.{name}")
        return cast("OpenDriver", getattr(folder, f"open_{name}"))(settings)

    return open_named


DRIVERS: Mapping[str, OpenDriver] = MappingProxyType(
    {"none": open_none} | {name: _in_folder(name) for name in ("swarm", "docker", "kubernetes")}
)


def open_driver(settings: DriverConfig) -> Opening:
    """Return the configured driver. Opening it raises `UserError` if its settings are invalid.

    An orchestrator that does not answer raises `DriverError` when the driver is used.
    """
    return DRIVERS[settings.name](settings)
