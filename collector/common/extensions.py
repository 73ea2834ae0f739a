"""Finds what features add to the collector: modules with fixed names in `collector/features/NAME/`.

| module | defines | added to |
|---|---|---|
| `settings` | `TABLES` of `collector.toml` by key; `CHECKS` | the settings |
| `policies` | `POLICIES` | the table of policies |
| `filters` | `FILTERS`: a `NodeFilter` each | the filters of every ranking and plan |
| `labels` | `LABELS`; `COMPLETE`: functions that add labels of a container to place | docs; placement |
| `guards` | `GUARDS`: names and functions | the checks of every step |
| `controllers` | `CONTROLLERS`: what runs in each round of the control loop | the control loop |
| `live` | `LIVE`: types of `LivePart` | the state of the cluster in the registry |
| `snapshot` | `PARTS`: types of `SnapshotPart` | the bytes of a snapshot |
| `pull` | `pull(core, source, nodes, at)`: after nodes were read from a store | the pull |
| `driver` | `open_driver(settings)`: the driver with the name of the feature | the drivers |
| `history` | `open_history(config, outages)`: the store with the name of the feature | the history |
| `jobs` | `restoring(core)`, `restore(core)`: before reports arrive; `running(core)`: meanwhile | the start |
| `jobs` | `remove_node(core, node)`: take out what it contributed | revocations of tokens |
| `findings` | `findings(core)`: bottlenecks now | the alerts of the collector |
| `routes` | `ROUTES` | the route table |
| `metrics` | `METRICS`; `collect(api)`: the families of one scrape | `/metrics` |
| `page.js` | a script that adds cards to views | the web page |

A feature has the modules that it needs. The core loads them by name, so it depends on no feature.
"""

from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGE = "collector.features"


def features_with(module: str) -> tuple[str, ...]:
    """The features that have a module of this name, in the order of their table; none is imported."""
    features: tuple[str, ...] = import_module(_PACKAGE).FEATURES
    return tuple(name for name in features if find_spec(f"{_PACKAGE}.{name}.{module}") is not None)


def load(feature: str, module: str) -> ModuleType:
    """A module of a feature."""
    return import_module(f"{_PACKAGE}.{feature}.{module}")


@cache
def extensions(module: str) -> tuple[ModuleType, ...]:
    """The modules of this name of all features that have one, in the order of their table."""
    return tuple(load(name, module) for name in features_with(module))


def feature_files(name: str) -> tuple[tuple[str, bytes], ...]:
    """The features that have a file of this name, each with its content."""
    features: tuple[str, ...] = import_module(_PACKAGE).FEATURES
    found = ((feature, files(f"{_PACKAGE}.{feature}").joinpath(name)) for feature in features)
    return tuple((feature, file.read_bytes()) for feature, file in found if file.is_file())


def extend(module: str, attribute: str) -> tuple[Any, ...]:
    """The values of a tuple or mapping that modules of this name define, one after the other."""
    return tuple(each for extension in extensions(module) for each in getattr(extension, attribute, ()))
