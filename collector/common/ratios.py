"""Shares of resources in the API."""

from collections.abc import Iterable
from math import isnan

import msgspec


class Ratios(msgspec.Struct, frozen=True, omit_defaults=True):
    """A share of each resource's capacity, 0-1; above 1 where a burst exceeds the capacity."""

    cpu_ratio: float | None = None
    memory_ratio: float | None = None
    disk_ratio: float | None = None
    network_ratio: float | None = None


def ratios_of(shares: Iterable[float]) -> Ratios:
    """Return shares in the order of `RESOURCES` as `Ratios`; NaN, which is unknown, is left out."""
    return Ratios(*[None if isnan(share) else share for share in shares])
