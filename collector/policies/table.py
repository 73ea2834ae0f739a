"""The table of all policies: those of the core, and those that features add."""

from collections.abc import Mapping

from collector.common.extensions import extend
from collector.policies.baselines import BINPACK, FIRST_FIT, RANDOM, ROUND_ROBIN, SPREAD
from collector.policies.consolidate.policy import CONSOLIDATE
from collector.policies.draps import DRAPS
from collector.policies.interface import Policy
from collector.policies.least_watts.policy import LEAST_WATTS
from collector.policies.net.policy import NET_AWARE, NET_OPTIMAL
from collector.policies.peers import (
    BALANCED_ALLOCATION,
    LEAST_ALLOCATED,
    LOAD_VARIATION,
    MOST_ALLOCATED,
    NOMAD,
    TARGET_LOAD,
)

_TABLE: tuple[Policy, ...] = (
    RANDOM,
    ROUND_ROBIN,
    FIRST_FIT,
    SPREAD,
    BINPACK,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    BALANCED_ALLOCATION,
    NOMAD,
    TARGET_LOAD,
    LOAD_VARIATION,
    DRAPS,
    CONSOLIDATE,
    LEAST_WATTS,
    NET_AWARE,
    NET_OPTIMAL,
)

POLICIES: Mapping[str, Policy] = {
    policy.name: policy for policy in (*_TABLE, *extend("policies", "POLICIES"))
}
