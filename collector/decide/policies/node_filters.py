"""Filters that features add to those of every policy: where a request, and each task of a plan, may go."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from collector.common.arrays import Flags, Rows
from collector.common.extensions import extend
from collector.decide.policies.interface import Rejection, Request
from collector.snapshot.matching import nodes_for
from collector.snapshot.tables import Snapshot


class PlanFilter(Protocol):
    """A filter while a plan is made, which moves tasks one after the other."""

    def open_to(self, task: int, home: Rows) -> Flags | None:
        """Return the nodes that a task may go to while all tasks are at `home`; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """A rule of a feature about the nodes that a container may use."""

    rejection: Rejection
    """Why it refuses a node. Each filter has its own."""
    subject: str
    """What it enforces, in the plural."""
    nodes_for: Callable[[Snapshot, Request], Flags | None]
    """The nodes that a request may use; None for all."""
    describe: Callable[[Snapshot, Request, int], str]
    """Why a request may not use a node, given by its row."""
    note: Callable[[Snapshot, Request], str | None]
    """Why the filter cannot be applied to a request that it concerns; None if it can."""
    services: Callable[[Snapshot], Flags | None]
    """The services whose containers it restricts; None for none. Services after these are not restricted."""
    of_plan: Callable[[Snapshot], PlanFilter]
    """The filter for one plan."""


def node_filters(snapshot: Snapshot) -> tuple[NodeFilter, ...]:
    """Return the filters of all features; none for a snapshot without them."""
    return extend("filters", "FILTERS") if snapshot.is_filtered else ()


class OpenNodes:
    """Where each task may go while a plan is made: to nodes that meet its constraints and all filters."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._filters = [each.of_plan(snapshot) for each in node_filters(snapshot)]

    def open_to(self, task: int, home: Rows) -> Flags | None:
        """Return the nodes that a task may go to while all tasks are at `home`; None for all."""
        found = nodes_for(self._snapshot, task)
        for each in self._filters:
            more = each.open_to(task, home)
            if more is not None:
                found = more if found is None else found & more
        return found
