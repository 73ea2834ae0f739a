"""The table of drivers: `none`, and those that features add."""

from collector.common.extensions import features_with, load
from collector.config import DriverConfig
from collector.drivers.interface import Opening
from collector.drivers.none import open_none
from wire.errors import UserError


def drivers() -> tuple[str, ...]:
    """The names of all drivers. A driver has the name of its feature."""
    return ("none", *features_with("driver"))


def open_driver(settings: DriverConfig) -> Opening:
    """Return the configured driver, which is imported here, so that a collector imports only one.

    Raise `UserError` if there is no such driver; opening it does if its settings are invalid. An orchestrator
    that does not answer raises `DriverError` when the driver is used.
    """
    if settings.name == "none":
        return open_none(settings)
    if settings.name not in drivers():
        known = ", ".join(drivers())
        raise UserError(f"driver.name: there is no driver {settings.name!r}: choose one of {known}")
    opened: Opening = load(settings.name, "driver").open_driver(settings)
    return opened
