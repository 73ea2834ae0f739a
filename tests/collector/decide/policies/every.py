"""Every policy: those of the collector, and those of replay to compare with."""

from collections.abc import Mapping
from importlib import import_module

from collector.decide.policies.interface import Policy
from collector.features import FEATURES

# Tests of the core run without features, which replay needs.
_TABLE = "replay.contenders.table" if "promises" in FEATURES else "collector.decide.policies.table"
POLICIES: Mapping[str, Policy] = import_module(_TABLE).POLICIES
