"""The table of all policies."""

from collections.abc import Mapping

from collector.policies.baselines import BINPACK, FIRST_FIT, RANDOM, ROUND_ROBIN, SPREAD
from collector.policies.consolidate.policy import CONSOLIDATE
from collector.policies.draps import DRAPS
from collector.policies.energy4cloud.policy import ENERGY4CLOUD
from collector.policies.genpack.policy import GENPACK
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
from collector.policies.qos.policy import PRIORITY, QOS_DRIVEN

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
    GENPACK,
    ENERGY4CLOUD,
    CONSOLIDATE,
    LEAST_WATTS,
    NET_AWARE,
    NET_OPTIMAL,
    PRIORITY,
    QOS_DRIVEN,
)

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _TABLE}
