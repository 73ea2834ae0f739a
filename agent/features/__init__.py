"""What the agent can do without: one folder per feature, with its settings, metrics and code.

A feature is a package in this folder that has a `FEATURE`. If its folder and its entry in the table are
deleted, the agent works without it, and its table in the settings file is unknown. The core imports no
feature, and no feature imports another.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
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


class FeatureSettings(Section, frozen=True):
    """The table of a feature in the settings file."""

    enabled: bool = False


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

    key: str
    """The key of its table in the settings file."""
    settings: type[FeatureSettings]
    metrics: Sequence[MetricSpec[Any]] = ()
    """The metrics that it exposes once it is started."""
    start: Callable[[AgentParts], AbstractAsyncContextManager[StartedFeature]]
    """Started until the block ends, if its settings turn it on.

    It imports the code of the feature only then: most agents need not spend memory on it.
    """


def load_features() -> list[Feature]:
    """The features in the order of the table."""
    return [import_module(f"agent.features.{name}").FEATURE for name in FEATURES]


def settings_class() -> type[AgentConfig]:
    """The class of the whole settings file, with the tables of all features."""
    return add_tables(AgentConfig, {feature.key: feature.settings for feature in load_features()})
