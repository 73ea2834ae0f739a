"""Every driver there is: a new one is a file and a line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from collector.config import Driver as Settings
from collector.drivers.interface import Opening
from collector.drivers.none import open_none

DRIVERS: Mapping[str, Callable[[Settings], Opening]] = MappingProxyType({"none": open_none})


def open_driver(settings: Settings) -> Opening:
    """The driver that the settings ask for; opening it raises `Complaint` when it cannot be had.

    An orchestrator that is away is no reason for that: what is asked of it raises `CannotAct` then.
    """
    return DRIVERS[settings.name](settings)
