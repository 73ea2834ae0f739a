"""Outages of the collector's dependencies: logged when one begins, and when it ends.

The collector keeps working during an outage; `/readyz`, `/metrics` and the log show it.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum

log = logging.getLogger(__name__)


class Dependency(StrEnum):
    """A dependency of the collector that can fail."""

    STORE = "store"
    """The Prometheus-compatible store of the history."""
    HISTORY = "history"
    """The history on disk, which cannot be written."""
    STATE = "state"
    """The collector's own state, while a start restores it from the history."""
    PULL = "pull"
    """The Prometheus that nodes are pulled from."""
    DRIVER = "driver"
    """The orchestrator."""
    ANALYSIS = "analysis"
    """The collector's own analysis of services: a pass failed, or ignored invalid usage."""
    WORKER = "worker"
    """The process that computes analyses and plans: it ended, and is started again."""
    CLOCK = "clock"
    """The system clock: it was set while the collector ran."""
    OTHER_CLOCK = "other_clock"
    """The clock of the collector that holds the lease: it differs from this one's."""


class Outages:
    """The dependencies in use, and their outages."""

    def __init__(self) -> None:
        self._problems: dict[Dependency, str] = {}

    def watch(self, dependency: Dependency) -> None:
        """Add a dependency that works."""
        self._problems[dependency] = ""

    def begin(self, dependency: Dependency, problem: str) -> None:
        """Record that a dependency fails; log the problem, one sentence, if it worked before."""
        if not self._problems.get(dependency):
            log.warning("%s", problem)
        self._problems[dependency] = problem

    def end(self, dependency: Dependency, message: str) -> None:
        """Record that a dependency works; log the message if it failed before."""
        if self._problems.get(dependency):
            log.info("%s", message)
        self._problems[dependency] = ""

    @property
    def by_dependency(self) -> Mapping[Dependency, str]:
        """The problem of each dependency in use; empty if it works."""
        return self._problems

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for problem in self._problems.values() if problem)
