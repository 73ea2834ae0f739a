"""Promises to services: the share of the time in which they run."""

from dataclasses import dataclass
from enum import StrEnum


class ServiceMode(StrEnum):
    """How the running and waiting times of the instances of a service make up its availability."""

    INDEPENDENT = "independent"
    """Each instance has an availability; the lowest is that of the service."""
    CONCURRENT = "concurrent"
    """Running time counts only while all instances run."""
    AGGREGATED = "aggregated"
    """The times of all instances are added up."""
    BATCH = "batch"
    """As aggregated, but the time of an instance that was stopped before its end is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A class of promises."""

    name: str
    availability: float
    """Promised share of the time since the admission in which an instance runs: above 0, up to 1."""
    importance: int
    """1 is the most important class."""
