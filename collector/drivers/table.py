"""The table of all drivers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from collector.config import DriverConfig
from collector.drivers.docker import open_docker
from collector.drivers.interface import Opening
from collector.drivers.kubernetes import open_kubernetes
from collector.drivers.none import open_none
from collector.drivers.swarm import open_swarm

DRIVERS: Mapping[str, Callable[[DriverConfig], Opening]] = MappingProxyType(
    {"none": open_none, "swarm": open_swarm, "docker": open_docker, "kubernetes": open_kubernetes}
)


def open_driver(settings: DriverConfig) -> Opening:
    """Return the configured driver. Opening it raises `UserError` if its settings are invalid.

    An orchestrator that does not answer raises `DriverError` when the driver is used.
    """
    return DRIVERS[settings.name](settings)
