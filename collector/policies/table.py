"""Every policy there is."""

from collections.abc import Mapping

from collector.policies.interface import Policy

_TABLE: tuple[Policy, ...] = ()

POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in _TABLE}
