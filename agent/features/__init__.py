"""What the agent can do without: one folder per feature, with its settings, metrics and code.

A feature is a package in this folder that has a `FEATURE`. If its folder and its entry in the table are
deleted, the agent works without it, and its table in the settings file is unknown. The core imports no
feature, and no feature imports another.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from prometheus_client.core import Metric

from agent.config import AgentConfig
from agent.reporting.reporter import Addition
from agent.sources.docker import DockerWatcher
from wire.metrics import MetricSpec
from wire.settings import Section, add_tables

FEATURES = ("mesh", "probing")


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The parts of a starting agent that a feature may use."""

    node: str
    config: AgentConfig
    names: DockerWatcher | None
    """The containers of the host; None without an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedFeature:
    """What a started feature adds to the running agent."""

    run: Callable[[], Coroutine[object, object, None]]
    """Runs until the agent stops."""
    collect_metrics: Callable[[], Iterable[Metric]] = tuple
    """Called at each scrape."""
    take_addition: Callable[[], Addition | None] = lambda: None
    """Called after each sample; returns what the next report contains in addition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A capability that the agent can do without."""

    settings: Mapping[str, type[Section]]
    """Its tables in the settings file, by key."""
    metrics: Sequence[MetricSpec[Any]] = ()
    """The metrics that it exposes once it is started."""
    start: Callable[[AgentParts], AbstractAsyncContextManager[StartedFeature | None]]
    """Started until the block ends; None if its settings turn it off.

    It imports the code of the feature only if it is on: most agents need not spend memory on it.
    """


def load_features() -> list[Feature]:
    """The features in the order of the table."""
    return [import_module(f"agent.features.{name}").FEATURE for name in FEATURES]


def settings_class() -> type[AgentConfig]:
    """The class of the whole settings file, with the tables of all features."""
    tables = {key: kind for feature in load_features() for key, kind in feature.settings.items()}
    return add_tables(AgentConfig, tables)
