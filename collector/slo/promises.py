"""What a service is promised: a share of its time in which it runs."""

from dataclasses import dataclass
from enum import StrEnum


class ServiceMode(StrEnum):
    """How the running and waiting times of the instances of a service make up its availability."""

    INDEPENDENT = "independent"
    """Each instance for itself; that of the service is the lowest."""
    CONCURRENT = "concurrent"
    """Time counts only while all instances run."""
    AGGREGATED = "aggregated"
    """The times of all instances, added up."""
    BATCH = "batch"
    """As aggregated, and the time of an instance that was stopped before its end is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A class of promises."""

    name: str
    availability: float
    """Share of the time since its admission in which an instance runs: above 0, up to 1."""
    importance: int
    """1 is the most important class."""
