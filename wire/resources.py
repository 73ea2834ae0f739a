"""The four resources, in one order and one unit each, everywhere."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

MAX_VALUE = 1e300
"""Above any quantity, and far enough below infinity, which msgpack can say, that no sum gets there."""
Amount = Annotated[float, Meta(ge=0, le=MAX_VALUE)]
Bytes = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Resource(StrEnum):
    """What a container uses and a node can run out of."""

    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"
    NETWORK = "network"


RESOURCES: tuple[Resource, ...] = tuple(Resource)


class Quantities(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One number per resource, in that resource's unit; absent means not known, never zero.

    The same shape carries what is used, what there is, and what is allowed.
    """

    cpu_cores: Amount | None = None
    memory_bytes: Bytes | None = None
    disk_bytes_per_second: Amount | None = None
    network_bytes_per_second: Amount | None = None

    def of(self, resource: Resource) -> float | None:
        """The number for one resource."""
        match resource:
            case Resource.CPU:
                return self.cpu_cores
            case Resource.MEMORY:
                return self.memory_bytes
            case Resource.DISK:
                return self.disk_bytes_per_second
            case Resource.NETWORK:
                return self.network_bytes_per_second


def ratio(used: Quantities, capacity: Quantities, resource: Resource) -> float | None:
    """How much of its capacity is used (0-1, above 1 where a burst exceeds it); None if either is unknown."""
    part, whole = used.of(resource), capacity.of(resource)
    if part is None or whole is None or whole <= 0:
        return None
    return part / whole
