"""Outages of what the collector depends on: logged once when one begins, and once when it ends.

The collector keeps on working during an outage; `/readyz`, `/metrics` and the log show it.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum

log = logging.getLogger(__name__)


class Dependency(StrEnum):
    """The servers that can fail."""

    STORE = "store"
    """The Prometheus-compatible store of the history."""
    HISTORY = "history"
    """The history on disk, which cannot be written."""
    PULL = "pull"
    """The Prometheus that nodes are pulled from."""
    DRIVER = "driver"
    """The orchestrator."""
    ANALYSIS = "analysis"
    """The collector's own analysis of services: a pass failed, or left out what it could not process."""
    CLOCK = "clock"
    """The system clock: it was set while the collector ran."""
    OTHER_CLOCK = "other_clock"
    """The clock of the collector that holds the lease: it differs from this one's."""


class Outages:
    """The outages of the servers in use."""

    def __init__(self) -> None:
        self._parts: dict[Dependency, str] = {}

    def watch(self, part: Dependency) -> None:
        """Add a server, as working."""
        self._parts[part] = ""

    def begin(self, part: Dependency, problem: str) -> None:
        """A server fails; the problem, one sentence, is logged if the server worked before."""
        if not self._parts.get(part):
            log.warning("%s", problem)
        self._parts[part] = problem

    def end(self, part: Dependency, message: str) -> None:
        """A server works; the message is logged if it did not before."""
        if self._parts.get(part):
            log.info("%s", message)
        self._parts[part] = ""

    @property
    def parts(self) -> Mapping[Dependency, str]:
        """The problem of each server in use; empty if it works."""
        return self._parts

    @property
    def listed(self) -> tuple[str, ...]:
        """All problems."""
        return tuple(problem for problem in self._parts.values() if problem)
