"""What is not well with the servers that the collector leans on: said once when it begins, once when it ends.

A store that is away is no reason to refuse reports or questions, so it makes nobody wait; but whoever looks
(`/readyz`, `/metrics`, the log) must see it.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum

log = logging.getLogger(__name__)


class Dependency(StrEnum):
    """What can be in trouble."""

    STORE = "store"
    """The Prometheus-compatible store of the history."""
    PULL = "pull"
    """The Prometheus that nodes are read from."""
    DRIVER = "driver"
    """The orchestrator that carries out what was decided."""


class Outages:
    """What is the matter with each part that is in use."""

    def __init__(self) -> None:
        self._parts: dict[Dependency, str] = {}

    def watch(self, part: Dependency) -> None:
        """A part is in use, and well."""
        self._parts[part] = ""

    def begin(self, part: Dependency, what: str) -> None:
        """Something is the matter, in one sentence; it is logged if the part was well before."""
        if not self._parts.get(part):
            log.warning("%s", what)
        self._parts[part] = what

    def end(self, part: Dependency, said: str) -> None:
        """The part is well; it is logged if it was not."""
        if self._parts.get(part):
            log.info("%s", said)
        self._parts[part] = ""

    @property
    def parts(self) -> Mapping[Dependency, str]:
        """The parts in use, each with what is the matter with it; empty if nothing is."""
        return self._parts

    @property
    def listed(self) -> tuple[str, ...]:
        """All that is the matter."""
        return tuple(what for what in self._parts.values() if what)
