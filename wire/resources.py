"""The four resources. Their order and units are the same everywhere."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

Cores = Annotated[float, Meta(ge=0, le=1e6)]
"""A kernel supports a few thousand cores."""
Rate = Annotated[float, Meta(ge=0, le=1e15)]
"""In bytes per second: a thousand times the bandwidth of memory."""
Bytes = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Resource(StrEnum):
    """A resource that containers use and a node can run out of."""

    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"
    NETWORK = "network"


RESOURCES: tuple[Resource, ...] = tuple(Resource)


class Quantities(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One number per resource, in the unit of that resource. Absent means unknown, never zero.

    Usage, capacity and limits all have this type.
    """

    cpu_cores: Cores | None = None
    memory_bytes: Bytes | None = None
    disk_bytes_per_second: Rate | None = None
    network_bytes_per_second: Rate | None = None

    def of(self, resource: Resource) -> float | None:
        value: float | None = getattr(self, _FIELDS[resource])
        return value

    @property
    def values(self) -> tuple[float | None, float | None, float | None, float | None]:
        """The numbers in the order of `RESOURCES`."""
        return (
            self.cpu_cores,
            self.memory_bytes,
            self.disk_bytes_per_second,
            self.network_bytes_per_second,
        )


_FIELDS = dict(zip(RESOURCES, Quantities.__struct_fields__, strict=True))


def ratio(used: Quantities, capacity: Quantities, resource: Resource) -> float | None:
    """Usage as a share of capacity: 0-1, above 1 during a burst beyond it, None if either is unknown."""
    part, whole = used.of(resource), capacity.of(resource)
    if part is None or whole is None or whole <= 0:
        return None
    return part / whole
