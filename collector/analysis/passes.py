"""The analysis from pass to pass: what the containers of each node show, and the last result.

It runs in another process than its caller: changes of nodes go in, and changes of the result come out, in
small parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import TypeVar

from collector.analysis.analysis import NOT_FITTED, Analysis, analyse
from collector.analysis.services import RunningServices, ServiceProfile, service_table
from collector.analysis.usage import ObservedContainer, UsageWeights
from collector.config import AnalysisConfig, EnvelopeConfig
from collector.snapshot.tables import Services, Snapshot

Key = TypeVar("Key")
Value = TypeVar("Value")
_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisChanges:
    """A part of what a pass changed."""

    services: Mapping[str, ServiceProfile | None] = field(default_factory=dict)
    """The services that changed; None for those that are forgotten."""
    groups: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """As `Analysis.changed_groups`."""
    result: Analysis | None = None
    """The rest, once, as the last part."""
    table: Services | None = None
    """All services as columns, with the last part; None if they did not change."""


class AnalysisPass:
    """Analyses the cluster; all of it, or only what changed. Not thread-safe."""

    def __init__(self) -> None:
        self._settings = AnalysisConfig()
        self._running: RunningServices | None = None
        self._last = Analysis()

    def restart(self, last: Analysis) -> Iterator[None]:
        """Continue from a result that another one found; its services follow."""
        self._running, self._last = None, last
        yield None

    def restore(self, services: Mapping[str, ServiceProfile]) -> Iterator[None]:
        """Add services to the last result."""
        self._last = replace(self._last, services={**self._last.services, **services})
        yield None

    def begin(self, settings: AnalysisConfig, envelopes: EnvelopeConfig) -> Iterator[None]:
        """Begin a full pass: the containers of all nodes follow."""
        self._settings, self._running = settings, RunningServices(UsageWeights.of(envelopes))
        yield None

    def put(self, observed: Mapping[str, Sequence[ObservedContainer]]) -> Iterator[None]:
        """Replace the containers of these nodes."""
        assert self._running is not None
        for node, containers in observed.items():
            self._running.put(node, containers)
        yield None

    def run(self, snapshot: Snapshot) -> Iterator[AnalysisChanges]:
        """Analyse, and yield what changed."""
        before, running = self._last, self._running
        # A pass that fails could leave half of its changes.
        self._running = None
        assert running is not None
        found = analyse(snapshot, running.pool(snapshot.at), before, self._settings)
        self._last, self._running = found, running
        forgotten = before.services.keys() - found.services.keys()
        changed: dict[str, ServiceProfile | None] = dict.fromkeys(forgotten)
        changed |= {
            name: each for name, each in found.services.items() if before.services.get(name) is not each
        }
        for services in in_parts(changed):
            yield AnalysisChanges(services=services)
        for groups in in_parts(found.changed_groups):
            yield AnalysisChanges(groups=groups)
        # Profiles that did not change are the same objects.
        table = service_table(found.services) if changed else None
        rest = replace(found, services={}, changed_groups={}, fitted=NOT_FITTED)
        yield AnalysisChanges(result=rest, table=table)


def merged(before: Analysis, changes: Sequence[AnalysisChanges]) -> Analysis:
    """Return the result of a pass, from the last one and what changed."""
    services = dict(before.services)
    for name, profile in chain.from_iterable(each.services.items() for each in changes):
        if profile is None:
            del services[name]
        else:
            services[name] = profile
    result = changes[-1].result
    assert result is not None
    return replace(result, services=MappingProxyType(services))


def in_parts(values: Mapping[Key, Value]) -> Iterator[dict[Key, Value]]:
    """Yield a mapping in parts that are small enough to be handed over at once."""
    items = iter(values.items())
    while part := dict(islice(items, _AT_ONCE)):
        yield part
