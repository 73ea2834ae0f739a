"""What the agent can do without: one folder per feature, with its settings, metrics and code.

A feature is a package in this folder that has a `FEATURE`. If its folder and its entry in the table are
deleted, the agent works without it, and its table in the settings file is unknown. The core imports no
feature, and no feature imports another.
"""

from importlib import import_module

from agent.config import AgentConfig
from agent.extension import Feature
from wire.settings import add_tables

FEATURES = ("mesh", "probing")


def load_features() -> list[Feature]:
    """The features in the order of the table."""
    return [import_module(f"agent.features.{name}").FEATURE for name in FEATURES]


def settings_class() -> type[AgentConfig]:
    """The class of the whole settings file, with the tables of all features."""
    tables = {key: kind for feature in load_features() for key, kind in feature.settings.items()}
    return add_tables(AgentConfig, tables)
