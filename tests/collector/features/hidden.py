"""A plugin for pytest: hides features of the collector, as if their folders and lines were deleted."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import collector.features

HIDDEN_FEATURES = "WATTPACK_HIDDEN_FEATURES"


class _Hidden:
    """Finds no module of the feature."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == self._package or name.startswith(f"{self._package}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def hide(feature: str) -> None:
    """Hide the feature of this name, before anything imports it."""
    assert feature in collector.features.FEATURES
    collector.features.FEATURES = tuple(each for each in collector.features.FEATURES if each != feature)
    sys.meta_path.insert(0, _Hidden(f"collector.features.{feature}"))


for _name in os.environ.get(HIDDEN_FEATURES, "").split():
    hide(_name)
