"""When finished containers are removed."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from wire.errors import UserError
from wire.settings import Section

if TYPE_CHECKING:
    from collector.config import CollectorConfig


class CleanupConfig(Section, frozen=True):
    """Finished containers on the hosts of the driver `docker`."""

    finished: Literal["keep", "show", "remove"] = "keep"
    """`remove` removes containers that ended long ago, with their files and logs but not their volumes.
    `show` only logs which they are, and the bytes that this frees."""
    after_hours: Annotated[float, Meta(gt=0, le=87_600)] = 168.0
    """Time that a container stays after it ended. With the default, a job that runs every week can be
    inspected until it runs again."""


def _check_driver(config: "CollectorConfig") -> None:
    if config.section(CleanupConfig).finished != "keep" and config.driver.name != "docker":
        raise UserError("cleanup.finished: only driver.name = docker can remove finished containers")


TABLES = {"cleanup": CleanupConfig}
CHECKS = (_check_driver,)
