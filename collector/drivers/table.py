"""Every driver there is: a new one is a file and a line here."""

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
    """The driver that the settings ask for; opening it raises `UserError` when it cannot be had.

    An orchestrator that is away is no reason for that: what is asked of it raises `CannotAct` then.
    """
    return DRIVERS[settings.name](settings)
