"""The table of policies that a cluster can run. `wattpack replay` has others, to compare with."""

from collections.abc import Mapping

from collector.common.extensions import extend
from collector.decide.policies.draps import DRAPS
from collector.decide.policies.interface import Policy
from collector.decide.policies.least_watts.policy import LEAST_WATTS

_TABLE: tuple[Policy, ...] = (LEAST_WATTS, DRAPS)

POLICIES: Mapping[str, Policy] = {
    policy.name: policy for policy in (*_TABLE, *extend("policies", "POLICIES"))
}
