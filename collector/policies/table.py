"""Every policy there is."""

from collections.abc import Mapping

from collector.policies.binpack import BINPACK
from collector.policies.consolidate.policy import CONSOLIDATE
from collector.policies.draps import DRAPS
from collector.policies.energy4cloud.policy import ENERGY4CLOUD
from collector.policies.first_fit import FIRST_FIT
from collector.policies.genpack.policy import GENPACK
from collector.policies.interface import Policy
from collector.policies.kubernetes import BALANCED_ALLOCATION, LEAST_ALLOCATED, MOST_ALLOCATED
from collector.policies.least_watts.policy import LEAST_WATTS
from collector.policies.nomad import NOMAD
from collector.policies.random import RANDOM
from collector.policies.round_robin import ROUND_ROBIN
from collector.policies.spread import SPREAD
from collector.policies.trimaran import LOAD_VARIATION, TARGET_LOAD

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
)

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _TABLE}
